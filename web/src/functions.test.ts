import { describe, expect, test, vi } from "vitest";
import { address, call } from "./api/call";
import type { InboxTask, JobQuestion, RefusedRow } from "./api/schema";
import { diffSize, isDiff, readDiff } from "./diff";
import { filterFrom } from "./pages/inbox/filters";
import { grouped } from "./pages/inbox/groups";
import { asked, may, titleOf, waitingIn } from "./pages/inbox/kinds";
import { match } from "./router";
import { codeFrom } from "./session";
import { bytes, dollars, plain, plural, shortId, shown } from "./text";
import { coarse, duration, relative } from "./time";

const DIFF = `diff --git a/x b/x
index 1234567..89abcde 100644
--- a/x
+++ b/x
@@ -1,3 +1,3 @@
 one
---- two
+++ zwei
 three
`;

describe("diff", () => {
  test("lines that look like headers inside a hunk are lines", () => {
    const lines = readDiff(DIFF);
    expect(lines.map((line) => line.kind)).toEqual([
      "file",
      "hunk",
      "context",
      "removed",
      "added",
      "context",
    ]);
    expect(lines[3]).toEqual({ kind: "removed", text: "--- two", before: 2 });
    expect(lines[5]).toEqual({ kind: "context", text: "three", before: 3, after: 3 });
    expect(diffSize(lines)).toEqual({ files: 1, added: 1, removed: 1 });
  });
  test("files without lines are counted, and a header is one line for each file", () => {
    const moved = "diff --git a/old b/new\nsimilarity index 100%\nrename from old\nrename to new\n";
    const lines = readDiff(`${moved}old mode 100644\nnew mode 100755\n${DIFF}`);
    const heads = lines.filter((line) => line.kind === "file").map((line) => line.text);
    expect(heads).toEqual(["old → new", "old mode 100644", "new mode 100755", "x"]);
    expect(diffSize(lines).files).toBe(2);
    expect(diffSize(readDiff("--- a\n+++ b\n@@ -1 +1 @@\n-x\n+y\n")).files).toBe(1);
  });
  test("an empty diff has no file", () => {
    // A quoted name, after a file of which only the mode has changed.
    const mode = "diff --git a/run b/run\nold mode 100644\nnew mode 100755\n";
    const quoted =
      'diff --git "a/a\\tb" "b/a\\tb"\n--- "a/a\\tb"\n+++ "b/a\\tb"\n@@ -1 +1 @@\n-x\n+y\n';
    const both = readDiff(mode + quoted);
    expect(diffSize(both).files).toBe(2);
    expect(both.filter((line) => line.first).map((line) => line.text)).toEqual(["run", "a\\tb"]);
    expect(diffSize(readDiff(""))).toEqual({ files: 0, added: 0, removed: 0 });
  });
  test("prose is no diff", () => {
    expect(isDiff(DIFF)).toBe(true);
    expect(isDiff("--- a list\n--- of dashes\n")).toBe(false);
  });
});

describe("text", () => {
  test("invisible and turning characters become a sign", () => {
    expect(plain("a\u0000b\u200bc\u2066d\u{e0041}e\tf\n")).toBe(
      "a\ufffdb\ufffdc\ufffdd\ufffde\tf\n",
    );
    expect(shown({ a: 1 })).toBe('{\n  "a": 1\n}');
    expect(shown(null)).toBe("");
  });
  test("numbers as people read them", () => {
    expect([bytes(999), bytes(48_200), bytes(3_000_000)]).toEqual(["999 B", "48.2 kB", "3.00 MB"]);
    expect([bytes(999_400), bytes(999_900)]).toEqual(["999 kB", "1.00 MB"]);
    expect([dollars(0), dollars(0.0123), dollars(12)]).toEqual(["$0.00", "$0.0123", "$12.00"]);
    expect([plural(1, "job"), plural(1_200, "job")]).toEqual(["1 job", "1,200 jobs"]);
    expect([shortId("build-1"), shortId("01m7hfat9yf44tz9sr1fnxbnns-j1")]).toEqual([
      "build-1",
      "…fnxbnns-j1",
    ]);
  });
});

test("durations and distances in time", () => {
  expect([12, 1_500, 59_000, 61_000, 3_700_000, 90_000_000].map(duration)).toEqual([
    "12 ms",
    "1.5 s",
    "59 s",
    "1m 1s",
    "1h 1m",
    "1d 1h",
  ]);
  expect([relative(0, 500), relative(0, 90_000), relative(90_000, 0)]).toEqual([
    "just now",
    "1 min ago",
    "in 1 min",
  ]);
  expect(coarse(50 * 3_600_000)).toBe("2 d");
});

describe("addresses", () => {
  test("patterns with a part that may be missing", () => {
    expect(match("/tasks/:id/:tab?", "/tasks/a%20b")).toEqual({ id: "a b" });
    expect(match("/tasks/:id/:tab?", "/tasks/x/plan/")).toEqual({ id: "x", tab: "plan" });
    expect(match("/tasks/:id/:tab?", "/tasks/x/y/z")).toBeNull();
    expect(match("/jobs", "/jobs/x")).toBeNull();
    expect(match("/:nothing?", "/")).toEqual({});
    expect(match("/runs/:id", "/runs/%E0%A4%A")).toEqual({ id: "%E0%A4%A" });
  });
  test("path parameters leave the rest", () => {
    expect(address("answer_task", { task_id: "a/b", answer: 1 })).toEqual({
      url: "/api/tasks/a%2Fb/answer",
      rest: { answer: 1 },
    });
  });
  test("only a small request outlives the page", async () => {
    const sent = vi.fn(async (_url: string, _init: RequestInit) => Response.json({}));
    vi.stubGlobal("fetch", sent);
    await call("answer_task", { task_id: "t", answer: "\u00e4".repeat(29_000) }, true);
    await call("answer_task", { task_id: "t", answer: "\u00e4".repeat(30_000) }, true);
    await call("answer_task", { task_id: "t", answer: "a" });
    vi.unstubAllGlobals();
    expect(sent.mock.calls.map(([, init]) => init.keepalive)).toEqual([true, false, false]);
  });
  test("the code of a link, of a code, of neither", () => {
    expect(codeFrom("http://127.0.0.1:5680/#code=detent_x-1")).toBe("detent_x-1");
    expect(codeFrom(" detent_abc ")).toBe("detent_abc");
    expect(codeFrom("hello")).toBeNull();
    expect(codeFrom("#code=%")).toBe("%");
  });
});

describe("matters", () => {
  const task = (fields: Partial<InboxTask>) =>
    ({ blocked_detail: {}, blocked_by: null, actions: [], ...fields }) as InboxTask;
  test("a verb is offered if the server would accept it for this very task", () => {
    const action = { action: "raise", id: "above", command: "detent raise above DOLLARS" };
    const blocked = task({ id: "t", actions: [action, { ...action, action: "cancel", id: "t" }] });
    expect([may(blocked, "raise"), may(blocked, "cancel")]).toEqual([false, true]);
  });
  test("own words are allowed without options, or where the question says so", () => {
    expect(asked({ text: "Go?" })).toEqual({
      text: "Go?",
      options: [],
      values: [],
      free: true,
    });
    expect(asked({ text: "Go?", options: ["yes"] }).free).toBe(false);
    expect(asked({ options: ["yes"], other: true }).free).toBe(true);
  });
  const waitingTask = (id: string, priority: string, state_at: string) =>
    task({ id, kind: "review", priority, state_at, title: "", intent: "plan" });
  const question = (job_id: string, kind: string, begun_at: string) =>
    ({ job_id, name: "ask", kind, begun_at, intent: "dig", priority: "P2" }) as JobQuestion;
  const REFUSED = { id: "7", intent: "bill", operation: "submit_task", refused_at: "4" };
  const FOUND = waitingIn({
    count: 5,
    snoozed: 0,
    items: [
      { ...waitingTask("t", "P2", "2"), project: "shop", assigned_to: "ada" },
      { ...waitingTask("urgent", "P0", "9"), project: "web" },
    ],
    questions: [question("j1", "question", "1"), question("j2", "confirmation", "3")],
    refused: [REFUSED as RefusedRow],
  });
  test("tasks, questions of jobs alone and refused submissions are one list, by urgency", () => {
    expect(FOUND.map(({ id, kind, title }) => [id, kind, title])).toEqual([
      ["urgent", "review", "plan"],
      ["j1:ask", "question", "dig"],
      ["t", "review", "plan"],
      ["j2:ask", "confirmation", "dig"],
      ["intake:7", "refused", "bill"],
    ]);
  });
  test("a group is in the place of its most urgent item", () => {
    const names = (by: "kind" | "person" | null) =>
      grouped(FOUND, by).map(({ name, items }) => [name, items.length]);
    expect(names(null)).toEqual([["", 5]]);
    expect(names("kind")).toEqual([
      ["Review", 2],
      ["Question", 1],
      ["Confirmation", 1],
      ["Refused", 1],
    ]);
    expect(names("person")).toEqual([
      ["No person", 4],
      ["ada", 1],
    ]);
  });
  test("the filters of the address are those of the server", () => {
    const filter = (text: string) => filterFrom(new URLSearchParams(text));
    expect(filter("")).toEqual({});
    expect(filter("project=a&kind=review&intent=b&person=me&snoozed=1&group=kind")).toEqual({
      project: "a",
      kind: "review",
      intent: "b",
      mine: true,
      snoozed: true,
    });
    expect(filter("person=ada")).toEqual({ assigned_to: "ada" });
    expect(filter("person=no+person")).toEqual({ unassigned: true });
  });
  test("a task without a title is named by what it does", () => {
    expect(titleOf({ title: "", intent: "runQA" })).toBe("runQA");
  });
});
