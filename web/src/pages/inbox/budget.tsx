// A budget that is used up: raise it, or cancel the task.
import { type FormEvent, useState } from "react";
import { useRead } from "../../api/hooks";
import type { InboxTask, Task } from "../../api/schema";
import { Link, linkTo } from "../../router";
import { dollars, plain } from "../../text";
import { BudgetField } from "../../ui/budget_field";
import { Meter } from "../../ui/meter";
import { Loading, Trouble } from "../../ui/notes";
import { Behind } from "./behind";
import { Dismissal } from "./dismissal";
import { may, titleOf } from "./kinds";
import { useDecision, useSettling } from "./settling";

/** The budget that is spent may be that of a task above. */
export function Budget({ task }: { task: InboxTask }) {
  const budgetId = task.actions.find((each) => each.action === "raise")?.id ?? task.id;
  const above = useRead("show_task", { task_id: budgetId }, { enabled: budgetId !== task.id });
  const spent = budgetId === task.id ? task : above.data;
  if (above.error) return <Trouble problem={above.error} again={above.refetch} />;
  return spent ? <Spent key={spent.id} task={task} spent={spent} /> : <Loading what="the budget" />;
}

function Spent({ task, spent }: { task: InboxTask; spent: Task }) {
  const raise = useSettling("edit_task", "Raised", task);
  const cancel = useDecision("cancel_task", "Cancelled", task);
  const budget = spent.budget ?? 0;
  const [amount, setAmount] = useState(suggestion(spent));
  const submit = (event: FormEvent) => {
    event.preventDefault();
    raise.mutate({ task_id: spent.id, max_budget_usd: Number(amount) });
  };
  return (
    <>
      <p className="asked">
        {dollars(spent.spent)} of {dollars(budget)} is spent. Raise the budget, or cancel the task?
      </p>
      {spent.id !== task.id && (
        <p>
          This task is a subtask of <Link to={linkTo.task(spent.id)}>{plain(titleOf(spent))}</Link>,
          whose budget is spent.
        </p>
      )}
      <Meter label="Budget that is spent" used={spent.spent} all={budget} />
      <form className="row wrap end-aligned" onSubmit={submit}>
        <BudgetField
          label="New budget in dollars"
          value={amount}
          onChange={setAmount}
          required
          dataKey="main"
        />
        <button type="submit" className="button primary" disabled={raise.isPending}>
          Raise the budget and continue
        </button>
        <button
          type="button"
          className="button danger"
          onClick={() => cancel({ task_id: task.id, reason: "budget" })}
        >
          Cancel the task
        </button>
      </form>
      {raise.error && <Trouble problem={raise.error} />}
      {may(task, "dismiss") && <Dismissal task={task} main={false} />}
      <Behind task={task} />
    </>
  );
}

/** Half as much again as was needed so far, in whole dimes. */
export function suggestion(task: Pick<Task, "spent" | "budget">): string {
  const needed = Math.max(task.spent, task.budget ?? 0) * 1.5;
  return (Math.ceil(needed * 10) / 10).toFixed(2);
}
