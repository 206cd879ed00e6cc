// The dialogs before an action on a task that cannot be undone or needs an amount.
import { useState } from "react";
import { useRead } from "../../api/hooks";
import type { Task } from "../../api/schema";
import { Link, linkTo } from "../../router";
import { dollars, plain } from "../../text";
import { BudgetField } from "../../ui/budget_field";
import { Dialog } from "../../ui/dialog";
import { suggestion } from "../inbox/budget";
import { titleOf } from "../inbox/kinds";

interface Props {
  busy: boolean;
  onClose: () => void;
}

interface TaskProps extends Props {
  task: Task;
  onDo: () => void;
}

export function CancelDialog({ task, ...rest }: TaskProps) {
  return (
    <Dialog title="Cancel this task?" action="Cancel the task" danger {...rest}>
      <p>
        This cancels {plain(titleOf(task))} and its subtasks. Running work is asked to stop and has
        some time to do so. A cancelled task stays cancelled.
      </p>
    </Dialog>
  );
}

export function DeleteDialog({ task, ...rest }: TaskProps) {
  return (
    <Dialog title="Delete this task?" action="Delete the task" danger {...rest}>
      <p>
        This deletes {plain(titleOf(task))} with its jobs, its output and its evidence. It cannot be
        undone.
      </p>
    </Dialog>
  );
}

interface RaiseProps extends Props {
  budgetId: string;
  onRaise: (amount: number) => void;
}

export function RaiseDialog({ budgetId, ...rest }: RaiseProps) {
  const task = useRead("show_task", { task_id: budgetId });
  return task.data?.id === budgetId ? <Raise task={task.data} {...rest} /> : null;
}

function Raise({ task, busy, onClose, onRaise }: Omit<RaiseProps, "budgetId"> & { task: Task }) {
  const [amount, setAmount] = useState(suggestion(task));
  return (
    <Dialog
      title="Raise the budget?"
      action="Raise the budget and continue"
      busy={busy}
      onClose={onClose}
      onDo={() => onRaise(Number(amount))}
    >
      <p>
        {dollars(task.spent)} of {dollars(task.budget ?? 0)} is spent by{" "}
        <Link to={linkTo.task(task.id)}>{plain(titleOf(task))}</Link>.
      </p>
      <BudgetField label="New budget in dollars" value={amount} onChange={setAmount} required />
    </Dialog>
  );
}
