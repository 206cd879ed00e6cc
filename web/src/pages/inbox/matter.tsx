// One matter of the inbox: what is asked, what there is to know, and the controls that settle it.
import { type FormEvent, useState } from "react";
import type { Problem } from "../../api/call";
import { useRead, useVerb } from "../../api/hooks";
import type { Task } from "../../api/schema";
import { Link, linkTo } from "../../router";
import { dollars, plain, shown, words } from "../../text";
import { Evidence } from "../../ui/evidence";
import { Meter } from "../../ui/meter";
import { Trouble } from "../../ui/notes";
import { StateMark } from "../../ui/state";
import { say } from "../../ui/toast";
import { Value } from "../../ui/value";
import { When } from "../../ui/when";
import { asked, KIND_WORDS, kindOf, titleOf } from "./kinds";

export function Matter({ task }: { task: Task }) {
  const kind = kindOf(task);
  return (
    <article className="matter" aria-labelledby="matter-title">
      <header>
        <h2 id="matter-title">{plain(titleOf(task))}</h2>
        <p className="facts-line">
          <StateMark table={task.lifecycle} state={task.state} />
          <span>{plain(task.project)}</span>
          <span>{plain(task.intent)}</span>
          <span>{task.priority}</span>
          <span>
            waiting since <When at={task.state_at} />
          </span>
          <Link to={linkTo.task(task.id)}>Open the task</Link>
        </p>
      </header>
      {kind === "question" && <Question task={task} />}
      {kind === "confirmation" && <Question task={task} />}
      {kind === "review" && <Review task={task} />}
      {kind === "budget" && <Budget task={task} />}
      {(kind === "failure" || kind === "quarantine") && <Failure task={task} />}
    </article>
  );
}

function settled(word: string, task: Task) {
  return {
    onSuccess: () => say(`${word}: ${plain(titleOf(task))}`),
    onError: (problem: Problem) => say(plain(problem.message), { bad: true }),
  };
}

// ---- a question ------------------------------------------------------------------------------

function Question({ task }: { task: Task }) {
  const question = asked(task);
  const answer = useVerb("answer_task");
  const [text, setText] = useState("");
  const send = (value: string) =>
    answer.mutate({ task_id: task.id, answer: value }, settled("Answered", task));
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (text.trim()) send(text);
  };
  return (
    <section aria-label={KIND_WORDS.question}>
      <p className="asked">{plain(question.text)}</p>
      {question.options.length > 0 && (
        <div className="row wrap" role="group" aria-label="Answers">
          {question.options.map((option, index) => (
            <button
              key={option}
              type="button"
              className="button option"
              data-key={index === 0 ? "main-option" : undefined}
              disabled={answer.isPending}
              onClick={() => send(option)}
            >
              {plain(option)}
            </button>
          ))}
        </div>
      )}
      {question.free && (
        <form className="stack" onSubmit={submit}>
          <label className="field">
            <span>Your answer</span>
            <textarea
              className="input"
              data-key="main"
              rows={3}
              value={text}
              onChange={(event) => setText(event.target.value)}
              onKeyDown={(event) => {
                if (event.key === "Enter" && (event.metaKey || event.ctrlKey)) submit(event);
              }}
            />
          </label>
          <div className="row">
            <button
              type="submit"
              className="button primary"
              disabled={answer.isPending || !text.trim()}
            >
              Send the answer
            </button>
            <span className="faint">The work goes on with it, in the same session.</span>
          </div>
        </form>
      )}
      {answer.error && <Trouble problem={answer.error} />}
    </section>
  );
}

// ---- a review --------------------------------------------------------------------------------

function Review({ task }: { task: Task }) {
  const accept = useVerb("accept_task");
  const reject = useVerb("reject_task");
  const [comment, setComment] = useState("");
  const [again, setAgain] = useState(true);
  const busy = accept.isPending || reject.isPending;
  const seen = { task_id: task.id, seen: task.version };
  const refuse = (event: FormEvent) => {
    event.preventDefault();
    reject.mutate({ ...seen, comment: comment || null, run: again }, settled("Rejected", task));
  };
  return (
    <section aria-label={KIND_WORDS.review}>
      <Work task={task} />
      <Rounds task={task} />
      <form className="verdict" onSubmit={refuse}>
        <button
          type="button"
          className="button primary"
          data-key="accept"
          disabled={busy}
          onClick={() =>
            accept.mutate({ ...seen, comment: comment || null }, settled("Accepted", task))
          }
        >
          Accept
        </button>
        <label className="field grow">
          <span>Comment, told to the next run first</span>
          <textarea
            className="input"
            data-key="reject"
            rows={2}
            value={comment}
            onChange={(event) => setComment(event.target.value)}
          />
        </label>
        <div className="stack">
          <button type="submit" className="button danger" disabled={busy}>
            Reject
          </button>
          <label className="check">
            <input
              type="checkbox"
              checked={again}
              onChange={(event) => setAgain(event.target.checked)}
            />
            run again at once
          </label>
        </div>
      </form>
      {(accept.error ?? reject.error) && <Trouble problem={(accept.error ?? reject.error)!} />}
    </section>
  );
}

/** What the work came to: its summary, its result, and the files that it left behind. */
function Work({ task }: { task: Task }) {
  const jobs = useRead("task_jobs", { task_id: task.id });
  const evidence = useRead("task_evidence", { task_id: task.id });
  const job = jobs.data?.items.at(-1);
  const result = job?.result;
  const summary = summaryOf(result);
  // Earlier rounds left files of their own; what is judged is the last one.
  const files = evidence.data?.items.filter((item) => !job || item.run_id.startsWith(`${job.id}-`));
  return (
    <>
      {summary && (
        <>
          <h3>Summary</h3>
          <p className="prose">{plain(summary)}</p>
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
      {files && <Evidence items={files} />}
    </>
  );
}

function summaryOf(result: unknown): string | null {
  if (typeof result === "string") return result;
  const { summary, text } = (result ?? {}) as { summary?: unknown; text?: unknown };
  const said = summary ?? text;
  return typeof said === "string" && said ? said : null;
}

function Rounds({ task }: { task: Task }) {
  const events = useRead("task_events", { task_id: task.id }, { enabled: task.rounds > 0 });
  const rounds = events.data?.events.filter((event) => event.name === "task_rejected") ?? [];
  if (!rounds.length) return null;
  return (
    <>
      <h3>Earlier rounds</h3>
      <ol className="rounds">
        {rounds.map((event) => {
          const data = event.data as { round?: number; comment?: string | null };
          return (
            <li key={event.position}>
              <span className="faint">
                Round {data.round}, rejected by {plain(event.actor)} <When at={event.at} />
              </span>
              <p>{data.comment ? plain(data.comment) : "without a comment"}</p>
            </li>
          );
        })}
      </ol>
    </>
  );
}

// ---- a budget --------------------------------------------------------------------------------

function Budget({ task }: { task: Task }) {
  const raise = useVerb("edit_task");
  const cancel = useVerb("cancel_task");
  const budget = task.budget ?? 0;
  const [amount, setAmount] = useState(suggestion(task));
  const submit = (event: FormEvent) => {
    event.preventDefault();
    raise.mutate({ task_id: task.id, max_budget_usd: Number(amount) }, settled("Raised", task));
  };
  return (
    <section aria-label={KIND_WORDS.budget}>
      <p className="asked">
        {dollars(task.spent)} of {dollars(budget)} are spent. Go on with more, or stop here?
      </p>
      <Meter label="Budget that is spent" used={task.spent} all={budget} />
      <form className="row wrap end-aligned" onSubmit={submit}>
        <label className="field">
          <span>New budget in dollars</span>
          <input
            className="input"
            data-key="main"
            type="number"
            min={0.01}
            step="any"
            required
            value={amount}
            onChange={(event) => setAmount(event.target.value)}
          />
        </label>
        <button type="submit" className="button primary" disabled={raise.isPending}>
          Raise and go on
        </button>
        <button
          type="button"
          className="button danger"
          disabled={cancel.isPending}
          onClick={() =>
            cancel.mutate({ task_id: task.id, reason: "budget" }, settled("Stopped", task))
          }
        >
          Stop the task
        </button>
      </form>
      {(raise.error ?? cancel.error) && <Trouble problem={(raise.error ?? cancel.error)!} />}
    </section>
  );
}

/** Half as much again as was needed so far, in whole dimes. */
function suggestion(task: Task): string {
  const needed = Math.max(task.spent, task.budget ?? 0) * 1.5;
  return (Math.ceil(needed * 10) / 10).toFixed(2);
}

// ---- a failure -------------------------------------------------------------------------------

function Failure({ task }: { task: Task }) {
  const jobs = useRead("task_jobs", { task_id: task.id });
  const why = useRead("why", { task_id: task.id });
  const retry = useVerb("retry_task");
  const resume = useVerb("resume_task");
  const cancel = useVerb("cancel_task");
  const job = jobs.data?.items.at(-1);
  const legal = why.data?.actions ?? [];
  const problem = retry.error ?? resume.error ?? cancel.error;
  const quarantined = kindOf(task) === "quarantine" || job?.error_class === "lost";
  return (
    <section aria-label={KIND_WORDS[kindOf(task)]}>
      <p className="asked">
        {quarantined
          ? "Its workers were lost again and again, so nobody takes it any more."
          : `It ${task.state === "timed_out" ? "took too long" : "failed"}, and no attempt is left.`}
      </p>
      {job?.error && <pre className="block">{shown(job.error)}</pre>}
      {job?.error_class && (
        <p className="faint">
          {job.error_class === "error" ? "" : `${words(job.error_class)} error, `}attempt{" "}
          {job.attempt}
        </p>
      )}
      <div className="row wrap">
        <button
          type="button"
          className="button primary"
          data-key="main"
          disabled={retry.isPending}
          onClick={() => retry.mutate({ task_id: task.id }, settled("Queued again", task))}
        >
          Retry
        </button>
        {legal.includes("resume") && (
          <button
            type="button"
            className="button"
            disabled={resume.isPending}
            onClick={() => resume.mutate({ task_id: task.id }, settled("Resumed", task))}
          >
            Resume its session
          </button>
        )}
        {legal.includes("cancel") && (
          <button
            type="button"
            className="button danger"
            disabled={cancel.isPending}
            onClick={() => cancel.mutate({ task_id: task.id }, settled("Cancelled", task))}
          >
            Cancel the task
          </button>
        )}
        <Link to={linkTo.task(task.id, "output")}>Read its output</Link>
      </div>
      {problem && <Trouble problem={problem} />}
    </section>
  );
}
