// The work of a task as a list: its jobs, their steps, and the runs and waits of each.
import type { ReactNode } from "react";
import { useRead } from "../../api/hooks";
import type { Run, Task } from "../../api/schema";
import { Link, linkTo } from "../../router";
import { dollars, plain, plural, reasonText } from "../../text";
import { Mark, RunMark, StateMark } from "../../ui/state";
import { Took, When } from "../../ui/when";
import { isWaiting, type Row } from "./timeline";
import { useTimeline } from "./use_timeline";

export function Work({ task }: { task: Task }) {
  const { drawn } = useTimeline(task.id);
  const runs = useRead("task_runs", { task_id: task.id });
  const byId = new Map(runs.data?.items.map((run) => [run.id, run]));
  const rows = drawn.rows.filter((row) => row.kind !== "task");
  return (
    <section aria-labelledby="work-title">
      <h2 id="work-title">Work</h2>
      {rows.length ? (
        <div className="scroll" tabIndex={0} role="region" aria-label="Work by job">
          <table className="list stacking work" aria-label="Jobs, steps, runs and waits">
            <thead>
              <tr>
                {["Work", "State", "Began", "Duration", "Cost", "Worker", "Note"].map((name) => (
                  <th key={name} scope="col">
                    {name}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {rows.map((row) => (
                <WorkRow
                  key={`${row.kind} ${row.id} ${row.bars[0]!.start}`}
                  row={row}
                  byId={byId}
                />
              ))}
            </tbody>
          </table>
        </div>
      ) : (
        <p className="faint">No job was created yet.</p>
      )}
      <Subtasks task={task} />
    </section>
  );
}

function WorkRow({ row, byId }: { row: Row; byId: ReadonlyMap<string, Run> }) {
  const run = row.kind === "run" ? byId.get(row.id) : undefined;
  const first = row.bars[0]!;
  const last = row.bars.at(-1)!;
  const ended = last.end === null ? null : new Date(last.end).toISOString();
  const began = run?.started_at ?? new Date(first.start).toISOString();
  const cells: [string, ReactNode][] = [
    ["State", <RowState key="state" row={row} run={run} />],
    ["Began", <When key="began" at={began} />],
    ["Duration", <Took key="took" from={began} to={run ? run.ended_at : ended} />],
    ["Cost", run?.cost ? dollars(run.cost) : ""],
    ["Worker", run ? plain(run.worker) : ""],
  ];
  return (
    <tr data-kind={row.kind}>
      <td className={`work-name depth-${row.depth - 1}`}>
        <Name row={row} />
      </td>
      {cells.map(([name, value]) => (
        <td key={name} data-name={name}>
          {value}
        </td>
      ))}
      <td data-name="Note" className="message-cell">
        <Note row={row} run={run} />
      </td>
    </tr>
  );
}

function Name({ row }: { row: Row }) {
  if (row.kind === "job") return <Link to={linkTo.job(row.id)}>{row.label}</Link>;
  if (row.kind === "run") return <Link to={linkTo.run(row.id)}>{row.label}</Link>;
  return <>{plain(row.label)}</>;
}

function RowState({ row, run }: { row: Row; run: Run | undefined }) {
  const last = row.bars.at(-1)!;
  if (run) return <RunMark run={run} quiet />;
  if (isWaiting(row)) {
    return (
      <Mark look="waiting" quiet>
        waiting
      </Mark>
    );
  }
  if (last.table !== null) return <StateMark table={last.table} state={last.state} quiet />;
  return (
    <Mark look="ended" quiet>
      ended
    </Mark>
  );
}

/** Why it is in its state, and until when. */
function Note({ row, run }: { row: Row; run: Run | undefined }) {
  const last = row.bars.at(-1)!;
  const why = run ? run.reason : last.why;
  const until = last.end === null ? last.until : null;
  if (!why && until === null) return null;
  return (
    <span>
      {why && reasonText(why)}
      {until !== null && (
        <>
          {why && ", "}until <When at={until} exact /> (<When at={until} />)
        </>
      )}
    </span>
  );
}

function Subtasks({ task }: { task: Task }) {
  const subtasks = useRead("subtasks", { task_id: task.id }, { enabled: task.subtasks > 0 });
  if (!subtasks.data?.items.length) return null;
  return (
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
  );
}
