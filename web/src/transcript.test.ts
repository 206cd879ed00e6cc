import { describe, expect, test } from "vitest";
import type { TranscriptItem } from "./api/schema";
import { amounts, folded, lineCount, matches, parts, readable, TranscriptRows } from "./transcript";

let number = 0;

function item(fields: Partial<TranscriptItem>): TranscriptItem {
  number += 1;
  return {
    number,
    at: null,
    kind: "text",
    role: null,
    text: null,
    tool: null,
    tool_id: null,
    input: null,
    output: null,
    is_error: false,
    path: null,
    diff: null,
    cost_usd: null,
    tokens_in: null,
    tokens_out: null,
    turn: null,
    raw_line: number,
    ...fields,
  };
}

const call = (id: string) =>
  item({ kind: "tool_call", tool: "Bash", tool_id: id, input: `run ${id}` });
const result = (id: string | null) =>
  item({ kind: "tool_result", tool_id: id, output: `of ${id}` });

describe("rows", () => {
  test("a result is beside its call, also if it comes later", () => {
    const made = new TranscriptRows();
    made.add([call("a"), call("b"), result("b")]);
    made.add([item({ text: "hello" }), result("a")]);
    expect(made.rows.map((row) => [row.item.kind, row.result?.output ?? null])).toEqual([
      ["tool_call", "of a"],
      ["tool_call", "of b"],
      ["text", null],
    ]);
  });
  test("a result without a call, and a second one, are rows of their own", () => {
    const made = new TranscriptRows();
    made.add([result("x"), result(null), call("a"), result("a"), result("a")]);
    expect(made.rows.map((row) => row.item.kind)).toEqual([
      "tool_result",
      "tool_result",
      "tool_call",
      "tool_result",
    ]);
  });
  test("the oldest rows are dropped and counted", () => {
    const made = new TranscriptRows(3);
    made.add(["a", "b", "c", "d", "e"].map((text) => item({ text })));
    expect([made.dropped, made.rows.map((row) => row.item.text)]).toEqual([2, ["c", "d", "e"]]);
    const large = new TranscriptRows(100, 1_000);
    large.add(["a", "b", "c"].map((text) => item({ text: text.repeat(600) })));
    expect([large.dropped, large.rows.length]).toEqual([2, 1]);
  });
});

describe("search", () => {
  test("rows that have the text anywhere, in upper or lower case", () => {
    const made = new TranscriptRows();
    made.add([item({ text: "One" }), call("a"), item({ diff: "+none" }), result("a")]);
    expect(matches(made.rows, "ONE")).toEqual([0, 2]);
    expect(matches(made.rows, "of a")).toEqual([1]);
    expect(matches(made.rows, "")).toEqual([]);
  });
  test("every second part is the wanted text", () => {
    expect(parts("An ant and", "AN")).toEqual(["", "An", " ", "an", "t ", "an", "d"]);
    expect(parts("nothing", "x")).toEqual(["nothing"]);
    expect(parts("İx", "x")).toEqual(["İx"]);
    expect(parts("a".repeat(2_000), "a").length).toBe(1_001);
  });
});

describe("texts", () => {
  test("terminal codes and invisible characters are not obeyed", () => {
    expect(readable("\u001b[31mred\u001b[0m \u202egnp\u0000")).toBe("red \ufffdgnp\ufffd");
    expect(readable("\u001b]0;title\u0007a\nb")).toBe("a\nb");
  });
  test("a fold has the first lines and says what is left", () => {
    expect(folded("a\nb\nc", 2)).toEqual({ text: "a\nb", left: 1 });
    expect(folded("a\nb", 2)).toEqual({ text: "a\nb", left: 0 });
    expect(folded("x".repeat(30), 2, 10)).toEqual({ text: "x".repeat(10), left: 1 });
    expect([lineCount(null), lineCount(""), lineCount("a\n"), lineCount("a\nb")]).toEqual([
      0, 0, 1, 2,
    ]);
  });
  test("amounts in words", () => {
    expect(amounts(item({ cost_usd: 0.25, tokens_in: 1_200, tokens_out: 7 }))).toBe(
      "$0.25 · 1,200 tokens in · 7 out",
    );
    expect(amounts(item({}))).toBe("");
  });
});
