// The task's events in order, and the state of the task and its jobs after each of them.
import { useMemo, useRef } from "react";
import { useRead } from "../../api/hooks";
import type { Event, Task } from "../../api/schema";
import { asOf, type Standing } from "../../lifecycles";
import { useSearch } from "../../router";
import { plain, plural, shortId, words } from "../../text";
import { clockTime, exactUtc, inZone } from "../../time";
import { type KeyHelp, useKeys } from "../../ui/keys";
import { Loading, Trouble } from "../../ui/notes";
import { useReveal } from "../../ui/reveal";
import { StateMark } from "../../ui/state";
import { useTables } from "../../ui/tables";
import { Value } from "../../ui/value";
import { When } from "../../ui/when";

const HELP: KeyHelp = [["j k", "next event, previous event"]];

export function History({ task }: { task: Task }) {
  const answer = useRead("task_events", { task_id: task.id });
  const [search, change] = useSearch();
  const events = answer.data?.events ?? [];
  const wanted = Number(search.get("at"));
  const found = events.findIndex((event) => event.position === wanted);
  const at = found >= 0 ? found : events.length - 1;
  const open = (index: number) => {
    const event = events[Math.max(0, Math.min(events.length - 1, index))];
    if (event) change({ at: String(event.position) });
  };
  useKeys({ j: () => open(at + 1), k: () => open(at - 1) }, HELP);
  if (answer.error) return <Trouble problem={answer.error} again={answer.refetch} />;
  const event = events[at];
  if (!event) return <Loading what="the history" />;
  return (
    <div className="history">
      <ol className="events" aria-label="Events, oldest first">
        {events.map((each, index) => (
          <Line
            key={each.position}
            event={each}
            current={index === at}
            onOpen={() => open(index)}
          />
        ))}
      </ol>
      <Then task={task} events={events} event={event} last={at === events.length - 1} />
    </div>
  );
}

function Line({ event, current, onOpen }: { event: Event; current: boolean; onOpen: () => void }) {
  const kind = useTables().kindOf(event.name);
  const line = useRef<HTMLLIElement>(null);
  useReveal(line, current);
  const time = Date.parse(event.at);
  return (
    <li ref={line}>
      <button
        type="button"
        className="event"
        aria-pressed={current}
        onClick={onOpen}
        data-level={kind ?? "fact"}
      >
        <time
          dateTime={event.at}
          title={`${inZone(time)}\n${exactUtc(time)}`}
          className="faint mono"
        >
          {clockTime(time)}
        </time>
        <span className="event-name">{event.name}</span>
        <span className="faint cut">{plain(event.actor)}</span>
      </button>
    </li>
  );
}

interface ThenProps {
  task: Task;
  events: Event[];
  event: Event;
  last: boolean;
}

function Then({ task, events, event, last }: ThenProps) {
  const tables = useTables();
  const standing = useMemo(
    () => asOf(tables, task.id, events, event.position),
    [tables, task.id, events, event],
  );
  const own = standing.find((each) => each.kind === "task");
  return (
    <section className="then" aria-label="State after this event">
      <h2>{event.name}</h2>
      <p className="facts-line">
        <span className="faint">
          <When at={event.at} exact />
        </span>
        <span className="faint">position {event.position}</span>
        <span className="faint">by {plain(event.actor)}</span>
      </p>
      <h3>{last ? "Current state" : "State after this event"}</h3>
      {own && (
        <p className="row">
          <span>{last ? "The task is" : "The task was"}</span>{" "}
          <StateMark table={own.table} state={own.state} />
        </p>
      )}
      <Standings standing={standing.filter((each) => each.kind !== "task")} />
      <h3>Event data</h3>
      <Value value={event.data ?? {}} />
      <Whole taskId={task.id} position={event.position} />
    </section>
  );
}

/** The task itself as the server folds it from the log up to there. */
function Whole({ taskId, position }: { taskId: string; position: number }) {
  const then = useRead("task_at", { task_id: taskId, position });
  if (then.error) return <Trouble problem={then.error} />;
  if (!then.data) return null;
  return (
    <details>
      <summary>
        The task and its jobs after this event ({plural(then.data.jobs.length, "job")})
      </summary>
      <Value value={{ task: then.data.task, jobs: then.data.jobs }} />
    </details>
  );
}

function Standings({ standing }: { standing: Standing[] }) {
  if (!standing.length) return <p className="faint">The task had no job yet.</p>;
  return (
    <>
      <p className="faint">{plural(standing.length, "job, step or run", "jobs, steps and runs")}</p>
      <ul className="plain-list">
        {standing.map((each) => (
          <li key={`${each.kind} ${each.id}`} className="row">
            <StateMark table={each.table} state={each.state} quiet />
            <span>
              {words(each.kind)} <span className="mono">{shortId(each.id)}</span>
            </span>
            <span className="faint">
              entered <When at={each.since} />
            </span>
          </li>
        ))}
      </ul>
    </>
  );
}
