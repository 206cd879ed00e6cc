// Comments and drafts by the file and the line where they are shown.
import type { Comment, CommentPlace, Comments, Draft } from "../../api/schema";
import type { LineRow, Side } from "./diff_rows";

/** A draft that is stored, or one that was opened and has no text yet. */
export interface OwnDraft {
  id: string;
  text: string;
  replyTo: string | null;
  place: CommentPlace | null;
  /** The lines for which a draft without a place was written. */
  outdated: Draft["anchor"];
  /** Whether its editor is open. */
  open: boolean;
}

export interface Notes {
  comments: Comment[];
  drafts: OwnDraft[];
}

export const NO_NOTES: Notes = { comments: [], drafts: [] };

/** How many comments are not resolved. */
export function openComments(notes: Notes = NO_NOTES): number {
  return notes.comments.filter((comment) => comment.state === "open").length;
}

/** A range of lines on one side of a file, from where the selection began to where it ended. */
export interface Selection {
  file: string;
  side: Side;
  from: number;
  to: number;
}

export function placeOf({ file, side, from, to }: Selection): CommentPlace {
  return { file, side, start: Math.min(from, to), end: Math.max(from, to) };
}

export function selectionOf({ file, side, start, end }: CommentPlace): Selection {
  return { file, side, from: start, to: end };
}

/** Whether a row has a line of this place. */
export function isIn(place: CommentPlace, row: LineRow): boolean {
  const line = place.side === "before" ? row.left?.before : row.right?.after;
  return line != null && place.start <= line && line <= place.end;
}

/** The drafts of the caller: the stored ones, and those whose editors are open. What was typed here
 * is newer than what was read. */
export function ownDrafts(stored: readonly Draft[], opened: readonly OwnDraft[]): OwnDraft[] {
  const open = new Map(opened.map((draft) => [draft.id, draft]));
  const known = new Set(stored.map((draft) => draft.id));
  return [
    ...stored.map(
      (draft) =>
        open.get(draft.id) ?? {
          id: draft.id,
          text: draft.text,
          replyTo: draft.reply_to,
          place: draft.place,
          outdated: draft.place ? null : draft.anchor,
          open: false,
        },
    ),
    ...opened.filter((draft) => !known.has(draft.id)),
  ];
}

export interface Grouped {
  byFile: Map<string, Notes>;
  /** Comments on lines that the diff no longer has. */
  outdated: Comment[];
  outdatedDrafts: OwnDraft[];
  /** Drafts of replies, by comment. */
  replies: Map<string, OwnDraft>;
}

export function grouped(answer: Comments | undefined, drafts: readonly OwnDraft[]): Grouped {
  const found: Grouped = {
    byFile: new Map(),
    outdated: [],
    outdatedDrafts: [],
    replies: new Map(),
  };
  const notes = (file: string): Notes => {
    const known = found.byFile.get(file) ?? { comments: [], drafts: [] };
    found.byFile.set(file, known);
    return known;
  };
  for (const comment of answer?.comments ?? []) {
    if (comment.place) notes(comment.place.file).comments.push(comment);
    else found.outdated.push(comment);
  }
  for (const draft of drafts) {
    if (draft.replyTo) found.replies.set(draft.replyTo, draft);
    else if (draft.place) notes(draft.place.file).drafts.push(draft);
    else found.outdatedDrafts.push(draft);
  }
  return found;
}

/** What is shown below each line of a file, by side and last line; the rest has no line here. */
export interface Below {
  at: ReadonlyMap<string, Notes>;
  rest: Notes;
}

export const lineKey = (side: Side, line: number) => `${side}:${line}`;

/** Notes by the line below which they are shown. What is about the whole file, or about a line
 * that is not shown, is the rest. */
export function below({ comments, drafts }: Notes, shown: ReadonlySet<string>): Below {
  const at = new Map<string, Notes>();
  const rest: Notes = { comments: [], drafts: [] };
  const notes = (place: CommentPlace): Notes => {
    const key = lineKey(place.side, place.end);
    if (!shown.has(key)) return rest;
    const known = at.get(key) ?? { comments: [], drafts: [] };
    at.set(key, known);
    return known;
  };
  for (const comment of comments) notes(comment.place!).comments.push(comment);
  for (const draft of drafts) notes(draft.place!).drafts.push(draft);
  return { at, rest };
}

/** The ids of all comments in the order of the page. */
export function inPageOrder(found: Grouped, files: readonly { path: string }[]): string[] {
  const ids = found.outdated.map((comment) => comment.id);
  for (const { path } of files) {
    const comments = [...(found.byFile.get(path)?.comments ?? [])];
    comments.sort((one, other) => one.place!.end - other.place!.end);
    ids.push(...comments.map((comment) => comment.id));
  }
  return ids;
}

/** "line 4", "lines 4 to 6", "lines 4 to 6 before", or "the file". */
export function placeWords({ start, end, side }: Omit<CommentPlace, "file">): string {
  if (!start) return "the file";
  const lines = start === end ? `line ${start}` : `lines ${start} to ${end}`;
  return side === "before" ? `${lines} (before)` : lines;
}
