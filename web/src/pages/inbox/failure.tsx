// A task that failed and is not retried, or that is quarantined because workers were lost with it.
import { useRead } from "../../api/hooks";
import type { InboxTask, Job, Lifecycle } from "../../api/schema";
import { plural, shown, words } from "../../text";
import { Trouble } from "../../ui/notes";
import { useTable } from "../../ui/tables";
import { Behind } from "./behind";
import { Choices } from "./choices";
import { Dismissal } from "./dismissal";
import { type Kind, may } from "./kinds";
import { useSettling } from "./settling";

export function Failure({ task, kind }: { task: InboxTask; kind: Kind }) {
  const table = useTable(task.lifecycle);
  const jobs = useRead("task_jobs", { task_id: task.id });
  const retry = useSettling("retry_task", "Queued again", task);
  const resume = useSettling("resume_task", "Resumed", task);
  const cancel = useSettling("cancel_task", "Cancelled", task);
  const job = jobs.data?.items.at(-1);
  const problem = retry.error ?? resume.error ?? cancel.error;
  const only = { task_id: task.id };
  return (
    <>
      <p className="asked">{whatHappened(table, task, kind)}</p>
      {job?.error && <pre className="block">{shown(job.error)}</pre>}
      {job && job.attempt > 0 && <p className="faint">{attempts(job)}</p>}
      <div className="row wrap">
        {may(task, "retry") && (
          <button
            type="button"
            className="button primary"
            data-key="main"
            disabled={retry.isPending}
            onClick={() => retry.mutate(only)}
          >
            Retry
          </button>
        )}
        {may(task, "resume") && (
          <button
            type="button"
            className="button"
            disabled={resume.isPending}
            onClick={() => resume.mutate(only)}
          >
            Resume the session
          </button>
        )}
        {may(task, "cancel") && (
          <button
            type="button"
            className="button danger"
            disabled={cancel.isPending}
            onClick={() => cancel.mutate(only)}
          >
            Cancel the task
          </button>
        )}
      </div>
      {problem && <Trouble problem={problem} />}
      <Choices task={task} comment="" />
      {may(task, "dismiss") && <Dismissal task={task} main={!may(task, "retry")} />}
      <Behind task={task} />
    </>
  );
}

function whatHappened(table: Lifecycle, task: InboxTask, kind: Kind): string {
  if (kind === "quarantine") {
    return "Several workers were lost while they ran this task. No worker claims it any more. Find the cause before you retry it.";
  }
  const cancelled = table.endings[task.state] === "cancelled";
  const what = cancelled ? "It was cancelled" : (BY_CLASS[task.error_class ?? ""] ?? "It failed");
  const ended = table.terminal.includes(task.state);
  return ended ? `${what} and cannot run again.` : `${what}, and no attempts are left.`;
}

const BY_CLASS: Record<string, string> = {
  timeout: "It timed out",
  budget: "It exceeded its budget",
};

function attempts(job: Job): string {
  const kind = job.error_class;
  const named =
    kind === null || kind === "error" ? "" : ` Failure class of the last one: ${words(kind)}.`;
  return `${plural(job.attempt, "attempt")}.${named}`;
}
