// Turns the hunks of a file into the rows of the unified and of the side-by-side view.
import type { ReviewHunk, ReviewLine } from "../../api/schema";

export type Side = "before" | "after";

/** One row: a line on each side, or on one of them. A context line is on both. */
export interface LineRow {
  kind: "line";
  key: string;
  left: ReviewLine | null;
  right: ReviewLine | null;
}
export interface HunkRow {
  kind: "hunk";
  key: string;
  text: string;
}
/** Unchanged lines that are hidden until the reader asks for them. */
export interface FoldRow {
  kind: "fold";
  key: string;
  rows: LineRow[];
}
export type Row = LineRow | HunkRow | FoldRow;

/** Runs of context longer than this are folded, except for some lines at their edges. */
const MAX_CONTEXT = 24;
const EDGE = 4;
/** Larger groups of changed lines are compared line by line at the same offset only. */
const MAX_COMPARED = 250_000;

/** A group of changed lines: what was removed, and what was added in its place. */
interface Change {
  removed: ReviewLine[];
  added: ReviewLine[];
}

/** Calls `change` for each group of changed lines and `context` for each other line, in order. */
function walk(
  lines: readonly ReviewLine[],
  change: (group: Change) => void,
  context: (line: ReviewLine) => void,
): void {
  let group: Change = { removed: [], added: [] };
  const end = () => {
    if (group.removed.length || group.added.length) change(group);
    group = { removed: [], added: [] };
  };
  for (const line of lines) {
    if (line.kind === "context") {
      end();
      context(line);
    } else {
      if (line.kind === "removed" && group.added.length) end();
      group[line.kind].push(line);
    }
  }
  end();
}

export function unifiedRows(hunks: readonly ReviewHunk[]): Row[] {
  return rowsOf(hunks, (lines) =>
    lines.map((line) => [
      line.kind === "added" ? null : line,
      line.kind === "removed" ? null : line,
    ]),
  );
}

export function splitRows(hunks: readonly ReviewHunk[]): Row[] {
  return rowsOf(hunks, (lines) => {
    const pairs: Pair[] = [];
    walk(
      lines,
      ({ removed, added }) => {
        for (let at = 0; at < Math.max(removed.length, added.length); at += 1) {
          pairs.push([removed[at] ?? null, added[at] ?? null]);
        }
      },
      (line) => pairs.push([line, line]),
    );
    return pairs;
  });
}

type Pair = [ReviewLine | null, ReviewLine | null];

function rowsOf(hunks: readonly ReviewHunk[], pairs: (lines: ReviewLine[]) => Pair[]): Row[] {
  return hunks.flatMap((hunk, at): Row[] => [
    { kind: "hunk", key: `${at}`, text: hunkTitle(hunk) },
    ...pairs(hunk.lines).map(
      ([left, right], index): Row => ({ kind: "line", key: `${at}:${index}`, left, right }),
    ),
  ]);
}

function hunkTitle(hunk: ReviewHunk): string {
  const before = `-${hunk.before_start},${hunk.before_count}`;
  const after = `+${hunk.after_start},${hunk.after_count}`;
  return `@@ ${before} ${after} @@ ${hunk.heading}`.trim();
}

/** Replaces long runs of context by rows that can be opened. `keep` names rows that must be seen,
 * because a comment is there. */
export function withFolds(
  rows: readonly Row[],
  opened: ReadonlySet<string>,
  keep: (row: LineRow) => boolean,
): Row[] {
  const found: Row[] = [];
  let run: LineRow[] = [];
  const end = () => {
    const middle = run.slice(EDGE, run.length - EDGE);
    const key = `fold ${run[0]?.key}`;
    if (run.length <= MAX_CONTEXT || opened.has(key) || middle.some(keep)) found.push(...run);
    else {
      const fold: FoldRow = { kind: "fold", key, rows: middle };
      found.push(...run.slice(0, EDGE), fold, ...run.slice(-EDGE));
    }
    run = [];
  };
  for (const row of rows) {
    if (row.kind === "line" && row.left === row.right) run.push(row);
    else {
      end();
      found.push(row);
    }
  }
  end();
  return found;
}

/** Whether some lines end with CRLF and others do not. */
export function hasMixedEnds(hunks: readonly ReviewHunk[]): boolean {
  const ends = hunks.flatMap(({ lines }) => lines.map((line) => line.text.endsWith("\r")));
  return ends.includes(true) && ends.includes(false);
}

/** Rows in groups of a size that the browser lays out one by one, when they come into view. */
export function blocks<T>(rows: readonly T[], size = 120): T[][] {
  const found: T[][] = [];
  for (let at = 0; at < rows.length; at += size) found.push(rows.slice(at, at + size));
  return found;
}

const squeezed = (text: string) => text.replace(/\s+/g, "");

/** The hunks without changes of white space: such a line becomes a line of context. Hunks in which
 * nothing else changed are left out. */
export function withoutSpaceChanges(hunks: readonly ReviewHunk[]): ReviewHunk[] {
  return hunks
    .map((hunk) => ({ ...hunk, lines: ignoringSpace(hunk.lines) }))
    .filter((hunk) => hunk.lines.some((line) => line.kind !== "context"));
}

function ignoringSpace(lines: readonly ReviewLine[]): ReviewLine[] {
  const found: ReviewLine[] = [];
  walk(
    lines,
    ({ removed, added }) => {
      let [left, right] = [0, 0];
      for (const [one, other] of commonLines(removed, added)) {
        found.push(...removed.slice(left, one), ...added.slice(right, other));
        const { before } = removed[one]!;
        found.push({ ...added[other]!, kind: "context", before });
        [left, right] = [one + 1, other + 1];
      }
      found.push(...removed.slice(left), ...added.slice(right));
    },
    (line) => found.push(line),
  );
  return found;
}

/** Pairs of lines that are equal but for white space: a longest common subsequence. */
function commonLines(
  removed: readonly ReviewLine[],
  added: readonly ReviewLine[],
): [number, number][] {
  const one = removed.map((line) => squeezed(line.text));
  const other = added.map((line) => squeezed(line.text));
  if (one.length * other.length > MAX_COMPARED) {
    return one.flatMap((text, at): [number, number][] => (text === other[at] ? [[at, at]] : []));
  }
  const width = other.length + 1;
  const length = new Uint32Array((one.length + 1) * width);
  for (let i = one.length - 1; i >= 0; i -= 1) {
    for (let j = other.length - 1; j >= 0; j -= 1) {
      length[i * width + j] =
        one[i] === other[j]
          ? length[(i + 1) * width + j + 1]! + 1
          : Math.max(length[(i + 1) * width + j]!, length[i * width + j + 1]!);
    }
  }
  const pairs: [number, number][] = [];
  for (let i = 0, j = 0; i < one.length && j < other.length; ) {
    if (one[i] === other[j]) pairs.push([i++, j++]);
    else if (length[(i + 1) * width + j]! >= length[i * width + j + 1]!) i += 1;
    else j += 1;
  }
  return pairs;
}

/** The part of a changed line that differs from the line beside it: from and to, in characters. */
export type Span = readonly [number, number];

/** Shares of a line below this are no help: the lines have nothing to do with each other. */
const LEAST_SHARED = 0.4;

/** By line, the part that differs from the line that it replaced, or that replaced it. */
export function changedSpans(hunks: readonly ReviewHunk[]): Map<ReviewLine, Span> {
  const found = new Map<ReviewLine, Span>();
  const compare = ({ removed, added }: Change) => {
    for (let at = 0; at < Math.min(removed.length, added.length); at += 1) {
      const [left, right] = [removed[at]!, added[at]!];
      const [from, leftTo, rightTo] = difference(left.text, right.text);
      const longer = Math.max(left.text.length, right.text.length);
      const shared = longer - Math.max(leftTo, rightTo) + from;
      if (shared < longer * LEAST_SHARED) continue;
      const [start, leftEnd, rightEnd] = wholeWords(left.text, right.text, [from, leftTo, rightTo]);
      if (leftEnd > start) found.set(left, [start, leftEnd]);
      if (rightEnd > start) found.set(right, [start, rightEnd]);
    }
  };
  for (const hunk of hunks) walk(hunk.lines, compare, () => undefined);
  return found;
}

const isWord = (character: string | undefined) => /[\p{L}\p{N}_]/u.test(character ?? "");

/** The difference, widened to where words begin and end in both texts. */
function wholeWords(
  one: string,
  other: string,
  [from, oneTo, otherTo]: readonly [number, number, number],
): [number, number, number] {
  let start = from;
  if (isWord(one[from]) || isWord(other[from])) while (isWord(one[start - 1])) start -= 1;
  let tail = 0;
  if (isWord(one[oneTo - 1]) || isWord(other[otherTo - 1])) {
    while (isWord(one[oneTo + tail])) tail += 1;
  }
  return [start, oneTo + tail, otherTo + tail];
}

function difference(one: string, other: string): [number, number, number] {
  const shorter = Math.min(one.length, other.length);
  let from = 0;
  while (from < shorter && one[from] === other[from]) from += 1;
  let tail = 0;
  while (tail < shorter - from && one[one.length - 1 - tail] === other[other.length - 1 - tail]) {
    tail += 1;
  }
  return [from, one.length - tail, other.length - tail];
}
