// The rows of a task's timeline, computed from its events: each state with its start and end.
import type { Event } from "../../api/schema";
import { after, isSame, type Kind, subjectOf, type Tables } from "../../lifecycles";

export interface Bar {
  /** Null while it goes on. */
  end: number | null;
  start: number;
  state: string;
  /** The lifecycle that has the state; none for a wait. */
  table: string | null;
  /** The event that began it. */
  event: string;
}
export interface Row {
  kind: Kind | "wait";
  id: string;
  label: string;
  depth: number;
  bars: Bar[];
}
export interface Timeline {
  rows: Row[];
  start: number;
  /** When the timeline ends; null means now, while the task is not settled. */
  end: number | null;
  /** The last thing that happened. */
  last: number;
}

/** The part of the picture that a rest at its end gets. */
const REST = 0.12;

type Data = Record<string, unknown>;

class Builder {
  readonly rows = new Map<string, Row>();

  constructor(
    private readonly tables: Tables,
    private readonly taskId: string,
  ) {}

  take(event: Event): void {
    const at = Date.parse(event.at);
    const data = (event.data ?? {}) as Data;
    const kind = this.tables.kindOf(event.name);
    if (kind !== null) this.move(kind, event, at, data);
    if (event.name === "job_running" && typeof data.run_id === "string")
      this.claim(data.run_id, at);
    if (event.name === "wait_begun") this.begin(event, at, data);
    if (event.name === "wait_ended") this.end(`wait ${event.stream} ${event.subject}`, at);
    if (event.name === "wait_completed") this.end(`wait ${event.stream} ${data.wait}`, at);
  }

  private move(kind: Kind, event: Event, at: number, data: Data): void {
    const id = subjectOf(event, kind, this.taskId);
    const row = this.row(kind, id, labelOf(kind, id, data));
    const last = row.bars.at(-1);
    const before = last?.table ? { table: last.table, state: last.state } : null;
    const place = after(this.tables, kind, before, event);
    if (place === null || isSame(place, before)) return;
    if (last) last.end = at;
    const ended = this.tables.byId.get(place.table)?.terminal.includes(place.state);
    row.bars.push({ ...place, start: at, end: ended ? at : null, event: event.name });
  }

  /** A run is recorded by the claim of its job. */
  private claim(runId: string, at: number): void {
    const { id: table, initial: state } = this.tables.only("run");
    const row = this.row("run", runId, labelOf("run", runId, {}));
    if (!row.bars.length) {
      row.bars.push({ start: at, end: null, table, state, event: "job_running" });
    }
  }

  private begin(event: Event, at: number, data: Data): void {
    const kind = String(data.kind ?? "wait");
    const row = this.row("wait", `${event.stream} ${event.subject}`, `wait: ${kind}`);
    row.bars.push({ start: at, end: null, table: null, state: kind, event: event.name });
  }

  private end(key: string, at: number): void {
    const bar = this.rows.get(key)?.bars.at(-1);
    if (bar && bar.end === null) bar.end = at;
  }

  private row(kind: Row["kind"], id: string, label: string): Row {
    const key = `${kind} ${id}`;
    const found = this.rows.get(key);
    if (found) return found;
    const depth = kind === "task" ? 0 : kind === "job" ? 1 : 2;
    const made: Row = { kind, id, label, depth, bars: [] };
    this.rows.set(key, made);
    return made;
  }
}

function labelOf(level: Kind, id: string, data: Data): string {
  if (level === "task") return "task";
  if (level === "run" && typeof data.step === "string") return `run of ${data.step}`;
  const tail = level === "step" ? id : (id.split("-").at(-1) ?? id);
  const number = /^[jr](\d+)$/.exec(tail);
  return number ? `${level} ${number[1]}` : `${level} ${tail}`;
}

export function timeline(tables: Tables, taskId: string, events: readonly Event[]): Timeline {
  const builder = new Builder(tables, taskId);
  for (const event of events) builder.take(event);
  const rows = [...builder.rows.values()].filter((row) => row.bars.length);
  const times = rows.flatMap((row) => row.bars.flatMap((bar) => [bar.start, bar.end]));
  const known = times.filter((time): time is number => time !== null);
  const start = Math.min(...known);
  const last = Math.max(...known);
  // A long rest would press everything that happened into a corner: the picture ends before it.
  const working = rows.some((row) => {
    const bar = row.bars.at(-1)!;
    return bar.end === null && tables.byId.get(bar.table ?? "")?.looks[bar.state] === "active";
  });
  const end = working ? null : last + Math.max((last - start) * REST, 1);
  return known.length ? { rows, start, end, last } : { rows, start: 0, end: null, last: 0 };
}

/** Round marks for an axis over a span, at most about `count`. */
export function marks(span: number, most: number): number[] {
  const steps = [
    1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 3e4, 6e4, 12e4, 3e5, 6e5, 18e5, 36e5,
    72e5, 216e5, 432e5, 864e5, 1728e5, 6048e5, 2592e6,
  ];
  const step = steps.find((each) => span / each <= most) ?? span;
  const found: number[] = [];
  for (let at = 0; at <= span; at += step) found.push(at);
  return found;
}
