// The events of its lifecycle that a person may send to a task: where each leads, and its button.
import type { InboxTask, Lifecycle, LifecycleRow, Task } from "../../api/schema";
import { eventLabel } from "../../lifecycles";
import { plain, plural } from "../../text";
import { StateMark } from "../../ui/state";
import { useTable } from "../../ui/tables";
import { useDecision } from "./settling";

interface Props {
  task: InboxTask;
  /** The version of the task whose work is shown. */
  seen: number;
  comment: string;
}

export function Choices({ task, seen, comment }: Props) {
  const table = useTable(task.lifecycle);
  const rows = rowsFor(table, task, task.events);
  if (!rows.length) return null;
  return (
    <ul className="choices" aria-label="Decisions">
      {rows.map((row, index) => (
        <Choice key={row.event} {...{ task, seen, row, comment }} first={index === 0} />
      ))}
    </ul>
  );
}

interface ChoiceProps extends Props {
  row: LifecycleRow;
  first: boolean;
}

function Choice({ task, seen, row, comment, first }: ChoiceProps) {
  const table = useTable(task.lifecycle);
  const send = useDecision("send_event", eventLabel(row.event), task);
  const task_id = task.id;
  return (
    <li>
      <button
        type="button"
        className={`button ${weight(table, row)}`}
        data-key={first ? "option" : undefined}
        onClick={() => send({ task_id, seen, event: row.event, comment: comment || null })}
      >
        {eventLabel(row.event)}
      </button>
      <span>
        <span className="faint">to</span> <StateMark table={table.id} state={row.target} quiet />
      </span>
      <span className="faint">{plain(row.why)}</span>
    </li>
  );
}

/** The rows of some events from the task's state, in the order of the table. */
export function rowsFor(
  table: Lifecycle,
  task: Pick<Task, "state">,
  events: readonly string[],
): LifecycleRow[] {
  return table.rows.filter((row) => row.source === task.state && events.includes(row.event));
}

/** How a button looks: what completes the task is first, what begins another round warns. */
export function weight(table: Lifecycle, row: LifecycleRow): string {
  if (table.endings[row.target] === "done") return "primary";
  return table.rounds.events.includes(row.event) || row.target in table.endings ? "danger" : "";
}

/** The limit of rounds: the task's own, or that of its lifecycle. */
function roundLimit(table: Lifecycle, task: Task): number | null {
  const own = (task.options as { max_rounds?: number }).max_rounds;
  return own ?? table.rounds.limit;
}

/** How many rounds are used, and which events are refused because none is left. */
export function RoundsUsed({ task }: { task: Task }) {
  const table = useTable(task.lifecycle);
  const limit = roundLimit(table, task);
  const counted = rowsFor(table, task, table.rounds.events);
  if (limit === null || !counted.length) return null;
  if (task.rounds < limit) {
    return (
      <p className="faint">
        {task.rounds} of {plural(limit, "round")} used.
      </p>
    );
  }
  const names = counted.map((row) => eventLabel(row.event)).join(", ");
  return (
    <p className="notice">
      {task.rounds} of {plural(limit, "round")} used. No round is left, so {names} is refused.
    </p>
  );
}
