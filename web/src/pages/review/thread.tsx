// A comment with its replies: resolve it, reopen it, or reply.
import { useContext, useEffect, useRef, useState } from "react";
import { call } from "../../api/call";
import type { Comment } from "../../api/schema";
import { Link, linkTo } from "../../router";
import { pathText, plain, plural } from "../../text";
import { When } from "../../ui/when";
import { attempt, DraftBox } from "./draft_box";
import { placeWords } from "./notes_of_file";
import { Prose } from "./prose";
import { ThreadsContext, useReview } from "./review_context";

export function Thread({ comment, quoted = false }: { comment: Comment; quoted?: boolean }) {
  const { replies, target } = useContext(ThreadsContext);
  const review = useReview();
  const [shown, setShown] = useState(comment.state === "open");
  const [busy, setBusy] = useState(false);
  const element = useTarget(target === comment.id);
  const resolved = comment.state === "resolved";
  const draft = replies.get(comment.id);
  const change = async () => {
    setBusy(true);
    const name = resolved ? "reopen_comment" : "resolve_comment";
    const takes = { task_id: review.taskId, comment_id: comment.id };
    if (await attempt(() => call(name, takes))) setShown(resolved);
    await review.refresh();
    setBusy(false);
  };
  return (
    <article
      ref={element}
      tabIndex={-1}
      className="note thread"
      data-thread={comment.id}
      data-state={comment.state}
      aria-label={`Comment by ${plain(comment.author)} on ${placeWords(comment.place ?? comment.anchor)}`}
    >
      <Head comment={comment} shown={shown || !resolved} onShow={() => setShown(!shown)} />
      {(shown || !resolved) && (
        <>
          {quoted && <Quoted comment={comment} />}
          <Prose text={comment.text} />
          {comment.replies.map((reply) => (
            <div key={reply.id} className="reply">
              <p className="note-head">
                <strong>{reply.run_id ? "Agent" : plain(reply.author)}</strong>
                {reply.run_id && <Link to={linkTo.run(reply.run_id)}>from its run</Link>}
                <span className="faint">
                  <When at={reply.at} />
                </span>
              </p>
              <Prose text={reply.text} />
            </div>
          ))}
        </>
      )}
      {draft ? (
        <DraftBox key={draft.id} draft={draft} />
      ) : (
        <p className="row wrap note-acts">
          {!resolved && (
            <button type="button" className="button small" onClick={() => review.reply(comment.id)}>
              Reply
            </button>
          )}
          <button type="button" className="button small" disabled={busy} onClick={change}>
            {resolved ? "Reopen" : "Resolve"}
          </button>
        </p>
      )}
    </article>
  );
}

interface HeadProps {
  comment: Comment;
  shown: boolean;
  onShow: () => void;
}

function Head({ comment, shown, onShow }: HeadProps) {
  const resolved = comment.state === "resolved";
  return (
    <p className="note-head">
      <strong>{plain(comment.author)}</strong>
      <span className="faint">
        <When at={comment.at} />, round {comment.round}
      </span>
      {comment.place === null && <span className="tag strong">Outdated</span>}
      {resolved && <span className="tag">Resolved</span>}
      {resolved && (
        <button type="button" className="link-button" aria-expanded={shown} onClick={onShow}>
          {shown ? "Hide" : `Show${countOf(comment)}`}
        </button>
      )}
    </p>
  );
}

function countOf({ replies }: Comment): string {
  return replies.length ? ` (${plural(replies.length, "reply", "replies")})` : "";
}

function Quoted({ comment: { anchor } }: { comment: Comment }) {
  return (
    <figure className="quoted">
      <figcaption className="faint">
        {pathText(anchor.file)}, {placeWords(anchor)}
      </figcaption>
      {anchor.quoted.length > 0 && <pre className="block">{plain(anchor.quoted.join("\n"))}</pre>}
    </figure>
  );
}

/** Scrolls to a comment when a key goes to it, also if it appears later. */
function useTarget(isTarget: boolean) {
  const element = useRef<HTMLElement>(null);
  useEffect(() => {
    if (!isTarget) return;
    element.current?.scrollIntoView({ block: "center" });
    element.current?.focus({ preventScroll: true });
  }, [isTarget]);
  return element;
}
