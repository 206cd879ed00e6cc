// The output of a run for the page: parts with their times, and the lines that a search finds.
import type { Line } from "./ansi";
import type { Output } from "./api/schema";

export interface TimedPart {
  text: string;
  /** When its lines were begun; null if that is not known. */
  at: number | null;
}

/** A part of the output, divided where the time of the lines changes. */
export function timedParts({ text, times }: Pick<Output, "text" | "times">): TimedPart[] {
  const found: TimedPart[] = [];
  let at: number | null = null;
  let from = 0;
  let line = 0;
  for (const time of times) {
    let place = from;
    for (; line < time.line; line += 1) place = text.indexOf("\n", place) + 1;
    if (place > from) found.push({ text: text.slice(from, place), at });
    from = place;
    at = Date.parse(time.at);
  }
  if (from < text.length) found.push({ text: text.slice(from), at });
  return found;
}

/** The indexes of the lines that contain a text, in upper or lower case. */
export function linesWith(lines: readonly Line[], wanted: string): number[] {
  const folded = wanted.toLowerCase();
  if (!folded) return [];
  const textOf = (line: Line) => line.map((piece) => piece.text).join("");
  return lines.flatMap((line, at) => (textOf(line).toLowerCase().includes(folded) ? [at] : []));
}
