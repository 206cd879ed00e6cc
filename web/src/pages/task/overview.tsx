// The overview of a task: its status, its details, its runs and its path through the lifecycle.
import { useMemo } from "react";
import { useRead } from "../../api/hooks";
import type { Event, Task } from "../../api/schema";
import { path } from "../../lifecycles";
import { Link, linkTo } from "../../router";
import { dollars, plain, plural, shortId, words } from "../../text";
import { Diagram, wayKey } from "../../ui/diagram";
import { Meter } from "../../ui/meter";
import { Trouble } from "../../ui/notes";
import { Reasons } from "../../ui/reasons";
import { RunMark, StateMark } from "../../ui/state";
import { useTables } from "../../ui/tables";
import { Value } from "../../ui/value";
import { Took, When } from "../../ui/when";
import { IN_INBOX } from "./actions";

export function Overview({ task }: { task: Task }) {
  const events = useRead("task_events", { task_id: task.id });
  return (
    <div className="overview">
      <div className="pair">
        <section aria-labelledby="why-title">
          <h2 id="why-title">Status</h2>
          <Why task={task} />
        </section>
        <Facts task={task} />
      </div>
      <Work task={task} />
      <section aria-labelledby="way-title">
        <h2 id="way-title">States</h2>
        <Way task={task} events={events.data?.events ?? []} />
      </section>
    </div>
  );
}

function Why({ task }: { task: Task }) {
  const why = useRead("why", { task_id: task.id });
  if (why.error) return <Trouble problem={why.error} again={why.refetch} />;
  const reasons = why.data?.id === task.id ? why.data.reasons : [];
  if (!reasons.length) {
    return <p className="faint">Nothing blocks it. Its state is {words(task.state)}.</p>;
  }
  return (
    <>
      <Reasons reasons={reasons} />
      {why.data!.actions.some((action) => IN_INBOX.includes(action)) && (
        <p className="why-next">
          <Link to={`/inbox/${encodeURIComponent(task.id)}`}>Open it in the inbox</Link>
        </p>
      )}
    </>
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

function Work({ task }: { task: Task }) {
  const runs = useRead("task_runs", { task_id: task.id });
  const subtasks = useRead("subtasks", { task_id: task.id }, { enabled: task.subtasks > 0 });
  const jobs = useRead("task_jobs", { task_id: task.id });
  const result = jobs.data?.items.at(-1)?.result;
  const reasons = runs.data?.items.some((run) => run.reason);
  return (
    <section aria-labelledby="work-title">
      <h2 id="work-title">Runs</h2>
      {runs.data?.items.length ? (
        <div className="scroll">
          <table className="list">
            <thead>
              <tr>
                <th scope="col">Run</th>
                <th scope="col">State</th>
                <th scope="col">Started</th>
                <th scope="col">Duration</th>
                <th scope="col">Cost</th>
                <th scope="col">Worker</th>
                {reasons && <th scope="col">Reason</th>}
              </tr>
            </thead>
            <tbody>
              {runs.data.items.map((run) => (
                <tr key={run.id}>
                  <td>
                    <Link className="mono" to={linkTo.run(run.id)}>
                      {shortId(run.id)}
                    </Link>
                    {run.step && <span className="faint"> {plain(run.step)}</span>}
                  </td>
                  <td>
                    <RunMark run={run} quiet />
                  </td>
                  <td>{run.started_at && <When at={run.started_at} />}</td>
                  <td>
                    <Took from={run.started_at} to={run.ended_at} />
                  </td>
                  <td>{run.cost ? dollars(run.cost) : ""}</td>
                  <td>{plain(run.worker)}</td>
                  {reasons && <td className="message-cell">{run.reason && plain(run.reason)}</td>}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      ) : (
        <p className="faint">No run has started yet.</p>
      )}
      {subtasks.data && subtasks.data.items.length > 0 && (
        <>
          <h3>{plural(subtasks.data.items.length, "subtask")}</h3>
          <ul className="plain-list">
            {subtasks.data.items.map((each) => (
              <li key={each.id} className="row">
                <StateMark table={each.lifecycle} state={each.state} quiet />
                <Link to={linkTo.task(each.id)}>{plain(each.title || each.intent)}</Link>
              </li>
            ))}
          </ul>
        </>
      )}
      {result != null && (
        <>
          <h3>Result</h3>
          <Value value={result} />
        </>
      )}
    </section>
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
    ["rounds", task.rounds || ""],
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
