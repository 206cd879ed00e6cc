// What the head of a file says about it, and why the file is folded at first.
import type { DiffFile } from "../../api/schema";
import { words } from "../../text";

/** What git stores under these modes; a plain file needs no word. */
const MODES: Record<string, string> = {
  "100755": "executable",
  "120000": "symbolic link",
  "160000": "submodule",
};

export function factsOf(file: DiffFile): string[] {
  const { status, binary, old_mode: before, new_mode: now } = file;
  const mode =
    before && now && before !== now ? `mode ${before} → ${now}` : MODES[now ?? before ?? ""];
  const facts = [status !== "modified" && status, mode, foldedBecause(file), binary && "binary"];
  return facts.filter((fact) => typeof fact === "string");
}

/** Longer files are folded until the reader opens them. */
const LONG = 800;

/** Why the file is folded at first; null if it is not. */
export function foldedBecause(file: DiffFile): string | null {
  if (file.generated) return words(file.generated_kind ?? "generated");
  return file.lines > LONG ? "long" : null;
}
