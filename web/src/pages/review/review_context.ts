// What every part of the review page needs: the task, the diff that is shown, and what one can do.
import { createContext, type RefObject, useContext } from "react";
import type { CommentPlace } from "../../api/schema";
import type { Side } from "./diff_rows";
import type { DraftSavers } from "./draft_saver";
import type { OwnDraft } from "./notes_of_file";

export interface ReviewActs {
  taskId: string;
  /** The diff that is shown, and for which new comments are written. */
  diff: string;
  /** Sides on which comments can be written. */
  sides: readonly Side[];
  select: (file: string, side: Side, line: number, extend: boolean) => void;
  unselect: () => void;
  /** Whether the selected lines are those of a link that was followed and not shown yet. */
  arriving: RefObject<boolean>;
  /** Open an editor for a comment. */
  comment: (place: CommentPlace) => void;
  setOpen: (path: string, open: boolean) => void;
  setViewed: (path: string, viewed: boolean) => void;
  /** Open the editor of a draft that is stored. */
  editDraft: (draft: OwnDraft) => void;
  /** The editor of a draft is closed; the draft is gone, or it stays. */
  closeDraft: (id: string) => void;
  savers: DraftSavers;
  /** A text of an open editor is stored. */
  keepText: (id: string, text: string) => void;
  /** Read the comments and drafts again. */
  refresh: () => Promise<void>;
  reply: (commentId: string) => void;
}

export const ReviewContext = createContext<ReviewActs | null>(null);

export function useReview(): ReviewActs {
  const found = useContext(ReviewContext);
  if (!found) throw new Error("no review above this component");
  return found;
}

/** Drafts of replies by comment, and the comment that a key has gone to. */
export interface Threads {
  replies: ReadonlyMap<string, OwnDraft>;
  target: string | null;
}

export const ThreadsContext = createContext<Threads>({ replies: new Map(), target: null });
