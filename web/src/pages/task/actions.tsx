// The actions on a task, and the events of its lifecycle: exactly those that are legal now.
import { useState } from "react";
import { call, type Problem } from "../../api/call";
import { client, useRead } from "../../api/hooks";
import type { LifecycleRow, Task } from "../../api/schema";
import { eventLabel } from "../../lifecycles";
import { Link } from "../../router";
import { plain } from "../../text";
import { Dialog } from "../../ui/dialog";
import { useTable } from "../../ui/tables";
import { say } from "../../ui/toast";
import { rowsFor, weight } from "../inbox/choices";
import { titleOf } from "../inbox/kinds";
import { Decision } from "./decision";

const DIRECT = {
  run: ["Run", "run_task"],
  retry: ["Retry", "retry_task"],
  resume: ["Resume", "resume_task"],
  dismiss: ["Dismiss", "dismiss_task"],
} as const;
/** Actions that are done in the inbox, beside what they are about. */
export const IN_INBOX = ["answer", "accept", "reject"];

export function Actions({ task }: { task: Task }) {
  const why = useRead("why", { task_id: task.id });
  const table = useTable(task.lifecycle);
  const [cancelling, setCancelling] = useState(false);
  const [sending, setSending] = useState<LifecycleRow | null>(null);
  const [busy, setBusy] = useState(false);
  const actions = why.data?.id === task.id ? why.data.actions : [];
  const events = why.data?.id === task.id ? why.data.events : [];
  const act = async (word: string, verb: () => Promise<unknown>) => {
    setBusy(true);
    try {
      await verb();
      say(`${word}: ${plain(titleOf(task))}`);
    } catch (problem) {
      say(plain((problem as Problem).message), { bad: true });
    }
    setBusy(false);
    setCancelling(false);
    setSending(null);
    await client.invalidateQueries();
  };
  const send = (event: string, comment: string | null) =>
    act(eventLabel(event), () =>
      call("send_event", { task_id: task.id, event, comment, seen: task.version }),
    );
  return (
    <div className="row actions">
      {actions.some((action) => IN_INBOX.includes(action)) && (
        <Link className="button primary" to={`/inbox/${encodeURIComponent(task.id)}`}>
          {actions.includes("answer") ? "Answer" : "Review"}
        </Link>
      )}
      {(Object.keys(DIRECT) as (keyof typeof DIRECT)[])
        .filter((action) => actions.includes(action))
        .map((action) => (
          <button
            key={action}
            type="button"
            className="button"
            disabled={busy}
            onClick={() =>
              act(DIRECT[action][0], () => call(DIRECT[action][1], { task_id: task.id }))
            }
          >
            {DIRECT[action][0]}
          </button>
        ))}
      {rowsFor(table, task, events).map((row) => (
        <button
          key={row.event}
          type="button"
          className={`button ${weight(table, row)}`}
          title={plain(row.why)}
          disabled={busy}
          onClick={() => setSending(row)}
        >
          {eventLabel(row.event)}
        </button>
      ))}
      {actions.includes("cancel") && (
        <button
          type="button"
          className="button danger"
          disabled={busy}
          onClick={() => setCancelling(true)}
        >
          Cancel
        </button>
      )}
      {sending && (
        <Decision
          task={task}
          row={sending}
          busy={busy}
          onClose={() => setSending(null)}
          onSend={(comment) => send(sending.event, comment)}
        />
      )}
      {cancelling && (
        <Dialog
          title="Cancel this task?"
          action="Cancel the task"
          danger
          busy={busy}
          onClose={() => setCancelling(false)}
          onDo={() => act("Cancelled", () => call("cancel_task", { task_id: task.id }))}
        >
          <p>
            This cancels {plain(titleOf(task))} and its subtasks. Running work is asked to stop and
            has some time to do so. A cancelled task stays cancelled.
          </p>
        </Dialog>
      )}
    </div>
  );
}
