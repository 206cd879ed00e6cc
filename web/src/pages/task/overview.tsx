// The overview of a task: its outcome, its work, its details and its path through the lifecycle.
import { useMemo, useState } from "react";
import { useRead } from "../../api/hooks";
import type { Event, Task } from "../../api/schema";
import { path } from "../../lifecycles";
import { Link, linkTo } from "../../router";
import { dollars, plain, plural, shortId } from "../../text";
import { Diagram, wayKey } from "../../ui/diagram";
import { Meter } from "../../ui/meter";
import { StateMark } from "../../ui/state";
import { useTables } from "../../ui/tables";
import { Value } from "../../ui/value";
import { When } from "../../ui/when";
import { Outcome } from "./outcome";
import { Work } from "./work";

export function Overview({ task }: { task: Task }) {
  return (
    <div className="overview">
      <Outcome task={task} />
      <Work task={task} />
      <Facts task={task} />
      <States task={task} />
    </div>
  );
}

/** The states so far; the diagram is drawn when the reader opens it. */
function States({ task }: { task: Task }) {
  const events = useRead("task_events", { task_id: task.id });
  const [open, setOpen] = useState(false);
  return (
    <section aria-label="States">
      <details onToggle={(event) => setOpen(event.currentTarget.open)}>
        <summary>
          <h2>States and diagram</h2>
        </summary>
        {open && <Way task={task} events={events.data?.events ?? []} />}
      </details>
    </section>
  );
}

function Way({ task, events }: { task: Task; events: Event[] }) {
  const tables = useTables();
  const own = useMemo(() => events.filter((event) => event.stream === task.id), [events, task.id]);
  const visits = useMemo(() => path(tables, "task", own), [tables, own]);
  const way = useMemo(
    () => new Set(visits.map((visit) => wayKey(visit.from, visit.event))),
    [visits],
  );
  return (
    <>
      <ol className="way" aria-label="States so far">
        {visits.map((visit) => (
          <li key={visit.position}>
            <Link to={`${linkTo.task(task.id, "history")}?at=${visit.position}`}>
              <StateMark table={visit.table} state={visit.state} quiet />
            </Link>
            <span className="faint">
              <When at={visit.at} />
            </span>
          </li>
        ))}
      </ol>
      <Diagram name={task.lifecycle} lit={task.state} way={way} />
    </>
  );
}

/** The cost so far, with and without subtasks. */
function Costs({ task }: { task: Task }) {
  const costs = useRead("task_costs", { task_id: task.id });
  if (!costs.data || (costs.data.tree.cost === 0 && costs.data.budget === null)) return null;
  const { own, tree, budget, left } = costs.data;
  return (
    <>
      <h3>Cost</h3>
      <p>
        {dollars(own.cost)} in {plural(own.runs, "run")}, {own.tokens_in.toLocaleString("en")}{" "}
        tokens in, {own.tokens_out.toLocaleString("en")} out
        {tree.cost > own.cost && `; with subtasks ${dollars(tree.cost)}`}
        {left !== null && `; ${dollars(Math.max(left, 0))} left`}.
      </p>
      {budget !== null && <Meter label="Budget spent" used={tree.cost} all={budget} />}
    </>
  );
}

function Facts({ task }: { task: Task }) {
  const facts: [string, React.ReactNode][] = [
    ["created", <When key="at" at={task.created_at} exact />],
    ["by", plain(task.created_by)],
    ["source", plain(task.source)],
    [
      "lifecycle",
      <Link key="lifecycle" to={linkTo.lifecycle(task.lifecycle)}>
        {task.lifecycle}
      </Link>,
    ],
    ["tags", task.tags.map(plain).join(", ")],
    ["round", task.rounds ? task.rounds + 1 : ""],
    ["comment", task.comment && plain(task.comment)],
    ["spent", task.spent ? dollars(task.spent) : ""],
    ["budget", task.budget === null ? "" : dollars(task.budget)],
    ["session", task.session_id && plain(task.session_id)],
    [
      "parent",
      task.parent_id && (
        <Link key="parent" to={linkTo.task(task.parent_id)}>
          {shortId(task.parent_id)}
        </Link>
      ),
    ],
    [
      "depends on",
      task.depends_on.length > 0 &&
        task.depends_on.map((id) => (
          <Link key={id} to={linkTo.task(id)}>
            {shortId(id)}{" "}
          </Link>
        )),
    ],
    ["retries left", task.retries_left ?? ""],
    ["version", task.version],
  ];
  return (
    <section aria-labelledby="facts-title">
      <h2 id="facts-title">Details</h2>
      <dl className="facts">
        {facts
          .filter(([, value]) => value !== "" && value !== null && value !== false)
          .map(([name, value]) => (
            <div key={name}>
              <dt>{name}</dt>
              <dd>{value}</dd>
            </div>
          ))}
      </dl>
      <Costs task={task} />
      {task.payload != null && JSON.stringify(task.payload) !== "{}" && (
        <>
          <h3>Payload</h3>
          <Value value={task.payload} />
        </>
      )}
    </section>
  );
}
