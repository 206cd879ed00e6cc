// A task that failed and is not retried, or that is quarantined because workers were lost with it.
import { useState } from "react";
import { useRead } from "../../api/hooks";
import type { InboxTask, Job, Lifecycle } from "../../api/schema";
import { plural, shown, words } from "../../text";
import { Trouble } from "../../ui/notes";
import { useTable } from "../../ui/tables";
import { Behind } from "./behind";
import { Choices } from "./choices";
import { Dismissal } from "./dismissal";
import { type Kind, may } from "./kinds";
import { RetryForm } from "./retry_form";
import { useDecision, useSettling } from "./settling";

export function Failure({ task, kind }: { task: InboxTask; kind: Kind }) {
  const table = useTable(task.lifecycle);
  const jobs = useRead("task_jobs", { task_id: task.id });
  const job = jobs.data?.items.at(-1);
  return (
    <>
      <p className="asked">{whatHappened(table, task, kind)}</p>
      {job?.error && <pre className="block">{shown(job.error)}</pre>}
      {job && job.attempt > 0 && <p className="faint">{attempts(job)}</p>}
      <FailureActions task={task} />
      <Choices task={task} seen={task.version} comment="" />
      {may(task, "dismiss") && <Dismissal task={task} main={!may(task, "retry")} />}
      <Behind task={task} />
    </>
  );
}

/** Every action on a task that failed and that is legal now. */
function FailureActions({ task }: { task: InboxTask }) {
  const [editing, setEditing] = useState(false);
  const retry = useSettling("retry_task", "Queued again", task);
  const resume = useSettling("resume_task", "Resumed", task);
  const cancel = useDecision("cancel_task", "Cancelled", task);
  const remove = useDecision("delete_task", "Deleted", task);
  const only = { task_id: task.id };
  const busy = retry.isPending || resume.isPending;
  const problem = retry.error ?? resume.error;
  const buttons: [action: string, name: string, key: string, does: () => void, look: string][] = [
    ["retry", "Retry", "main", () => retry.mutate(only), "primary"],
    ["retry", "Edit and retry", "edit", () => setEditing(true), ""],
    ["resume", "Resume the session", "resume", () => resume.mutate(only), ""],
    ["cancel", "Cancel the task", "cancel", () => cancel(only), "danger"],
    ["delete", "Delete the task", "delete", () => remove(only), "danger"],
  ];
  if (editing) return <RetryForm task={task} onClose={() => setEditing(false)} />;
  return (
    <>
      <div className="row wrap">
        {buttons
          .filter(([action]) => may(task, action))
          .map(([, name, key, does, look]) => (
            <button
              key={key}
              type="button"
              className={`button ${look}`}
              data-key={key}
              disabled={busy}
              onClick={does}
            >
              {name}
            </button>
          ))}
      </div>
      {problem && <Trouble problem={problem} />}
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
