import hljs from "highlight.js/lib/core";
import python from "highlight.js/lib/languages/python";
import { describe, expect, test, vi } from "vitest";
import type { Comment, CommentPlace, DiffFile, ReviewHunk, ReviewLine } from "../../api/schema";
import {
  blocks,
  changedSpans,
  hasMixedEnds,
  type Row,
  splitRows,
  unifiedRows,
  withFolds,
  withoutSpaceChanges,
} from "./diff_rows";
import { DraftSaver, DraftSavers } from "./draft_saver";
import { factsOf } from "./file_facts";
import { type FileLines, FileLoader } from "./file_loader";
import { fileTree, inTreeOrder, matching } from "./file_tree";
import { findingsOf } from "./findings";
import { languageOf } from "./highlighter";
import { linesIn, lineText } from "./line_link";
import { below, grouped, inPageOrder, ownDrafts, placeWords } from "./notes_of_file";
import { testCounts } from "./test_counts";
import { pieces, readTokens } from "./tokens";

/** A hunk from lines with their signs. */
function hunk(...texts: string[]): ReviewHunk {
  let [before, after] = [0, 0];
  const lines = texts.map((text): ReviewLine => {
    const kind = text[0] === "+" ? "added" : text[0] === "-" ? "removed" : "context";
    return {
      kind,
      text: text.slice(1),
      before: kind === "added" ? null : ++before,
      after: kind === "removed" ? null : ++after,
      no_newline: false,
    };
  });
  const counts = { before_count: before, after_count: after };
  return { before_start: 1, after_start: 1, ...counts, heading: "", lines };
}

const shape = (rows: readonly Row[]) =>
  rows.flatMap((row) =>
    row.kind === "line" ? [[row.left?.text ?? null, row.right?.text ?? null]] : [],
  );

describe("rows", () => {
  test("unified: one line a row; side by side: what replaced what", () => {
    const hunks = [hunk(" a", "-b", "-c", "+B", " d", "-e", "+E", "+F")];
    expect(shape(unifiedRows(hunks))).toEqual([
      ["a", "a"],
      ["b", null],
      ["c", null],
      [null, "B"],
      ["d", "d"],
      ["e", null],
      [null, "E"],
      [null, "F"],
    ]);
    expect(shape(splitRows(hunks))).toEqual([
      ["a", "a"],
      ["b", "B"],
      ["c", null],
      ["d", "d"],
      ["e", "E"],
      [null, "F"],
    ]);
  });
  test("lines that differ in white space alone become context; hunks without more are left out", () => {
    const [shown] = withoutSpaceChanges([hunk("-a", "-  b", "-c", "+b", "+ C", "+ d")]);
    expect(shown!.lines.map((line) => [line.kind, line.text, line.before, line.after])).toEqual([
      ["removed", "a", 1, null],
      ["context", "b", 2, 1],
      ["removed", "c", 3, null],
      ["added", " C", null, 2],
      ["added", " d", null, 3],
    ]);
    expect(withoutSpaceChanges([hunk(" a", "-\tb", "+  b")])).toEqual([]);
  });
  test("long runs of context are folded, unless they are opened or have a comment", () => {
    const lines = Array.from({ length: 40 }, (_, at) => ` ${at}`);
    const rows = unifiedRows([hunk("-x", ...lines, "+y")]);
    const folded = withFolds(rows, new Set(), () => false);
    const fold = folded.find((row) => row.kind === "fold");
    expect(fold?.rows.length).toBe(32);
    expect(withFolds(rows, new Set([fold!.key]), () => false)).toEqual(rows);
    expect(withFolds(rows, new Set(), (row) => row.right?.after === 20)).toEqual(rows);
    expect(blocks(rows, 20).map((block) => block.length)).toEqual([20, 20, 3]);
  });
  test("the part that differs is named only where the lines have much in common", () => {
    const one = hunk("-let a = 1;", "+let a = 22;", " x", "-foo", "+something else");
    const spans = changedSpans([one]);
    expect([...spans.values()]).toEqual([
      [8, 9],
      [8, 10],
    ]);
  });
  test("the part that differs begins and ends with words", () => {
    const spans = changedSpans([hunk("-  return result;", "+  return resolve(result);")]);
    expect([...spans.values()]).toEqual([
      [9, 15],
      [9, 24],
    ]);
    const ends = changedSpans([hunk("-if (counted) go()", "+if (listed) go()")]);
    expect([...ends.values()]).toEqual([
      [4, 11],
      [4, 10],
    ]);
  });
  test("line ends are marked only where they differ", () => {
    expect(hasMixedEnds([hunk(" a\r", "-b\r", "+c\r")])).toBe(false);
    expect(hasMixedEnds([hunk(" a", "-b")])).toBe(false);
    expect(hasMixedEnds([hunk(" a\r", "-b\r", "+b")])).toBe(true);
  });
});

describe("tokens", () => {
  test("what the highlighter answers is read back as the same text", () => {
    hljs.registerLanguage("python", python);
    const text = 'def f(a):\n    """<b>&amp;\n    x"""\n    return "a" < 1 & \'c\'';
    const lines = readTokens(hljs.highlight(text, { language: "python" }).value);
    expect(lines.map((line) => line.map(([, part]) => part).join("")).join("\n")).toBe(text);
    expect(lines[0]![0]).toEqual(["hljs-keyword", "def"]);
    // The class goes on in the next line.
    expect(lines[2]![0]![0]).toBe("hljs-string");
  });
  test("markup that the highlighter never writes stays text", () => {
    expect(readTokens('<img src="x">&bogus;')).toEqual([[[null, '<img src="x">&bogus;']]]);
  });
  test("pieces are cut at the changed part", () => {
    expect(
      pieces(
        [
          ["k", "return"],
          [null, " one"],
        ],
        [4, 8],
      ),
    ).toEqual([
      { kind: "k", text: "retu", changed: false },
      { kind: "k", text: "rn", changed: true },
      { kind: null, text: " o", changed: true },
      { kind: null, text: "ne", changed: false },
    ]);
  });
  test("languages by the name of a file", () => {
    expect(
      ["a/b.py", "Dockerfile", "x/Makefile", "a.tsx", "LICENSE", ".env"].map(languageOf),
    ).toEqual(["python", "dockerfile", "makefile", "typescript", null, null]);
  });
});

const file = (path: string): DiffFile => ({ path }) as DiffFile;

describe("files", () => {
  test("a tree with directories first and single entries joined", () => {
    const files = ["z.py", "src/app/b.py", "src/app/a.py", "docs/x.md"].map(file);
    expect(fileTree(files).map((entry) => entry.name)).toEqual(["docs", "src/app", "z.py"]);
    expect(inTreeOrder(files).map((each) => each.path)).toEqual([
      "docs/x.md",
      "src/app/a.py",
      "src/app/b.py",
      "z.py",
    ]);
    expect(matching(files, "APP/").length).toBe(2);
  });
  test("what is no plain file is named, and so is why a file is folded", () => {
    const facts = (fields: Partial<DiffFile>) =>
      factsOf({ ...file("x"), status: "added", lines: 3, ...fields });
    expect(facts({ new_mode: "100644" })).toEqual(["added"]);
    expect(facts({ new_mode: "120000" })).toEqual(["added", "symbolic link"]);
    expect(facts({ new_mode: "100755" })).toEqual(["added", "executable"]);
    expect(facts({ status: "deleted", old_mode: "160000" })).toEqual(["deleted", "submodule"]);
    expect(facts({ status: "modified", old_mode: "100644", new_mode: "100755" })).toEqual([
      "mode 100644 → 100755",
    ]);
    expect(facts({ generated: true, generated_kind: "lock_file" })).toEqual(["added", "lock file"]);
    expect(facts({ lines: 801, binary: true })).toEqual(["added", "long", "binary"]);
  });
  test("lines have a text in the address", () => {
    const place = (side: "before" | "after", start: number, end: number) =>
      ({ file: "a.py", side, start, end }) as const;
    const cases: [CommentPlace, string][] = [
      [place("after", 4, 4), "4"],
      [place("after", 4, 6), "4-6"],
      [place("before", 12, 12), "before:12"],
    ];
    for (const [lines, text] of cases) {
      expect(lineText(lines)).toBe(text);
      expect(linesIn("a.py", text)).toEqual(lines);
    }
    expect(lineText(place("after", 0, 0))).toBeNull();
    expect(lineText(null)).toBeNull();
    expect(linesIn("a.py", "6-4")).toEqual(place("after", 4, 6));
    for (const wrong of ["", "0", "-1", "4-", "x", "after:4", "4<b>", "9".repeat(20)]) {
      expect(linesIn("a.py", wrong)).toBeNull();
    }
    expect(linesIn(null, "4")).toBeNull();
  });
  test("strange names are names", () => {
    const files = ["__proto__/constructor", "../x", "/abs", "a//b"].map(file);
    expect(inTreeOrder(files).length).toBe(4);
  });
  test("the rest is loaded also if no file is in view", async () => {
    const asked: string[] = [];
    const loader = new FileLoader(
      async (path) => {
        asked.push(path);
        return { hunks: [], truncated: false };
      },
      ["a", "b"],
    );
    loader.start();
    await vi.waitFor(() => expect(asked).toEqual(["a", "b"]));
  });
  test("no further file is loaded once the page is left", async () => {
    const asked: string[] = [];
    const answers: ((lines: FileLines) => void)[] = [];
    const read = (path: string) =>
      new Promise<FileLines>((resolve) => {
        asked.push(path);
        answers.push(resolve);
      });
    const loader = new FileLoader(read, ["a", "b"]);
    loader.start();
    loader.stop();
    loader.want("c");
    answers[0]!({ hunks: [], truncated: false });
    await vi.waitFor(() => expect(loader.look("a")).not.toBeNull());
    await Promise.resolve();
    expect(asked).toEqual(["a"]);
    loader.start();
    await vi.waitFor(() => expect(asked).toEqual(["a", "c"]));
  });
  test("files in view are loaded before the rest, each once", async () => {
    const asked: string[] = [];
    const answers: (() => void)[] = [];
    const read = (path: string) =>
      new Promise<FileLines>((resolve) => {
        asked.push(path);
        answers.push(() => resolve({ hunks: [], truncated: false }));
      });
    const loader = new FileLoader(read, ["a", "b", "c"]);
    loader.want("c");
    loader.want("c");
    expect(asked).toEqual(["c"]);
    answers[0]!();
    await vi.waitFor(() => expect(asked).toEqual(["c", "a"]));
    loader.want("b");
    expect(asked).toEqual(["c", "a", "b"]);
    expect(loader.look("c")).toEqual({ file: { hunks: [], truncated: false } });
  });
});

describe("comments", () => {
  const comment = (id: string, end: number, path: string | null): Comment =>
    ({
      id,
      place: path && { file: path, side: "after", start: end, end },
      state: "open",
    }) as Comment;
  test("by file and line; the rest is outdated, or about the whole file", () => {
    const comments = [comment("1", 9, "a"), comment("2", 4, "a"), comment("3", 1, null)];
    const found = grouped({ diff: "d", comments, drafts: [] }, []);
    expect(found.outdated.map((each) => each.id)).toEqual(["3"]);
    const { at, rest } = below(found.byFile.get("a")!, new Set(["after:9"]));
    expect(at.get("after:9")!.comments[0]!.id).toBe("1");
    expect(rest.comments[0]!.id).toBe("2");
    expect(inPageOrder(found, [{ path: "a" }])).toEqual(["3", "2", "1"]);
  });
  test("a draft that was just opened and then stored is one draft", () => {
    const place = { file: "a", side: "after", start: 1, end: 1 } as const;
    const opened = { id: "x", text: "typed", replyTo: null, place, outdated: null, open: true };
    const stored = { id: "x", at: "", text: "old", reply_to: null, anchor: null, place };
    expect(ownDrafts([stored], [opened])).toEqual([opened]);
    expect(ownDrafts([stored], [])).toEqual([{ ...opened, text: "old", open: false }]);
  });
  test("words for a place", () => {
    const words = (start: number, end: number, side: "before" | "after") =>
      placeWords({ start, end, side });
    expect([words(0, 0, "after"), words(3, 3, "after"), words(3, 5, "before")]).toEqual([
      "the file",
      "line 3",
      "lines 3 to 5 (before)",
    ]);
  });
});

describe("saving while typing", () => {
  test("the last text is saved last, one request at a time", async () => {
    vi.useFakeTimers();
    const sent: string[] = [];
    const states: string[] = [];
    const answers: (() => void)[] = [];
    const send = (text: string) =>
      new Promise<void>((resolve) => {
        sent.push(text);
        answers.push(resolve);
      });
    const saver = new DraftSaver("", send);
    saver.watch((state) => states.push(state.kind));
    saver.type("a");
    saver.type("ab");
    await vi.advanceTimersByTimeAsync(1_000);
    saver.type("abc");
    await vi.advanceTimersByTimeAsync(1_000);
    expect(sent).toEqual(["ab"]);
    answers[0]!();
    await vi.advanceTimersByTimeAsync(0);
    expect(sent).toEqual(["ab", "abc"]);
    answers[1]!();
    await vi.advanceTimersByTimeAsync(0);
    expect(states.at(-1)).toBe("saved");
    vi.useRealTimers();
  });
  test("what could not be saved is sent again", async () => {
    let refused = true;
    const send = vi.fn(async () => {
      if (refused) throw new Error("no");
    });
    const states: string[] = [];
    const saver = new DraftSaver("", send);
    saver.watch((state) => states.push(state.kind));
    saver.type("a");
    await saver.flush();
    expect(states).toEqual(["saved", "saving", "unsaved"]);
    refused = false;
    await saver.flush();
    expect(states.at(-1)).toBe("saved");
  });
});

test("all editors are saved before something else happens, and a failure is named", async () => {
  const sent: string[] = [];
  const savers = new DraftSavers();
  const make = (send: (text: string) => Promise<void>) => () => new DraftSaver("", send);
  const one = savers.get(
    "1",
    make(async (text) => void sent.push(text)),
  );
  // An editor that is shown again goes on with what was typed.
  one.type("a");
  expect(savers.get("1", make(fail)).text).toBe("a");
  expect(await savers.flush()).toBeNull();
  expect(sent).toEqual(["a"]);
  savers.get("2", make(fail)).type("b");
  expect((await savers.flush())?.message).toBe("no");
  savers.forget("2");
  expect(await savers.flush()).toBeNull();
});

async function fail(): Promise<void> {
  throw new Error("no");
}

test("counts of tests in the forms that tools write", () => {
  expect(testCounts('{"passed": 41, "failed": 2}')).toEqual({ passed: 41, failed: 2 });
  expect(testCounts('{"summary": {"passed": 3}}')).toEqual({ passed: 3, failed: 0 });
  const junit = '<testsuites><testsuite tests="5" failures="1" errors="1" skipped="1"></testsuite>';
  expect(testCounts(junit)).toEqual({ passed: 2, failed: 2 });
  const inner = '<testsuite tests="2" failures="1"><testcase/></testsuite><testsuite tests="1"/>';
  const nested = `<testsuite tests="3" failures="1">${inner}</testsuite><testsuite tests="4"/>`;
  expect(testCounts(nested)).toEqual({ passed: 6, failed: 1 });
  expect(testCounts("= 1 failed, 7 passed in 2s =")).toEqual({ passed: 7, failed: 1 });
  expect(testCounts("0 errors\n= 7 passed, 2 errors in 2s =")).toEqual({ passed: 7, failed: 2 });
  expect(testCounts("3 errors\n7 passed")).toEqual({ passed: 7, failed: 0 });
  expect(testCounts("nothing here")).toBeNull();
});

describe("findings of a checker", () => {
  test("those that are comments are at their lines, the others are listed", () => {
    const findings = [
      { criterion: "All tests pass.", ok: false, text: "2 fail." },
      { file: "a.py", line: 1, text: "Why?" },
      { file: "a.py", line: 99, message: "Gone." },
      "slow\u202e",
      { score: 3 },
      { criterion: "Two digits.", ok: true },
      { criterion: "No warnings.", ok: false },
    ];
    const notes = [
      { finding: 2, comment_id: "c1" },
      { finding: 3, no_comment: "Line 99 is not in the diff." },
    ];
    expect(findingsOf({ accept: false, findings, line_comments: notes })).toEqual([
      { text: "All tests pass: 2 fail.", reason: null },
      { text: "a.py: Gone.", reason: "Line 99 is not in the diff." },
      { text: "slow\ufffd", reason: null },
      { text: '{\n  "score": 3\n}', reason: null },
      { text: "Two digits: fulfilled", reason: null },
      { text: "No warnings: not fulfilled", reason: null },
    ]);
  });

  test("a result in another form has none, or one", () => {
    expect(findingsOf(null)).toEqual([]);
    expect(findingsOf("good")).toEqual([]);
    expect(findingsOf({ findings: "one fault", line_comments: "x" })).toHaveLength(1);
  });
});
