// Accepting with an action: what happens to the work (merge, push), how it went, and accepting
// without it.
import type { Acceptance, Job, Task } from "../../api/schema";
import { plain } from "../../text";

type Action = "merge" | "push";

/** What accepting the task does to its work. */
function actionOf(task: Task | undefined): Action | null {
  const declared = String((task?.options as { on_accept?: string })?.on_accept ?? "").toLowerCase();
  return declared === "merge" || declared === "push" ? declared : null;
}

/** Whether a job carries out the action of an acceptance; it leaves no work of its own. */
export function isAcceptance(job: Job): boolean {
  return "acceptance" in ((job.options ?? {}) as object);
}

/** The label of the button that accepts. */
export function acceptLabel(task: Task | undefined): string {
  const action = actionOf(task);
  return action ? `Accept and ${action}` : "Accept";
}

/** What is reported when the verdict is sent: the action is still to come. */
export function acceptedWord(task: Task | undefined): string {
  return { merge: "Accepted, to be merged", push: "Accepted, to be pushed", "": "Accepted" }[
    actionOf(task) ?? ""
  ];
}

/** How the action of the last acceptance goes or went. */
export function acceptanceWords(acceptance: Acceptance): string {
  const { action, state, branch, commit, problem } = acceptance;
  const where = branch ? ` ${action === "push" ? "as" : "into"} ${plain(branch)}` : "";
  const done = action === "push" ? "pushed" : "merged";
  // A job that has found conflicts has completed, too.
  if (problem !== null || state === "failed" || state === "cancelled") {
    return `The work was not ${done}.`;
  }
  if (commit) return `Accepted and ${done}${where}: ${plain(commit.slice(0, 10))}.`;
  return action === "push" ? "The work is being pushed." : "The work is being merged.";
}

interface Props {
  task: Task | undefined;
  /** Accept without the action. */
  onWithout?: (() => void) | undefined;
}

/** Why the action of the last acceptance failed, and the way around it. */
export function FailedAcceptance({ task, onWithout }: Props) {
  const failed = task?.acceptance;
  if (!failed?.problem) return null;
  return (
    <div className="trouble" role="alert">
      <p>
        <strong>{acceptanceWords(failed)}</strong> {plain(failed.problem)}
      </p>
      {onWithout && (
        <button type="button" className="button small" onClick={onWithout}>
          Accept without the {failed.action}
        </button>
      )}
    </div>
  );
}
