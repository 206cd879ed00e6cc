// Every lifecycle as a diagram and tables: its states with their counts, its transitions, and for
// tasks what follows from their jobs, timers and rounds.
import { useFresh, useRead } from "../api/hooks";
import type { Lifecycle } from "../api/schema";
import { Link, linkTo } from "../router";
import { plain, plural, words } from "../text";
import { duration } from "../time";
import { Diagram } from "../ui/diagram";
import { Empty } from "../ui/notes";
import { StateMark } from "../ui/state";
import { useTables } from "../ui/tables";
import { Tabs } from "../ui/tabs";
import { Title } from "../ui/title";

/** Where a task is created without naming a lifecycle. */
const ENTRY_POINTS: Record<string, string> = {
  add: "POST /add",
  submit: "detent submit and POST /api/tasks",
  schedule: "schedules",
};

export default function Lifecycles({ name }: { name?: string }) {
  const tables = useTables();
  const counts = useRead("counts", {}, { everyMs: 10_000 });
  useFresh(["counts"], () => true, 2_000);
  const newest = tables.newest();
  const chosen = name ?? newest[0]!.id;
  const table = tables.byId.get(chosen);
  return (
    <>
      <Title tab={table ? `Lifecycle ${table.id}` : "Lifecycles"}>Lifecycles</Title>
      <Tabs label="Lifecycles">
        {newest.map((each) => (
          <Link
            key={each.id}
            to={linkTo.lifecycle(each.id)}
            aria-current={each.name === table?.name ? "page" : undefined}
          >
            {each.name}
          </Link>
        ))}
      </Tabs>
      {table ? (
        <One table={table} counts={counts.data?.lifecycles} />
      ) : (
        <Empty title="There is no such lifecycle.">
          <p>Choose one of the lifecycles above.</p>
        </Empty>
      )}
    </>
  );
}

type ByState = Record<string, Record<string, number>>;

function One({ table, counts }: { table: Lifecycle; counts: ByState | undefined }) {
  const here = counts && (counts[table.id] ?? {});
  return (
    <>
      <p className="faint">
        {plain(table.title)}. A double border marks a final state. A number on a state is the
        current count.
        {table.rows.some((row) => row.extension) &&
          " Dashed arrows with labels in italics, and rows marked ext, are extensions."}
        {table.default_for.length > 0 &&
          ` It is the default for tasks from ${list(table.default_for.map((each) => ENTRY_POINTS[each] ?? each))}.`}
      </p>
      {table.kind === "task" && (
        <div className="row wrap lifecycle-links">
          <Link to={`/board?lifecycle=${encodeURIComponent(table.id)}`}>Open its board</Link>
          <Versions table={table} counts={counts} />
        </div>
      )}
      <Diagram name={table.id} counts={here ?? {}} />
      <States table={table} counts={here} />
      <Transitions table={table} />
      {table.kind === "task" && <Consequences table={table} />}
    </>
  );
}

/** All versions, if there are several: a task stays on the one that it began with. */
function Versions({ table, counts }: { table: Lifecycle; counts: ByState | undefined }) {
  const versions = useTables().versions(table.name);
  if (versions.length < 2) return null;
  return (
    <nav className="row versions" aria-label="Versions">
      {versions.map((each) => (
        <Link
          key={each.id}
          to={linkTo.lifecycle(each.id)}
          aria-current={each.id === table.id ? "page" : undefined}
        >
          Version {each.version}
          {counts && (
            <span className="faint">
              {" "}
              {plural(
                Object.values(counts[each.id] ?? {}).reduce((sum, count) => sum + count, 0),
                "task",
              )}
            </span>
          )}
        </Link>
      ))}
    </nav>
  );
}

interface StatesProps {
  table: Lifecycle;
  counts: Record<string, number> | undefined;
}

function States({ table, counts }: StatesProps) {
  const ofTasks = table.kind === "task";
  const headings = ["Meaning", ...(ofTasks ? ["Job", "Column"] : [])];
  return (
    <>
      <h2>States</h2>
      <div className="scroll">
        <table className="list" aria-label="States">
          <thead>
            <tr>
              <th scope="col">State</th>
              <th scope="col" className="end">
                Now
              </th>
              {headings.map((each) => (
                <th key={each} scope="col">
                  {each}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {table.states.map((state) => (
              <tr key={state}>
                <td>
                  <StateMark table={table.id} state={state} />
                </td>
                <td className="end">{counts && (counts[state] ?? 0).toLocaleString("en")}</td>
                <td>{sentences(table, state)}</td>
                {ofTasks && <td>{JOBS[table.phases[state]!]}</td>}
                {ofTasks && <td>{plain(table.columns[state] ?? words(state))}</td>}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </>
  );
}

/** What the job of a task does, by the phase of the task's state. */
const JOBS: Record<string, string> = {
  idle: "none",
  queued: "waits for a worker",
  working: "runs",
  blocked: "blocked",
};

function sentences(table: Lifecycle, state: string): string {
  const ending = table.endings[state];
  const meaning = plain(table.meanings[state] ?? "");
  return [
    meaning.endsWith(".") ? meaning : `${meaning}.`,
    state === table.initial && " It begins here.",
    table.waits_for_person.includes(state) && " A person decides.",
    ending && ` It counts as ${ending}.`,
    table.terminal.includes(state) && " It ends here.",
  ]
    .filter(Boolean)
    .join("");
}

function Transitions({ table }: { table: Lifecycle }) {
  const extended = table.rows.some((row) => row.extension);
  const headings = ["From", "Event", "To", "Who", "When", ...(extended ? ["Extension"] : [])];
  return (
    <>
      <h2>Transitions</h2>
      <Grid label="Transitions" headings={headings}>
        {table.rows.map((row) => (
          <tr key={`${row.source} ${row.event}`}>
            <td>
              {row.source ? (
                <StateMark table={table.id} state={row.source} quiet />
              ) : (
                <span className="faint">nothing</span>
              )}
            </td>
            <td className="mono">{row.event}</td>
            <td>
              <StateMark table={table.id} state={row.target} quiet />
            </td>
            <td>{words(row.who)}</td>
            <td>{plain(row.why)}</td>
            {extended && <td>{row.extension && <span className="tag strong">ext</span>}</td>}
          </tr>
        ))}
      </Grid>
    </>
  );
}

/** What happens to a task without a person: by its job, by time, and by the number of rounds. */
function Consequences({ table }: { table: Lifecycle }) {
  const { rounds, timers, rules, queues } = table;
  return (
    <>
      <h2>Rules</h2>
      <p className="faint">
        What a task does when something happens to its job or its subtasks. The first rule that
        applies is followed.
        {queues.length > 0 && (
          <>
            {" "}
            A job is created by <span className="mono">{queues.join(", ")}</span>.
          </>
        )}
      </p>
      <Grid label="Rules" headings={["After", "In", "If", "Then"]}>
        {rules.map((rule, at) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: rules never move
          <tr key={at}>
            <td>{words(rule.when)}</td>
            <td>{rule.states.length ? rule.states.map(words).join(", ") : any}</td>
            <td>{rule.given.length ? rule.given.map(words).join(" and ") : any}</td>
            <td className="mono">
              {rule.then.length ? rule.then.join(", ") : <span className="faint">nothing</span>}
            </td>
          </tr>
        ))}
      </Grid>
      <h2>Timers</h2>
      {timers.length ? (
        <Grid label="Timers" headings={["In", "After", "Event"]}>
          {timers.map((timer) => (
            <tr key={`${timer.state} ${timer.event}`}>
              <td>
                <StateMark table={table.id} state={timer.state} quiet />
              </td>
              <td>{duration(timer.after_s * 1_000)}</td>
              <td className="mono">{timer.event}</td>
            </tr>
          ))}
        </Grid>
      ) : (
        <p className="faint">No state has a timer.</p>
      )}
      <h2>Rounds</h2>
      <p className="faint">
        {rounds.events.length === 0 ? (
          "No event counts a round."
        ) : (
          <>
            <span className="mono">{rounds.events.join(", ")}</span>{" "}
            {rounds.events.length === 1 ? "counts" : "count"} a round.{" "}
            {rounds.limit === null
              ? "There is no limit unless the task has one."
              : `After ${plural(rounds.limit, "round")} it is refused, unless the task has a limit of its own.`}
          </>
        )}
      </p>
    </>
  );
}

const any = <span className="faint">any</span>;

interface GridProps {
  label: string;
  headings: readonly string[];
  children: React.ReactNode;
}

function Grid({ label, headings, children }: GridProps) {
  return (
    <div className="scroll" tabIndex={0} role="region" aria-label={label}>
      <table className="list text" aria-label={label}>
        <thead>
          <tr>
            {headings.map((each) => (
              <th key={each} scope="col">
                {each}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>{children}</tbody>
      </table>
    </div>
  );
}

function list(names: readonly string[]): string {
  return names.length > 1 ? `${names.slice(0, -1).join(", ")} and ${names.at(-1)}` : names[0]!;
}
