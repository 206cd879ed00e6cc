// The bar with the verdict: request changes, accept, or an event of the task's own lifecycle.
// A verdict names the diff that was read, or the version of a task without a diff; if the task has
// another one by now, it is refused.
import { useRef, useState } from "react";
import { call, type Problem } from "../../api/call";
import { client, useRead } from "../../api/hooks";
import type { Moved, Review } from "../../api/schema";
import { eventLabel } from "../../lifecycles";
import { plain, plural, words } from "../../text";
import { useKeys } from "../../ui/keys";
import { useTable } from "../../ui/tables";
import { say } from "../../ui/toast";
import { acceptanceWords, acceptedWord, acceptLabel, FailedAcceptance } from "../inbox/acceptance";
import { rowsFor, weight } from "../inbox/choices";
import { titleOf } from "../inbox/kinds";
import { isAboutOtherWork, Newer, Refused } from "./newer_work";
import { useOverallComment } from "./overall_comment";
import { VERDICT_KEYS } from "./review_keys";

interface Props {
  review: Review;
  drafts: number;
  openComments: number;
  /** Save the drafts that are being written. Answers whether that worked. */
  settle: () => Promise<boolean>;
  /** The version of the task that was read. */
  seen: number;
  onSeen: (version: number) => void;
  /** Show the diff that is under review now, or what is new in it since a diff. */
  onReload: (since?: string) => Promise<void>;
  onNext: () => void;
  /** Whether the task has a newer diff than the one that is shown. */
  isNewer: boolean;
}

/** Why a verdict was refused, and the diff or the version that it was about. */
interface Refusal {
  problem: Problem;
  read: string | number;
}

export function Verdict(props: Props) {
  const { review, drafts, openComments, settle, seen, onSeen, onReload, onNext, isNewer } = props;
  const why = useRead("why", { task_id: review.task_id });
  const task = useRead("show_task", { task_id: review.task_id }).data;
  const table = useTable(review.lifecycle);
  const [comment, setComment] = useOverallComment(review.task_id);
  // On a phone only the counts and the verdicts are shown at first.
  const [more, setMore] = useState(false);
  const [busy, setBusy] = useState(false);
  const [refusal, setRefusal] = useState<Refusal | null>(null);
  const field = useRef<HTMLTextAreaElement>(null);
  useKeys({ r: () => field.current?.focus() }, VERDICT_KEYS);
  const current = why.data?.id === review.task_id ? why.data : null;
  const may = (action: string) => current?.actions.includes(action) ?? false;
  const own = { task_id: review.task_id, comment: comment.trim() || null };
  // A verdict names what was read.
  const shown = review.diff?.sha256;
  const judged = shown ? { ...own, diff: shown } : { ...own, seen };
  const read = shown ?? seen;
  const act = async (word: string, verb: () => Promise<unknown>) => {
    setBusy(true);
    setRefusal(null);
    if (await settle()) {
      try {
        await verb();
        say(`${word}: ${plain(titleOf(review))}`);
      } catch (refused) {
        setRefusal({ problem: refused as Problem, read });
      }
      await client.invalidateQueries();
    }
    setBusy(false);
  };
  const decide = (word: string, verb: () => Promise<Moved>) =>
    act(word, async () => {
      onSeen((await verb()).version);
      setComment("");
    });
  const accept = (word: string, without_action: boolean) =>
    decide(word, () => call("accept_task", { ...judged, without_action }));
  // No verdict is given on what is about to be replaced.
  const reload = async (since?: string) => {
    setBusy(true);
    await onReload(since);
    setBusy(false);
  };
  const reloading = { busy, onShow: () => reload(), onCompare: () => reload(shown) };
  // Newer work says more than a refusal for another reason, whose state is over.
  const refused =
    refusal?.read === read && (!isNewer || isAboutOtherWork(refusal.problem))
      ? refusal.problem
      : null;
  const rows = rowsFor(table, review, current?.events ?? []);
  const decides = may("accept") || may("reject") || rows.length > 0;
  return (
    <section className="review-verdict" aria-label="Verdict">
      {refused ? <Refused problem={refused} {...reloading} /> : isNewer && <Newer {...reloading} />}
      <FailedAcceptance
        task={task}
        onWithout={may("accept") ? () => void accept("Accepted", true) : undefined}
      />
      <div className="row wrap" data-more={more || undefined}>
        <p className="verdict-counts">{countWords(drafts, openComments)}</p>
        {(decides || drafts > 0) && (
          <button
            type="button"
            className="link-button more-button"
            aria-expanded={more}
            onClick={() => setMore(!more)}
          >
            {more ? "Less" : "More"}
          </button>
        )}
        {decides && (
          <textarea
            ref={field}
            className="input grow"
            rows={1}
            aria-label="Comment on the work as a whole"
            placeholder="Comment on the work as a whole"
            maxLength={10_000}
            value={comment}
            onChange={(event) => setComment(event.target.value)}
          />
        )}
        {drafts > 0 && (
          <button
            type="button"
            className="button publish"
            disabled={busy}
            onClick={() => act("Published", () => call("publish_drafts", { task_id: own.task_id }))}
          >
            Publish {plural(drafts, "draft")}
          </button>
        )}
        {may("reject") && (
          <button
            type="button"
            className="button danger"
            disabled={busy}
            onClick={() => decide("Changes requested", () => call("request_changes", judged))}
          >
            Request changes{toHandBack(drafts + openComments)}
          </button>
        )}
        {may("accept") && (
          <button
            type="button"
            className="button primary"
            disabled={busy}
            onClick={() => accept(acceptedWord(task), false)}
          >
            {acceptLabel(task)}
          </button>
        )}
        {rows.map((row) => (
          <button
            key={row.event}
            type="button"
            className={`button ${weight(table, row)}`}
            title={plain(row.why)}
            disabled={busy}
            onClick={() =>
              decide(eventLabel(row.event), () =>
                call("send_event", { ...judged, event: row.event }),
              )
            }
          >
            {eventLabel(row.event)}
          </button>
        ))}
        {current && !decides && (
          <>
            <p className="faint grow no-verdict">
              {task?.acceptance
                ? acceptanceWords(task.acceptance)
                : `No verdict is needed: the task is ${words(review.state)}.`}
            </p>
            <button type="button" className="button" onClick={onNext}>
              Next in the inbox <kbd>e</kbd>
            </button>
          </>
        )}
      </div>
    </section>
  );
}

const toHandBack = (count: number) => (count ? ` (${count})` : "");

function countWords(drafts: number, open: number): string {
  const words = [drafts && plural(drafts, "draft"), open && plural(open, "open comment")];
  return words.filter(Boolean).join(", ") || "No open comments";
}
