// The comments of a task and the caller's drafts, with those that were just opened.
import { useCallback, useMemo, useState } from "react";
import { client, useRead } from "../../api/hooks";
import type { CommentPlace } from "../../api/schema";
import { type Grouped, grouped, type OwnDraft, ownDrafts } from "./notes_of_file";

export interface AllNotes extends Grouped {
  drafts: OwnDraft[];
  /** How many comments are open. */
  open: number;
  openDraft: (place: CommentPlace) => void;
  openReply: (commentId: string) => void;
  closeDraft: (id: string) => void;
  refresh: () => Promise<void>;
}

/** An id for a draft, made here: saving it twice is saving it once. */
function draftId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

export function useNotes(taskId: string, diff: string | null): AllNotes {
  const read = useRead("task_comments", { task_id: taskId, ...(diff ? { diff } : {}) });
  const [opened, setOpened] = useState<OwnDraft[]>([]);
  // Places in another diff would show comments at wrong lines.
  const answer = read.data?.diff === diff ? read.data : undefined;
  const drafts = useMemo(() => ownDrafts(answer?.drafts ?? [], opened), [answer, opened]);
  const found = useMemo(() => grouped(answer, drafts), [answer, drafts]);
  const open = useCallback((fields: Partial<OwnDraft>) => {
    const made = { id: draftId(), text: "", replyTo: null, place: null, outdated: null };
    setOpened((before) => [...before, { ...made, ...fields, fresh: true }]);
  }, []);
  const openDraft = useCallback((place: CommentPlace) => open({ place }), [open]);
  const openReply = useCallback((replyTo: string) => open({ replyTo }), [open]);
  const closeDraft = useCallback(
    (id: string) => setOpened((before) => before.filter((draft) => draft.id !== id)),
    [],
  );
  const refresh = useCallback(() => client.invalidateQueries({ queryKey: ["task_comments"] }), []);
  const count = answer?.comments.filter((comment) => comment.state === "open").length ?? 0;
  return { ...found, drafts, open: count, openDraft, openReply, closeDraft, refresh };
}
