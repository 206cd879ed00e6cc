// The comments of a task and the caller's drafts, with those whose editors are open.
import { useCallback, useEffect, useMemo, useState } from "react";
import { client, useRead } from "../../api/hooks";
import type { CommentPlace } from "../../api/schema";
import { feed } from "../../live/feed";
import { plain } from "../../text";
import { say } from "../../ui/toast";
import { DraftSavers } from "./draft_saver";
import { type Grouped, grouped, type OwnDraft, ownDrafts } from "./notes_of_file";

export interface AllNotes extends Grouped {
  drafts: OwnDraft[];
  /** How many comments are open. */
  open: number;
  openDraft: (place: CommentPlace) => void;
  openReply: (commentId: string) => void;
  /** Open the editor of a draft that is stored. */
  editDraft: (draft: OwnDraft) => void;
  closeDraft: (id: string) => void;
  savers: DraftSavers;
  /** A text of an open editor is stored. */
  keepText: (id: string, text: string) => void;
  refresh: () => Promise<void>;
  /** Save what is typed, and close all editors. Answers whether everything is saved. */
  settle: () => Promise<boolean>;
}

/** An id for a draft, made here: saving it twice is saving it once. */
function draftId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

export function useNotes(taskId: string, diff: string | null): AllNotes {
  const read = useRead("task_comments", { task_id: taskId, ...(diff ? { diff } : {}) });
  const editors = useEditors(diff);
  const { opened } = editors;
  // Places in another diff would show comments at wrong lines.
  const answer = read.data?.diff === diff ? read.data : undefined;
  const drafts = useMemo(() => ownDrafts(answer?.drafts ?? [], opened), [answer, opened]);
  const found = useMemo(() => grouped(answer, drafts), [answer, drafts]);
  const open = answer?.comments.filter((comment) => comment.state === "open").length ?? 0;
  return { ...found, ...editors, drafts, open, refresh };
}

const refresh = () => client.invalidateQueries({ queryKey: ["task_comments"] });

/** The drafts whose editors are open, and what is typed there. A place is one in the given diff:
 * the editors are closed when another one is shown. */
function useEditors(diff: string | null) {
  const [all, setAll] = useState<(OwnDraft & { diff: string | null })[]>([]);
  const [savers] = useState(() => new DraftSavers());
  useSavingOnLeave(savers);
  const opened = useMemo(() => all.filter((draft) => draft.diff === diff), [all, diff]);
  const acts = useMemo(() => {
    const edit = (draft: OwnDraft) =>
      setAll((before) => [...before, { ...draft, open: true, diff }]);
    const open = (fields: Partial<OwnDraft>) =>
      edit({
        id: draftId(),
        text: "",
        replyTo: null,
        place: null,
        outdated: null,
        open: true,
        ...fields,
      });
    return {
      editDraft: edit,
      openDraft: (place: CommentPlace) => open({ place }),
      openReply: (replyTo: string) => open({ replyTo }),
    };
  }, [diff]);
  const closeDraft = useCallback(
    (id: string) => {
      savers.forget(id);
      setAll((before) => before.filter((draft) => draft.id !== id));
    },
    [savers],
  );
  const keepText = useCallback(
    (id: string, text: string) =>
      setAll((before) => before.map((draft) => (draft.id === id ? { ...draft, text } : draft))),
    [],
  );
  const settle = useCallback(async () => {
    const problem = await savers.flush();
    if (problem) {
      say(`A draft is not saved: ${plain(problem.message)}`, { bad: true });
      return false;
    }
    await refresh();
    for (const { id } of all) closeDraft(id);
    return true;
  }, [all, savers, closeDraft]);
  return { opened, savers, ...acts, closeDraft, keepText, settle };
}

/** What is typed is saved when the page is left or hidden, and when a lost gateway is back, too. */
function useSavingOnLeave(savers: DraftSavers): void {
  useEffect(() => {
    const flush = () => void savers.flush();
    addEventListener("pagehide", flush);
    document.addEventListener("visibilitychange", flush);
    const leave = feed.watch(() => {
      if (feed.look().kind === "live") flush();
    });
    return () => {
      leave();
      removeEventListener("pagehide", flush);
      document.removeEventListener("visibilitychange", flush);
      flush();
    };
  }, [savers]);
}
