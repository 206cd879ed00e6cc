// Lines of a file as a part of the address: `12`, `12-15`, and `before:12` for lines that were removed.
import type { CommentPlace } from "../../api/schema";

const LINES = /^(before:)?([1-9]\d{0,8})(?:-([1-9]\d{0,8}))?$/;

/** The text for lines in the address; null for a place without lines. */
export function lineText(place: CommentPlace | null): string | null {
  if (!place?.start) return null;
  const end = place.end > place.start ? `-${place.end}` : "";
  return `${place.side === "before" ? "before:" : ""}${place.start}${end}`;
}

/** The lines that a text of the address names; null if it names none. */
export function linesIn(file: string | null, text: string | null): CommentPlace | null {
  const found = LINES.exec(text ?? "");
  if (!file || !found) return null;
  const [one, other] = [Number(found[2]), Number(found[3] ?? found[2])];
  const side = found[1] ? "before" : "after";
  return { file, side, start: Math.min(one, other), end: Math.max(one, other) };
}
