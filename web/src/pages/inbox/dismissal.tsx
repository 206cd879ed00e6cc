// A subtask that failed: its parent waits for it until it is completed or dismissed.
import { type FormEvent, useState } from "react";
import type { InboxTask } from "../../api/schema";
import { Link, linkTo } from "../../router";
import { useDecision } from "./settling";

export function Dismissal({ task, main }: { task: InboxTask; main: boolean }) {
  const dismiss = useDecision("dismiss_task", "Dismissed", task);
  const [reason, setReason] = useState("");
  const submit = (event: FormEvent) => {
    event.preventDefault();
    dismiss({ task_id: task.id, ...(reason.trim() ? { reason: reason.trim() } : {}) });
  };
  return (
    <>
      <p>
        <Link to={linkTo.task(task.parent_id!)}>Its parent</Link> is waiting for it. If you dismiss
        it, the parent continues without it; this task keeps its state.
      </p>
      <form className="row wrap end-aligned" onSubmit={submit}>
        <label className="field">
          <span>Reason (optional)</span>
          <input
            className="input"
            maxLength={500}
            value={reason}
            onChange={(event) => setReason(event.target.value)}
          />
        </label>
        <button
          type="submit"
          className={main ? "button primary" : "button"}
          data-key={main ? "main" : undefined}
        >
          Dismiss
        </button>
      </form>
    </>
  );
}
