// The dialog before an event is sent to a task: where it leads, and a comment.
import { useState } from "react";
import type { LifecycleRow, Task } from "../../api/schema";
import { plain } from "../../text";
import { Dialog } from "../../ui/dialog";
import { StateMark } from "../../ui/state";
import { useTable } from "../../ui/tables";
import { RoundsUsed, weight } from "../inbox/choices";
import { titleOf } from "../inbox/kinds";

interface Props {
  task: Task;
  row: LifecycleRow;
  label: string;
  busy: boolean;
  onSend: (comment: string | null) => void;
  onClose: () => void;
}

export function Decision({ task, row, label, busy, onSend, onClose }: Props) {
  const table = useTable(task.lifecycle);
  const [comment, setComment] = useState("");
  return (
    <Dialog
      title={`${label}?`}
      action={label}
      danger={weight(table, row) === "danger"}
      busy={busy}
      onClose={onClose}
      onDo={() => onSend(comment || null)}
    >
      <p>
        {plain(titleOf(task))} goes to <StateMark table={table.id} state={row.target} />:{" "}
        {plain(row.why)}.
      </p>
      <RoundsUsed task={task} />
      <label className="field">
        <span>Comment (optional; the next run gets it)</span>
        <textarea
          className="input"
          rows={3}
          maxLength={10_000}
          value={comment}
          onChange={(event) => setComment(event.target.value)}
        />
      </label>
    </Dialog>
  );
}
