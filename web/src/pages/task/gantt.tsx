// Jobs, steps, runs, waits and retries on one axis of time.
import type { Task } from "../../api/schema";
import { plain, words } from "../../text";
import { clockTime, duration, exactUtc } from "../../time";
import { Empty, Loading, Trouble } from "../../ui/notes";
import { Shape, StateMark } from "../../ui/state";
import { useLook } from "../../ui/tables";
import { useNow } from "../../ui/when";
import { type Bar, marks, type Row } from "./timeline";
import { useTimeline } from "./use_timeline";

/** The part of the axis that has marks: the label of a later one would be cut off. */
const LABELLED = 0.94;
const percent = (part: number) => `${(part * 100).toFixed(3)}%`;

export function Gantt({ task }: { task: Task }) {
  const { events, drawn } = useTimeline(task.id);
  const now = useNow();
  if (events.error) return <Trouble problem={events.error} again={events.refetch} />;
  if (!events.data) return <Loading what="the timeline" />;
  if (!drawn.rows.length) return <Empty title="There are no events yet." />;
  const end = Math.max(drawn.end ?? now, drawn.start + 1);
  const span = end - drawn.start;
  return (
    <>
      <p className="faint">
        {duration((drawn.end ? drawn.last : now) - drawn.start)} from {clockTime(drawn.start)} to{" "}
        {drawn.end ? clockTime(drawn.last) : "now"}
      </p>
      <div className="scroll" tabIndex={0} role="region" aria-label="Timeline">
        <div className="gantt" role="table" aria-label="States over time">
          <div className="gantt-row axis" role="row">
            <span role="columnheader">elapsed</span>
            <span className="gantt-track" role="columnheader" aria-label="time">
              {marks(span * LABELLED, 8).map((at) => (
                <span key={at} className="mark" style={{ left: percent(at / span) }}>
                  {at ? duration(at) : "0"}
                </span>
              ))}
            </span>
          </div>
          {drawn.rows.map((row) => (
            <Line key={`${row.kind} ${row.id}`} row={row} start={drawn.start} end={end} />
          ))}
        </div>
      </div>
      <Legend rows={drawn.rows} />
    </>
  );
}

function Line({ row, start, end }: { row: Row; start: number; end: number }) {
  return (
    <div className="gantt-row" role="row" data-kind={row.kind}>
      <span role="rowheader" className={`depth-${row.depth} cut`} title={row.id}>
        {row.label}
      </span>
      <span className="gantt-track" role="cell">
        {row.bars.map((bar) => (
          <Span key={`${bar.start} ${bar.state}`} bar={bar} start={start} end={end} />
        ))}
      </span>
    </div>
  );
}

interface SpanProps {
  bar: Bar;
  start: number;
  end: number;
}

function Span({ bar, start, end }: SpanProps) {
  // What sleeps looks like a job that waits; so does a wait, which has no lifecycle.
  const waiting = bar.table === null || bar.until !== null;
  const { look, appearance } = useLook(
    waiting ? "job" : bar.table!,
    waiting ? "waiting" : bar.state,
  );
  const until = bar.end ?? end;
  const span = end - start;
  const lasted = duration((bar.end ?? Date.now()) - bar.start);
  const waits = bar.end === null && bar.until !== null ? `, until ${clockTime(bar.until)}` : "";
  const why = bar.why ? ` (${plain(words(bar.why))})` : "";
  const soFar = bar.end === null ? " so far" : "";
  const description = `${words(bar.state)}${why}${waits}, ${lasted}${soFar}, by ${bar.event}\n${exactUtc(bar.start)}`;
  return (
    <span
      className={`bar ${bar.end === null ? "open" : ""} ${bar.table ? "" : "wait"} ${until === bar.start ? "moment" : ""}`}
      data-look={look}
      title={description}
      style={{
        left: percent((bar.start - start) / span),
        ...(until === bar.start ? {} : { width: percent((until - bar.start) / span) }),
      }}
    >
      <Shape name={appearance.shape} />
      <span className="bar-name">
        {words(bar.state)}
        {waits}
      </span>
    </span>
  );
}

/** The legend: a short bar has no space for the name of its state. */
function Legend({ rows }: { rows: Row[] }) {
  const shown = new Map<string, [string, string]>();
  for (const row of rows) {
    for (const bar of row.bars) {
      if (bar.table) shown.set(`${row.kind} ${bar.state}`, [bar.table, bar.state]);
    }
  }
  return (
    <ul className="gantt-legend" aria-label="States in this timeline">
      {[...shown].map(([key, [table, state]]) => (
        <li key={key}>
          <StateMark table={table} state={state} quiet />
          <span className="faint">{key.split(" ")[0]}</span>
        </li>
      ))}
    </ul>
  );
}
