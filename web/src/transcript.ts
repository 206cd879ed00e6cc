// Arranges the items of a transcript for the page: results beside their calls, folds, search.
import { Terminal } from "./ansi";
import type { TranscriptItem } from "./api/schema";
import { dollars } from "./text";

/** An item, and the result if it is a tool call that has one. */
export interface Row {
  item: TranscriptItem;
  result: TranscriptItem | null;
}

const MAX_ROWS = 20_000;
const MAX_SIZE = 30_000_000;
/** Marks in one text; more would only slow the page down. */
const MAX_MARKS = 500;

/** The rows of a transcript that grows. The oldest rows are dropped if there are too many. */
export class TranscriptRows {
  readonly rows: Row[] = [];
  dropped = 0;
  private readonly calls = new Map<string, Row>();
  private size = 0;

  constructor(
    private readonly maxRows = MAX_ROWS,
    private readonly maxSize = MAX_SIZE,
  ) {}

  add(items: readonly TranscriptItem[]): void {
    for (const item of items) this.put(item);
    let over = 0;
    while (this.rows.length - over > this.maxRows || this.size > this.maxSize) {
      if (over === this.rows.length - 1) break;
      this.forget(this.rows[over]!);
      over += 1;
    }
    this.rows.splice(0, over);
    this.dropped += over;
  }

  private forget(row: Row): void {
    this.size -= sizeOf(row);
    const id = row.item.tool_id;
    if (id !== null && this.calls.get(id) === row) this.calls.delete(id);
  }

  private put(item: TranscriptItem): void {
    this.size += sizeOf({ item, result: null });
    const call = item.tool_id === null ? undefined : this.calls.get(item.tool_id);
    if (item.kind === "tool_result" && call) {
      call.result = item;
      this.calls.delete(item.tool_id!);
      return;
    }
    const row = { item, result: null };
    this.rows.push(row);
    if (item.tool_id !== null && item.kind !== "tool_result") this.calls.set(item.tool_id, row);
  }
}

function sizeOf({ item, result }: Row): number {
  const own = textsOf(item).reduce((sum, text) => sum + text.length, 100);
  return result ? own + sizeOf({ item: result, result: null }) : own;
}

function textsOf(item: TranscriptItem): string[] {
  const { text, tool, input, output, path, diff } = item;
  return [text, tool, input, output, path, diff].filter((each) => each !== null);
}

/** The indexes of the rows that contain a text, in upper or lower case. */
export function matches(rows: readonly Row[], wanted: string): number[] {
  const folded = wanted.toLowerCase();
  if (!folded) return [];
  const contains = (item: TranscriptItem | null) =>
    item !== null && textsOf(item).some((text) => text.toLowerCase().includes(folded));
  return rows.flatMap(({ item, result }, at) => (contains(item) || contains(result) ? [at] : []));
}

/** The text in parts: every second part is the wanted text. */
export function parts(text: string, wanted: string): string[] {
  const folded = wanted.toLowerCase();
  const lower = text.toLowerCase();
  // A letter whose lower case is longer would shift the places: such a text is not marked.
  if (!folded || lower.length !== text.length) return [text];
  const found: string[] = [];
  let from = 0;
  while (found.length < 2 * MAX_MARKS) {
    const at = lower.indexOf(folded, from);
    if (at < 0) break;
    found.push(text.slice(from, at), text.slice(at, at + folded.length));
    from = at + folded.length;
  }
  return [...found, text.slice(from)];
}

/** The text without terminal codes, and with a sign for every invisible character. */
export function readable(text: string): string {
  const terminal = new Terminal(Number.POSITIVE_INFINITY);
  terminal.write(text);
  return terminal.lines.map((line) => line.map((piece) => piece.text).join("")).join("\n");
}

export interface Fold {
  text: string;
  /** How many lines or, in a single long line, characters are left out. */
  left: number;
}

/** The beginning of a text: at most this number of lines and of characters. */
export function folded(text: string, lines: number, characters = 2_000): Fold {
  const all = text.split("\n");
  const head = all.slice(0, lines).join("\n");
  if (head.length > characters) return { text: head.slice(0, characters), left: all.length };
  return { text: head, left: Math.max(0, all.length - lines) };
}

export function lineCount(text: string | null): number {
  return text ? text.replace(/\n$/, "").split("\n").length : 0;
}

/** The cost and the tokens of an item in words; empty if it has none. */
export function amounts(item: TranscriptItem): string {
  const words = [];
  if (item.cost_usd !== null) words.push(dollars(item.cost_usd));
  if (item.tokens_in !== null) words.push(`${item.tokens_in.toLocaleString("en")} tokens in`);
  if (item.tokens_out !== null) words.push(`${item.tokens_out.toLocaleString("en")} out`);
  return words.join(" · ");
}
