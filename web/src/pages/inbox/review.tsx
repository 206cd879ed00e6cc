// A review: the result and the evidence of the work, earlier rounds, and the decision.
import { type FormEvent, useState } from "react";
import { useFresh, useRead } from "../../api/hooks";
import type { Event, InboxTask, Lifecycle, Task } from "../../api/schema";
import { eventWords } from "../../lifecycles";
import { Link, linkTo } from "../../router";
import { plain, plural } from "../../text";
import { Evidence } from "../../ui/evidence";
import { Trouble } from "../../ui/notes";
import { useTable } from "../../ui/tables";
import { Value } from "../../ui/value";
import { When } from "../../ui/when";
import { Prose } from "../review/prose";
import { acceptedWord, acceptLabel, FailedAcceptance, isAcceptance } from "./acceptance";
import { Choices, RoundsUsed } from "./choices";
import { may } from "./kinds";
import { useDecision, useDraft } from "./settling";

/** The evidence file whose lines can be commented on. */
const DIFF = "changes.diff";

const READS = ["task_jobs", "task_evidence", "task_events"] as const;

/** The work of the task, and the version of the task that it was read for. */
function useWork(task: Task) {
  const { id, version } = task;
  useFresh(READS, (event) => event.stream === id || event.stream.startsWith(`${id}-j`), 400);
  const jobs = useRead("task_jobs", { task_id: id }, { version });
  const evidence = useRead("task_evidence", { task_id: id }, { version });
  const [seen, setSeen] = useState(version);
  const shown = [jobs, evidence].every((read) => read.isSuccess && !read.isPlaceholderData);
  if (shown && seen !== version) setSeen(version);
  return { jobs, evidence, seen };
}

export function Review({ task }: { task: InboxTask }) {
  const table = useTable(task.lifecycle);
  const accept = useDecision("accept_task", acceptedWord(task), task);
  const acceptOnly = useDecision("accept_task", "Accepted", task);
  const reject = useDecision("reject_task", "Rejected", task);
  const [comment, setComment] = useDraft(task.id, "review", task.state_at);
  const [again, setAgain] = useState(true);
  const work = useWork(task);
  const seen = { task_id: task.id, seen: work.seen };
  const refuse = (event: FormEvent) => {
    event.preventDefault();
    if (!may(task, "reject")) return;
    const run = again && isQueuedByHand(table, task);
    reject({ ...seen, comment: comment || null, run });
  };
  const without = () => acceptOnly({ ...seen, comment: comment || null, without_action: true });
  return (
    <>
      <FailedAcceptance task={task} onWithout={may(task, "accept") ? without : undefined} />
      <Work task={task} work={work} />
      <Rounds task={task} />
      <RoundsUsed task={task} />
      <form className="verdict" onSubmit={refuse}>
        <label className="field grow">
          <span>Comment (the next run gets it)</span>
          <textarea
            className="input"
            data-key="reject"
            rows={2}
            value={comment}
            onChange={(event) => setComment(event.target.value)}
          />
        </label>
        <div className="verdict-acts">
          {may(task, "reject") && isQueuedByHand(table, task) && (
            <label className="check">
              <input
                type="checkbox"
                checked={again}
                onChange={(event) => setAgain(event.target.checked)}
              />
              after a rejection, run again immediately
            </label>
          )}
          <div className="row">
            {may(task, "reject") && (
              <button type="submit" className="button danger">
                Reject
              </button>
            )}
            {may(task, "accept") && (
              <button
                type="button"
                className="button primary"
                data-key="accept"
                onClick={() => accept({ ...seen, comment: comment || null })}
              >
                {acceptLabel(task)}
              </button>
            )}
          </div>
          <Choices task={task} seen={work.seen} comment={comment} />
        </div>
      </form>
    </>
  );
}

/** Whether a rejected task waits until it is queued, which can be done along with the rejection. */
function isQueuedByHand(table: Lifecycle, task: Task): boolean {
  const rejected = table.rows.find(
    (row) => row.source === task.state && row.event === "task_rejected",
  );
  return table.rows.some((row) => row.source === rejected?.target && row.event === "task_queued");
}

/** The outcome of the work: its summary or result, and its evidence. */
function Work({ task, work }: { task: Task; work: ReturnType<typeof useWork> }) {
  const { jobs, evidence } = work;
  const job = jobs.data?.items.filter((each) => !isAcceptance(each)).at(-1);
  const result = job?.result;
  const summary = summaryOf(result);
  // Earlier rounds left files of their own; what is judged is the last one. Until the jobs are
  // loaded, no file is shown: those of all rounds would appear for a moment.
  const files =
    jobs.data &&
    evidence.data?.items.filter((item) => !job || item.run_id.startsWith(`${job.id}-`));
  return (
    <>
      {files?.some((item) => item.file === DIFF) && (
        <p>
          <Link className="button" to={linkTo.task(task.id, "review")}>
            Review the changes line by line
          </Link>
        </p>
      )}
      {summary && (
        <>
          <h3>Summary</h3>
          <Prose text={summary} />
        </>
      )}
      {result != null && !summary && (
        <>
          <h3>Result</h3>
          <Value value={result} />
        </>
      )}
      <h3>Evidence</h3>
      {evidence.error && <Trouble problem={evidence.error} />}
      {jobs.error && <Trouble problem={jobs.error} />}
      {files && <Evidence items={files} />}
    </>
  );
}

export function summaryOf(result: unknown): string | null {
  if (typeof result === "string") return result;
  const { summary, text } = (result ?? {}) as { summary?: unknown; text?: unknown };
  const words = summary ?? text;
  return typeof words === "string" && words ? words : null;
}

/** After a conflict, a worker sends the work back. */
function byWhom({ name, actor }: Event): string {
  const isWorker = actor.startsWith("worker:");
  return isWorker ? "sent back by detent" : `${eventWords(name)} by ${plain(actor)}`;
}

/** Whether an event is a comment on the diff of a round. A comment counts the rounds before it. */
function isCommentOf({ name, data }: Event, round = 0): boolean {
  return name === "comment_added" && (data as { round?: number }).round === round - 1;
}

/** What was asked for after each earlier round. */
export function Rounds({ task }: { task: Pick<Task, "id" | "lifecycle" | "rounds"> }) {
  const counted = useTable(task.lifecycle).rounds.events;
  const events = useRead("task_events", { task_id: task.id }, { enabled: task.rounds > 0 });
  const all = events.data?.events ?? [];
  const rounds = all.filter((event) => counted.includes(event.name));
  if (!rounds.length) return null;
  return (
    <>
      <h3>Earlier rounds</h3>
      <ol className="rounds">
        {rounds.map((event) => {
          const data = event.data as { round?: number; comment?: string | null };
          const onDiff = all.filter((each) => isCommentOf(each, data.round)).length;
          return (
            <li key={event.position}>
              <span className="faint">
                Round {data.round}, {byWhom(event)} <When at={event.at} />
              </span>
              {data.comment && <Prose text={data.comment} />}
              {onDiff > 0 && <p>{plural(onDiff, "comment")} on the diff</p>}
              {!data.comment && !onDiff && <p>without a comment</p>}
            </li>
          );
        })}
      </ol>
    </>
  );
}
