// A budget that is used up: raise it, or stop the task.
import { type FormEvent, useState } from "react";
import type { Task } from "../../api/schema";
import { dollars } from "../../text";
import { Meter } from "../../ui/meter";
import { Trouble } from "../../ui/notes";
import { Behind } from "./behind";
import { useSettling } from "./settling";

export function Budget({ task }: { task: Task }) {
  const raise = useSettling("edit_task", "Raised", task);
  const cancel = useSettling("cancel_task", "Stopped", task);
  const budget = task.budget ?? 0;
  const [amount, setAmount] = useState(suggestion(task));
  const submit = (event: FormEvent) => {
    event.preventDefault();
    raise.mutate({ task_id: task.id, max_budget_usd: Number(amount) });
  };
  return (
    <>
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
          onClick={() => cancel.mutate({ task_id: task.id, reason: "budget" })}
        >
          Stop the task
        </button>
      </form>
      {(raise.error ?? cancel.error) && <Trouble problem={(raise.error ?? cancel.error)!} />}
      <Behind task={task} />
    </>
  );
}

/** Half as much again as was needed so far, in whole dimes. */
function suggestion(task: Task): string {
  const needed = Math.max(task.spent, task.budget ?? 0) * 1.5;
  return (Math.ceil(needed * 10) / 10).toFixed(2);
}
