// The rows of a task's timeline, computed from its events: each state with its start and end.
import type { Event } from "../../api/schema";
import { after, isSame, type Kind, type Place, subjectOf, type Tables } from "../../lifecycles";

export interface Bar {
  /** Null while it goes on. */
  end: number | null;
  start: number;
  state: string;
  /** The lifecycle that has the state; none for a wait. */
  table: string | null;
  /** The event that began it. */
  event: string;
  /** Until when it waits, if that is known. */
  until: number | null;
  /** Why it is in this state, in the words of the event. */
  why: string | null;
}
export interface Row {
  kind: Kind | "wait";
  id: string;
  label: string;
  /** 0 for the task, 1 for its jobs, 2 for the steps, runs and waits of a job, 3 for those of a step. */
  depth: number;
  bars: Bar[];
}
export interface Timeline {
  /** Runs and waits follow their step, and steps their job. */
  rows: Row[];
  start: number;
  /** When the timeline ends; null means now, while the task is not settled. */
  end: number | null;
  /** The last thing that happened. */
  last: number;
}

/** The part of the picture that a rest at its end gets. */
const REST = 0.12;
/** The states of a job or a step that waits and holds no worker. */
const RESTING = ["waiting", "parked", "retrying"];
/** What a task is called while its job rests. */
const WAITING = "waiting";

function isResting(kind: Row["kind"], state: string): boolean {
  return (kind === "job" || kind === "step") && RESTING.includes(state);
}

/** Whether it waits now and holds no worker. */
export function isWaiting({ kind, bars }: Row): boolean {
  const last = bars.at(-1);
  return last?.end === null && (last.table === null || isResting(kind, last.state));
}

type Data = Record<string, unknown>;

class Builder {
  private readonly rows = new Map<string, Row>();
  private readonly children = new Map<string, string[]>();
  private readonly parents = new Map<string, string>();
  private readonly places = new Map<string, Place>();

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
      this.claim(event.stream, data.run_id, at);
    if (event.name === "wait_begun") this.begin(event, at, data);
    if (event.name === "wait_ended") this.end(`wait ${event.stream} ${event.subject}`, at);
    if (event.name === "wait_completed") this.end(`wait ${event.stream} ${data.wait}`, at);
    if (kind === "job") this.rest(event.stream, at);
  }

  /** The rows that have bars, each followed by the rows below it. */
  nested(): Row[] {
    const below = (key: string): Row[] => {
      const row = this.rows.get(key)!;
      const own = row.bars.length ? [row] : [];
      return [...own, ...(this.children.get(key) ?? []).flatMap(below)];
    };
    return (this.children.get("") ?? []).flatMap(below);
  }

  private move(kind: Kind, event: Event, at: number, data: Data): void {
    const id = subjectOf(event, kind, this.taskId);
    const key = kind === "step" ? stepKey(event.stream, id) : `${kind} ${id}`;
    const row = this.row(key, kind, id, this.parentOf(kind, event.stream, data.step));
    const before = this.places.get(key) ?? null;
    const place = after(this.tables, kind, before, event);
    if (place === null || isSame(place, before)) return;
    this.places.set(key, place);
    const ended = this.tables.byId.get(place.table)?.terminal.includes(place.state);
    this.push(row, {
      ...place,
      start: at,
      end: ended ? at : null,
      event: event.name,
      until: this.dueAt(kind, event.stream, place.state, data),
      why: reasonOf(data),
    });
  }

  /** A run is recorded by the claim of its job. */
  private claim(job: string, runId: string, at: number): void {
    const { id: table, initial: state } = this.tables.only("run");
    const key = `run ${runId}`;
    const row = this.row(key, "run", runId, `job ${job}`);
    if (row.bars.length) return;
    this.places.set(key, { table, state });
    const event = "job_running";
    this.push(row, { start: at, end: null, table, state, event, until: null, why: null });
  }

  private begin(event: Event, at: number, data: Data): void {
    const kind = String(data.kind ?? "wait");
    const name = event.subject ?? "";
    const { text } = (data.detail ?? {}) as Data;
    const parent = this.parentOf("run", event.stream, data.step);
    const row = this.row(`wait ${event.stream} ${name}`, "wait", name, parent, `wait: ${kind}`);
    const bar: Bar = {
      start: at,
      end: null,
      table: null,
      state: kind,
      event: event.name,
      until: milliseconds(data.due_at),
      why: typeof text === "string" ? text : ownName(name, data.step),
    };
    this.push(row, bar);
    const above = this.rows.get(parent);
    if (above?.kind === "step") this.push(above, { ...bar, state: WAITING });
  }

  private end(key: string, at: number): void {
    const bar = this.rows.get(key)?.bars.at(-1);
    if (!bar || bar.end !== null) return;
    bar.end = at;
    // The step that has waited goes on in its state.
    const parent = this.parents.get(key) ?? "";
    const [above, place] = [this.rows.get(parent), this.places.get(parent)];
    if (above?.kind === "step" && place && above.bars.at(-1)?.table === null)
      this.push(above, { ...bar, ...place, start: at, end: null, until: null, why: null });
  }

  /** A task works as long as its job does: while the job rests, the task is shown as waiting. */
  private rest(job: string, at: number): void {
    const task = this.rows.get(`task ${this.taskId}`);
    const place = this.places.get(`task ${this.taskId}`);
    const cause = this.rows.get(`job ${job}`)?.bars.at(-1);
    const last = task?.bars.at(-1);
    if (!task || !place || !cause || !last || last.end !== null) return;
    const rests = isResting("job", cause.state);
    const works = this.tables.byId.get(place.table)?.looks[place.state] === "active";
    if (rests && works && last.table !== null)
      this.push(task, { ...cause, table: null, state: WAITING });
    if (!rests && last.table === null)
      this.push(task, { ...cause, ...place, start: at, end: null, until: null });
  }

  /** Ends the last bar of a row and adds one; a wait that took no time is left out. */
  private push(row: Row, bar: Bar): void {
    const last = row.bars.at(-1);
    if (last && last.end === null) last.end = bar.start;
    if (last && last.table === null && last.start === bar.start) row.bars.pop();
    row.bars.push(bar);
  }

  /** When a state ends by itself: its event says so, or the waits of the job do. */
  private dueAt(kind: Kind, stream: string, state: string, data: Data): number | null {
    const { due_at } = (data.detail ?? {}) as Data;
    const own = milliseconds(data.not_before) ?? milliseconds(due_at);
    if (own !== null || kind !== "job" || !isResting(kind, state)) return own;
    const waits = [...this.rows].filter(([key]) => key.startsWith(`wait ${stream} `));
    const open = waits.map(([, row]) => row.bars.at(-1)!).filter((bar) => bar.end === null);
    const times = open.flatMap((bar) => (bar.until === null ? [] : [bar.until]));
    return times.length ? Math.min(...times) : null;
  }

  /** The row above: a run and a wait belong to their step, or else to their job. */
  private parentOf(kind: Kind, stream: string, step: unknown): string {
    if (kind === "task") return "";
    if (kind === "job") return `task ${this.taskId}`;
    return kind === "run" && typeof step === "string" ? stepKey(stream, step) : `job ${stream}`;
  }

  private row(
    key: string,
    kind: Row["kind"],
    id: string,
    parent: string,
    label = labelOf(kind, id),
  ): Row {
    const found = this.rows.get(key);
    if (found) return found;
    const above = this.rows.get(parent);
    const made: Row = { kind, id, label, depth: above ? above.depth + 1 : 0, bars: [] };
    this.rows.set(key, made);
    this.parents.set(key, parent);
    const place = above ? parent : "";
    this.children.set(place, [...(this.children.get(place) ?? []), key]);
    return made;
  }
}

/** The name of a wait as the handler wrote it: a step puts its own name before it. */
function ownName(name: string, step: unknown): string {
  const [prefix, ...own] = name.split("/");
  return typeof step === "string" && own.length && prefix!.split("~")[0] === step
    ? own.join("/")
    : name;
}

const stepKey = (job: string, name: string) => `step ${job} ${name}`;

/** Events have times in microseconds. */
const milliseconds = (time: unknown) => (typeof time === "number" ? time / 1_000 : null);

/** The failure class `error` says nothing: it is that of every failure without another one. */
function reasonOf(data: Data): string | null {
  const found = data.reason ?? data.error_class;
  return typeof found === "string" && found !== "error" ? found : null;
}

function labelOf(kind: Row["kind"], id: string): string {
  if (kind === "task") return "task";
  const tail = kind === "step" ? id : (id.split("-").at(-1) ?? id);
  const number = /^[jr](\d+)$/.exec(tail);
  return number ? `${kind} ${number[1]}` : `${kind} ${tail}`;
}

export function timeline(tables: Tables, taskId: string, events: readonly Event[]): Timeline {
  const builder = new Builder(tables, taskId);
  for (const event of events) builder.take(event);
  const rows = builder.nested();
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
