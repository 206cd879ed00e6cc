// Parses a unified diff into files, hunks and lines. Unknown lines are treated as context. Of the
// header that git writes for a file, only what a reader needs is kept: its names and its modes.

export type DiffKind = "file" | "hunk" | "added" | "removed" | "context";
export interface DiffLine {
  kind: DiffKind;
  text: string;
  before?: number;
  after?: number;
  /** Whether it is the first line of a file. */
  first?: true;
}
export interface DiffSize {
  files: number;
  added: number;
  removed: number;
}

const HUNK = /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@/;
const GIT = /^diff --git a\/(.*) b\/(.*)$/;
/** Git quotes a name with unusual characters; it is shown with its escapes. */
const QUOTED = /^diff --git "?a\/(.*?)"? "?b\/(.*?)"?$/;
/** What the line of git with both names says already, or no one reads. */
const REPEATED = /^(index |--- |\+\+\+ |similarity |rename )/;
const HEAD =
  /^(diff |index |--- |\+\+\+ |new file|deleted file|rename |similarity |old mode|new mode)/;

/** Whether a text looks like a diff at all. */
export function isDiff(text: string): boolean {
  return /^diff --git |^--- .*\n\+\+\+ /m.test(text.slice(0, 20_000)) && /^@@ /m.test(text);
}

export function readDiff(text: string): DiffLine[] {
  const lines: DiffLine[] = [];
  let before = 0;
  let after = 0;
  // Inside a hunk the counts decide, so that a removed line that begins with "-- " is no header.
  let left = { before: 0, after: 0 };
  let named = false;
  if (!text) return lines;
  for (const line of text.replace(/\n$/, "").split("\n")) {
    const hunk = HUNK.exec(line);
    const inside = left.before > 0 || left.after > 0;
    if (hunk && !inside) {
      before = Number(hunk[1]);
      after = Number(hunk[3]);
      left = { before: Number(hunk[2] ?? 1), after: Number(hunk[4] ?? 1) };
      lines.push({ kind: "hunk", text: line });
      named = false;
    } else if (!inside && HEAD.test(line)) {
      const git = GIT.exec(line) ?? QUOTED.exec(line);
      if (line.startsWith("diff ")) named = git !== null;
      if (git) lines.push({ kind: "file", text: nameOf(git[1]!, git[2]!), first: true });
      else if (!(named && REPEATED.test(line))) lines.push(headLine(line));
    } else if (inside && line.startsWith("+")) {
      left.after -= 1;
      lines.push({ kind: "added", text: line.slice(1), after: after++ });
    } else if (inside && line.startsWith("-")) {
      left.before -= 1;
      lines.push({ kind: "removed", text: line.slice(1), before: before++ });
    } else if (inside && !line.startsWith("\\")) {
      left = { before: left.before - 1, after: left.after - 1 };
      lines.push({ kind: "context", text: line.slice(1), before: before++, after: after++ });
    } else lines.push({ kind: "context", text: line });
  }
  return lines;
}

const nameOf = (before: string, after: string) =>
  before === after ? after : `${before} → ${after}`;

function headLine(line: string): DiffLine {
  const isFirst = line.startsWith("+++ ");
  return { kind: "file", text: line, ...(isFirst ? { first: true } : {}) };
}

export function diffSize(lines: readonly DiffLine[]): DiffSize {
  const count = (kind: DiffKind) => lines.filter((line) => line.kind === kind).length;
  const files = lines.filter((line) => line.first).length;
  return {
    files: lines.length ? Math.max(files, 1) : 0,
    added: count("added"),
    removed: count("removed"),
  };
}
