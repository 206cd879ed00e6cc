// What the server's tables say about states: where events lead, how states look, which way an
// entity went. Everything here is a question to those tables; no lifecycle and no state is named.
import type { Event, Lifecycle, Lifecycles } from "./api/schema";
import { words } from "./text";

/** What a lifecycle is about. */
export type Kind = Lifecycle["kind"];

/** The lifecycles of the server, those that are installed included. */
export class Tables {
  readonly byId: ReadonlyMap<string, Lifecycle>;
  readonly appearances: Lifecycles["appearances"];
  /** By entry point, the lifecycle of a task that names none. */
  readonly defaults: Lifecycles["defaults"];
  private readonly kinds = new Map<string, Kind>();

  constructor(answer: Lifecycles) {
    this.byId = new Map(answer.lifecycles.map((each) => [each.id, each]));
    this.appearances = answer.appearances;
    this.defaults = answer.defaults;
    for (const { kind, rows } of answer.lifecycles) {
      for (const { event } of rows) this.kinds.set(event, kind);
    }
  }

  /** What an event is about; null if it moves nothing. */
  kindOf(event: string): Kind | null {
    return event === MIGRATED ? "task" : (this.kinds.get(event) ?? null);
  }

  /** The one lifecycle of jobs, of plan steps or of runs. */
  only(kind: Exclude<Kind, "task">): Lifecycle {
    const found = [...this.byId.values()].find((each) => each.kind === kind);
    if (!found) throw new Error(`the server has no lifecycle of a ${kind}`);
    return found;
  }

  /** The versions of a lifecycle, newest first. */
  versions(name: string): Lifecycle[] {
    const found = [...this.byId.values()].filter((each) => each.name === name);
    return found.sort((one, other) => other.version - one.version);
  }

  /** The newest version of each lifecycle. */
  newest(): Lifecycle[] {
    const names = new Set([...this.byId.values()].map((each) => each.name));
    return [...names].map((name) => this.versions(name)[0]!);
  }
}

/** A task continues under another version of its lifecycle; the event names its state there. */
const MIGRATED = "task_migrated";

/** The state after an event, or the same one if the table has no such row. */
export function nextState(table: Lifecycle, state: string | null, event: string): string | null {
  const row = table.rows.find((each) => each.source === state && each.event === event);
  return row ? row.target : state;
}

/** A table with nothing in it, for a lifecycle that is not known yet. */
export function unknownTable(id: string): Lifecycle {
  return {
    id,
    kind: "task",
    name: id,
    version: 1,
    shipped: false,
    title: id,
    states: [],
    initial: "",
    terminal: [],
    rows: [],
    meanings: {},
    looks: {},
    phases: {},
    endings: {},
    columns: {},
    waits_for_person: [],
    queues: [],
    rules: [],
    timers: [],
    rounds: { events: [], limit: null },
    default_for: [],
  };
}

/** The title of a state's column on the board. */
export function columnOf(table: Lifecycle, state: string): string {
  return table.columns[state] ?? words(state);
}

/** Whether the work is over and a person decides about it. */
export function isUnderReview(table: Lifecycle, state: string): boolean {
  return (
    table.waits_for_person.includes(state) &&
    table.phases[state] === "idle" &&
    !(state in table.endings)
  );
}

/** The words of an event: `task_sent_back` reads `sent back`. */
export function eventWords(event: string): string {
  return words(event.replace(/^task_/, ""));
}

/** The label of a control that sends an event. */
export function eventLabel(event: string): string {
  const text = eventWords(event);
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** An entity's lifecycle and its state there. */
export interface Place {
  table: string;
  state: string;
}

/** Where an entity is after an event; null if the event does not move it. */
export function after(tables: Tables, kind: Kind, place: Place | null, event: Event): Place | null {
  const data = (event.data ?? {}) as { lifecycle?: string; state?: string };
  if (event.name === MIGRATED && data.lifecycle && data.state) {
    return { table: data.lifecycle, state: data.state };
  }
  const id = kind === "task" ? (place?.table ?? data.lifecycle) : tables.only(kind).id;
  const table = tables.byId.get(id ?? "");
  const before = place?.state ?? null;
  const row = table?.rows.find((each) => each.source === before && each.event === event.name);
  return table && row ? { table: table.id, state: row.target } : null;
}

export function isSame(one: Place | null, other: Place | null): boolean {
  return one?.table === other?.table && one?.state === other?.state;
}

export interface Visit extends Place {
  from: string | null;
  event: string;
  at: number;
  position: number;
}

/** The states that a stream of events went through, each with the event that led there. A row
 * that leads back to its own state is a visit too. */
export function path(tables: Tables, kind: Kind, events: readonly Event[]): Visit[] {
  const visits: Visit[] = [];
  let place: Place | null = null;
  for (const event of events) {
    const next: Place | null = after(tables, kind, place, event);
    if (next === null) continue;
    visits.push({
      ...next,
      from: place?.state ?? null,
      event: event.name,
      at: Date.parse(event.at),
      position: event.position,
    });
    place = next;
  }
  return visits;
}

export interface Standing extends Place {
  kind: Kind;
  id: string;
  since: number;
}

/** The states of a task and its jobs after a position of the log, from the transition tables. */
export function asOf(
  tables: Tables,
  taskId: string,
  events: readonly Event[],
  position: number,
): Standing[] {
  const found = new Map<string, Standing>();
  for (const event of events) {
    if (event.position > position) break;
    const kind = tables.kindOf(event.name);
    if (kind === null) continue;
    const id = subjectOf(event, kind, taskId);
    const key = `${kind} ${id}`;
    const before = found.get(key) ?? null;
    const place = after(tables, kind, before, event);
    if (place !== null && !isSame(place, before)) {
      found.set(key, { ...place, kind, id, since: Date.parse(event.at) });
    }
    if (kind === "job" && event.name === "job_running") recordRun(tables, found, event);
  }
  return [...found.values()];
}

/** A claim records its run without an event of its own: it is queued from then on. */
function recordRun(tables: Tables, found: Map<string, Standing>, event: Event): void {
  const id = (event.data as { run_id?: string } | null)?.run_id;
  if (!id || found.has(`run ${id}`)) return;
  const { id: table, initial: state } = tables.only("run");
  found.set(`run ${id}`, { kind: "run", id, table, state, since: Date.parse(event.at) });
}

/** The id of what an event in the log of a task is about. */
export function subjectOf(event: Event, kind: Kind, taskId: string): string {
  if (kind === "task") return taskId;
  return kind === "job" ? event.stream : (event.subject ?? event.stream);
}
