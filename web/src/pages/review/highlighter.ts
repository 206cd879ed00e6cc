// Colours the lines of a diff. The highlighter and each language are loaded when a file needs them.
import type { HLJSApi, LanguageFn } from "highlight.js";
import type { ReviewHunk, ReviewLine } from "../../api/schema";
import { readTokens, type Token } from "./tokens";

type Load = () => Promise<{ default: LanguageFn }>;

const LANGUAGES: Record<string, Load> = {
  bash: () => import("highlight.js/lib/languages/bash"),
  c: () => import("highlight.js/lib/languages/c"),
  cpp: () => import("highlight.js/lib/languages/cpp"),
  csharp: () => import("highlight.js/lib/languages/csharp"),
  css: () => import("highlight.js/lib/languages/css"),
  diff: () => import("highlight.js/lib/languages/diff"),
  dockerfile: () => import("highlight.js/lib/languages/dockerfile"),
  go: () => import("highlight.js/lib/languages/go"),
  ini: () => import("highlight.js/lib/languages/ini"),
  java: () => import("highlight.js/lib/languages/java"),
  javascript: () => import("highlight.js/lib/languages/javascript"),
  json: () => import("highlight.js/lib/languages/json"),
  kotlin: () => import("highlight.js/lib/languages/kotlin"),
  less: () => import("highlight.js/lib/languages/less"),
  lua: () => import("highlight.js/lib/languages/lua"),
  makefile: () => import("highlight.js/lib/languages/makefile"),
  markdown: () => import("highlight.js/lib/languages/markdown"),
  perl: () => import("highlight.js/lib/languages/perl"),
  php: () => import("highlight.js/lib/languages/php"),
  python: () => import("highlight.js/lib/languages/python"),
  r: () => import("highlight.js/lib/languages/r"),
  ruby: () => import("highlight.js/lib/languages/ruby"),
  rust: () => import("highlight.js/lib/languages/rust"),
  scala: () => import("highlight.js/lib/languages/scala"),
  scss: () => import("highlight.js/lib/languages/scss"),
  sql: () => import("highlight.js/lib/languages/sql"),
  swift: () => import("highlight.js/lib/languages/swift"),
  typescript: () => import("highlight.js/lib/languages/typescript"),
  xml: () => import("highlight.js/lib/languages/xml"),
  yaml: () => import("highlight.js/lib/languages/yaml"),
};

/** Languages by the end of a file's name, for each of them: its other endings and names. */
const ENDINGS: Record<string, string> = {
  bash: "sh bash zsh",
  c: "c h",
  cpp: "cc cpp cxx hh hpp hxx",
  csharp: "cs",
  css: "css",
  diff: "diff patch",
  dockerfile: "dockerfile",
  go: "go",
  ini: "ini cfg conf toml properties",
  java: "java",
  javascript: "js jsx mjs cjs",
  json: "json jsonl json5 webmanifest",
  kotlin: "kt kts",
  less: "less",
  lua: "lua",
  makefile: "makefile mk",
  markdown: "md markdown",
  perl: "pl pm",
  php: "php",
  python: "py pyi pyw",
  r: "r",
  ruby: "rb rake gemfile",
  rust: "rs",
  scala: "scala",
  scss: "scss",
  sql: "sql",
  swift: "swift",
  typescript: "ts tsx mts cts",
  xml: "xml html htm svg xhtml vue svelte",
  yaml: "yml yaml",
};

const BY_ENDING = new Map(
  Object.entries(ENDINGS).flatMap(([language, endings]) =>
    endings.split(" ").map((ending) => [ending, language] as const),
  ),
);

/** Longer texts stay without colours: they would take too long, and they are not read as code. */
const MAX_LINE = 2_000;
const MAX_HUNK = 120_000;

export function languageOf(path: string): string | null {
  const name = path.slice(path.lastIndexOf("/") + 1).toLowerCase();
  return BY_ENDING.get(name.slice(name.lastIndexOf(".") + 1)) ?? null;
}

let core: Promise<HLJSApi> | undefined;

async function load(language: string): Promise<HLJSApi> {
  core ??= import("highlight.js/lib/core").then((module) => module.default);
  const [api, { default: definition }] = await Promise.all([core, LANGUAGES[language]!()]);
  if (!api.getLanguage(language)) api.registerLanguage(language, definition);
  return api;
}

/** Lets the browser answer the user between two parts of the work. */
const pause = () =>
  new Promise<void>((resolve) =>
    "requestIdleCallback" in window
      ? requestIdleCallback(() => resolve(), { timeout: 500 })
      : setTimeout(resolve),
  );

/** The tokens of each line; null if the file has no language that is known here. Each side of a
 * hunk is read by itself, because the lines between two hunks are not there. */
export async function highlight(
  path: string,
  hunks: readonly ReviewHunk[],
): Promise<Map<ReviewLine, Token[]> | null> {
  const language = languageOf(path);
  if (language === null) return null;
  const api = await load(language);
  const found = new Map<ReviewLine, Token[]>();
  for (const { lines } of hunks) {
    for (const other of ["added", "removed"]) {
      const side = lines.filter((line) => line.kind !== other);
      if (!isReadable(side)) continue;
      await pause();
      const text = side.map((line) => line.text).join("\n");
      const tokens = readTokens(api.highlight(text, { language, ignoreIllegals: true }).value);
      for (const [at, line] of side.entries()) found.set(line, tokens[at] ?? []);
    }
  }
  return found;
}

function isReadable(lines: readonly ReviewLine[]): boolean {
  const length = lines.reduce((sum, line) => sum + line.text.length, 0);
  return length <= MAX_HUNK && lines.every((line) => line.text.length <= MAX_LINE);
}
