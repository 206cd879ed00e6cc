import { defineConfig } from "vite";

const DETENT = "http://127.0.0.1:5680";

// No inline script or style comes out of this: the page's security policy forbids both.
export default defineConfig({
  build: {
    target: "es2022",
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    rolldownOptions: {
      // A mark for servers that render React, which this page has no use for.
      onwarn: (warning, tell) => warning.code !== "MODULE_LEVEL_DIRECTIVE" && tell(warning),
    },
  },
  server: {
    // Requests go to a running detent as if they came from its own page.
    proxy: {
      "/api": { target: DETENT, ws: true, changeOrigin: true, headers: { origin: DETENT } },
    },
  },
});
