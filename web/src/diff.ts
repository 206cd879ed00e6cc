// Parses a unified diff into files, hunks and lines. Unknown lines are treated as context.

export type DiffKind = "file" | "hunk" | "added" | "removed" | "context";
export interface DiffLine {
  kind: DiffKind;
  text: string;
  before?: number;
  after?: number;
}
export interface DiffSize {
  files: number;
  added: number;
  removed: number;
}

const HUNK = /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@/;
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
  for (const line of text.replace(/\n$/, "").split("\n")) {
    const hunk = HUNK.exec(line);
    const inside = left.before > 0 || left.after > 0;
    if (hunk && !inside) {
      before = Number(hunk[1]);
      after = Number(hunk[3]);
      left = { before: Number(hunk[2] ?? 1), after: Number(hunk[4] ?? 1) };
      lines.push({ kind: "hunk", text: line });
    } else if (!inside && HEAD.test(line)) lines.push({ kind: "file", text: line });
    else if (inside && line.startsWith("+")) {
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

export function diffSize(lines: readonly DiffLine[]): DiffSize {
  const count = (kind: DiffKind) => lines.filter((line) => line.kind === kind).length;
  const files = lines.filter((line) => line.kind === "file" && line.text.startsWith("+++ ")).length;
  return { files: Math.max(files, 1), added: count("added"), removed: count("removed") };
}
