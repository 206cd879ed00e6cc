// Work that failed for good, or was taken from its workers because it cost them their lives.
import { useRead } from "../../api/hooks";
import type { Job, Task } from "../../api/schema";
import { plural, shown, words } from "../../text";
import { Trouble } from "../../ui/notes";
import { Behind } from "./behind";
import type { Kind } from "./kinds";
import { useSettling } from "./settling";

export function Failure({ task, kind }: { task: Task; kind: Kind }) {
  const jobs = useRead("task_jobs", { task_id: task.id });
  const why = useRead("why", { task_id: task.id });
  const retry = useSettling("retry_task", "Queued again", task);
  const resume = useSettling("resume_task", "Resumed", task);
  const cancel = useSettling("cancel_task", "Cancelled", task);
  const job = jobs.data?.items.at(-1);
  const legal = why.data?.actions ?? [];
  const problem = retry.error ?? resume.error ?? cancel.error;
  const only = { task_id: task.id };
  return (
    <>
      <p className="asked">{whatHappened(task, kind)}</p>
      {job?.error && <pre className="block">{shown(job.error)}</pre>}
      {job && <p className="faint">{attempts(job)}</p>}
      <div className="row wrap">
        <button
          type="button"
          className="button primary"
          data-key="main"
          disabled={retry.isPending}
          onClick={() => retry.mutate(only)}
        >
          Retry
        </button>
        {legal.includes("resume") && (
          <button
            type="button"
            className="button"
            disabled={resume.isPending}
            onClick={() => resume.mutate(only)}
          >
            Resume its session
          </button>
        )}
        {legal.includes("cancel") && (
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
      <Behind task={task} />
    </>
  );
}

function whatHappened(task: Task, kind: Kind): string {
  if (kind === "quarantine") {
    return "Workers were lost while they ran it, again and again. No worker takes it any more: find out what it does to them before you let it run again.";
  }
  return task.state === "timed_out"
    ? "It took too long, and no attempt is left."
    : "It failed, and no attempt is left.";
}

function attempts(job: Job): string {
  const kind = job.error_class;
  const named = kind === null || kind === "error" ? "" : ` The last one ended by: ${words(kind)}.`;
  return `${plural(job.attempt, "attempt")}.${named}`;
}
