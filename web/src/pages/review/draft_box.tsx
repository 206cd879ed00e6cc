// The editor of a draft, which is saved on the server while it is typed, and the saved draft.
import { type KeyboardEvent, useEffect, useLayoutEffect, useRef, useState } from "react";
import { call, type Problem, type Takes } from "../../api/call";
import { plain } from "../../text";
import { say } from "../../ui/toast";
import { DraftSaver, type Saved } from "./draft_saver";
import { type OwnDraft, placeWords } from "./notes_of_file";
import { Prose } from "./prose";
import { type ReviewActs, useReview } from "./review_context";

const MAX_TEXT = 10_000;

export function DraftBox({ draft }: { draft: OwnDraft }) {
  const review = useReview();
  const remove = async () => {
    await attempt(() => call("delete_draft", { task_id: review.taskId, draft_id: draft.id }));
    // What was read before may have the draft still: it would be shown for a moment.
    await review.refresh();
    review.closeDraft(draft.id);
  };
  if (draft.open) return <Editor draft={draft} onRemove={remove} />;
  return (
    <article className="note draft" aria-label={`Draft on ${wordsFor(draft)}`}>
      <p className="note-head">
        <span className="tag strong">Draft</span>
        <span className="faint">only you see it</span>
        <span className="row">
          <button type="button" className="link-button" onClick={() => review.editDraft(draft)}>
            Edit
          </button>
          <button type="button" className="link-button" onClick={remove}>
            Delete
          </button>
        </span>
      </p>
      <Prose text={draft.text} />
    </article>
  );
}

function wordsFor(draft: OwnDraft): string {
  const place = draft.place ?? draft.outdated;
  return place ? placeWords(place) : "a comment";
}

interface EditorProps {
  draft: OwnDraft;
  onRemove: () => Promise<void>;
}

function Editor({ draft, onRemove }: EditorProps) {
  const review = useReview();
  const [saver] = useState(() => saverOf(review, draft));
  const [text, setText] = useState(saver.text);
  const [state, setState] = useState<Saved>(saver.state);
  const [busy, setBusy] = useState(false);
  const field = useFocus(saver);
  useEffect(() => {
    const leave = saver.watch(setState);
    return () => {
      leave();
      void saver.flush();
    };
  }, [saver]);
  const type = (given: string) => {
    setText(given);
    saver.type(given);
  };
  const close = async () => {
    if (!text.trim()) return discard();
    await saver.flush();
    if (saver.state.kind === "unsaved") return;
    await review.refresh();
    review.closeDraft(draft.id);
  };
  const discard = async () => {
    await saver.discard();
    await onRemove();
  };
  const post = async () => {
    if (!text.trim()) return;
    setBusy(true);
    await saver.discard();
    if (await attempt(() => postNow(review, draft, text))) await onRemove();
    else type(text);
    setBusy(false);
  };
  const press = (event: KeyboardEvent) => {
    if (event.key === "Escape") void close();
    else if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) void close();
  };
  const isReply = draft.replyTo !== null;
  // The lines of an outdated draft are not in this diff: it is published along with the others.
  const canPost = isReply || draft.place !== null;
  return (
    <div className="note draft editing">
      <label className="field">
        <span>{isReply ? "Reply" : `Comment on ${wordsFor(draft)}`}</span>
        <textarea
          ref={field}
          className="input"
          rows={3}
          maxLength={MAX_TEXT}
          value={text}
          onChange={(event) => type(event.target.value)}
          onBlur={() => void saver.flush()}
          onKeyDown={press}
        />
      </label>
      <div className="row wrap">
        <SaveState state={state} empty={!text} again={() => void saver.flush()} />
        <button type="button" className="button small" disabled={busy} onClick={discard}>
          Discard
        </button>
        {canPost && (
          <button
            type="button"
            className="button small"
            disabled={busy || !text.trim()}
            onClick={post}
          >
            {isReply ? "Reply now" : "Post now"}
          </button>
        )}
        <button
          type="button"
          className="button small primary"
          disabled={busy || !text.trim()}
          onClick={close}
        >
          Keep as draft
        </button>
      </div>
    </div>
  );
}

function SaveState({ state, empty, again }: { state: Saved; empty: boolean; again: () => void }) {
  if (state.kind === "unsaved") {
    return (
      <span className="bad-text grow" role="alert">
        Not saved: {plain(state.problem.message)}{" "}
        <button type="button" className="link-button" onClick={again}>
          Try again
        </button>
      </span>
    );
  }
  const words = state.kind === "saving" ? "Saving…" : empty ? "" : "Saved as a draft";
  return (
    <span className="faint grow" role="status">
      {words}
    </span>
  );
}

/** The field has the focus when the editor is opened, and again if it had it when it was removed. */
function useFocus(saver: DraftSaver) {
  const field = useRef<HTMLTextAreaElement>(null);
  useLayoutEffect(() => {
    const shown = field.current;
    if (saver.focused) shown?.focus();
    return () => {
      saver.focused = document.activeElement === shown;
    };
  }, [saver]);
  return field;
}

/** One saver for each open editor, also if it is shown again. */
function saverOf(review: ReviewActs, draft: OwnDraft): DraftSaver {
  const send = async (text: string) => {
    await save(review, draft, text);
    review.keepText(draft.id, text);
  };
  return review.savers.get(draft.id, () => new DraftSaver(draft.text, send));
}

/** A request that outlives the page. */
const LASTING = true;

function save(review: ReviewActs, draft: OwnDraft, text: string): Promise<unknown> {
  const own = { task_id: review.taskId, draft_id: draft.id };
  if (!text.trim()) return call("delete_draft", own, LASTING).catch(forgiveMissing);
  if (draft.replyTo) return call("save_draft", { ...own, text, reply_to: draft.replyTo }, LASTING);
  const anchor = draft.place
    ? { ...draft.place, diff: review.diff }
    : (draft.outdated as NonNullable<OwnDraft["outdated"]>);
  const { diff, file, side, start, end } = anchor;
  return call("save_draft", { ...own, text, diff, file, side, start, end }, LASTING);
}

function forgiveMissing(problem: Problem): void {
  if (problem.status !== 404) throw problem;
}

function postNow(review: ReviewActs, draft: OwnDraft, text: string): Promise<unknown> {
  const task_id = review.taskId;
  if (draft.replyTo) return call("reply_to_comment", { task_id, comment_id: draft.replyTo, text });
  const comment = { task_id, diff: review.diff, ...draft.place, text };
  return call("add_comment", comment as Takes<"add_comment">);
}

/** Whether a call succeeded; else the reason is shown. */
export async function attempt(verb: () => Promise<unknown>): Promise<boolean> {
  try {
    await verb();
    return true;
  } catch (problem) {
    say(plain((problem as Problem).message), { bad: true });
    return false;
  }
}
