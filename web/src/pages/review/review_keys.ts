// What the keys of the review page do.
import type { KeyHelp } from "../../ui/keys";

export const REVIEW_KEYS: KeyHelp = [
  ["j k", "next, previous file"],
  ["n p", "next, previous comment"],
  ["v", "mark the file as viewed, or not viewed"],
  ["c", "comment on the selected lines, or on the file"],
  ["↑ ↓", "on a line number: select the line above or below"],
  ["shift ↓", "on a line number: extend the selection"],
  ["esc", "close the editor; the text stays as a draft"],
  ["ctrl enter", "keep the comment as a draft"],
];

export const VERDICT_KEYS: KeyHelp = [
  ["r", "go to the verdict: the comment on the work as a whole"],
];

/** Keys that work also without a diff. */
export const NEXT_KEYS: KeyHelp = [["e", "next item of the inbox"]];
