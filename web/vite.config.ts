import { defineConfig, type Plugin } from "vite";
import manifest from "./package.json" with { type: "json" };

const DETENT = "http://127.0.0.1:5680";

/** What reaches the browser comes with its licences, as they ask for. */
function licences(): Plugin {
  return {
    name: "licences",
    async generateBundle(_, bundle) {
      const names = new Set(Object.keys(manifest.dependencies));
      for (const each of Object.values(bundle)) {
        for (const file of each.type === "chunk" ? Object.keys(each.modules) : []) {
          const found = /node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(file);
          if (found?.[1]) names.add(found[1]);
        }
      }
      const texts = [...names].sort().map(async (name) => {
        const text = await this.fs.readFile(`node_modules/${name}/LICENSE`, { encoding: "utf8" });
        return `${name}\n\n${text.trim()}\n`;
      });
      const source = (await Promise.all(texts)).join(`\n${"-".repeat(80)}\n\n`);
      this.emitFile({ type: "asset", fileName: "licences.txt", source });
    },
  };
}

// No inline script or style comes out of this: the page's security policy forbids both.
export default defineConfig({
  plugins: [licences()],
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
