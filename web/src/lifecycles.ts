// What the server's tables say about states: where events lead, how states look, which way a
// task went. Everything here is a question to those tables; no state is named in this file.
import type { Event, Lifecycle, Lifecycles } from "./api/schema";

export interface Tables {
  byName: Map<string, Lifecycle>;
  appearances: Lifecycles["appearances"];
}

export function tablesFrom(answer: Lifecycles): Tables {
  return {
    byName: new Map(answer.lifecycles.map((each) => [each.name, each])),
    appearances: answer.appearances,
  };
}

export type Level = "task" | "job" | "run" | "step";

/** The state after an event, or the same one if the table has no such row. */
export function nextState(table: Lifecycle, state: string | null, event: string): string | null {
  const row = table.rows.find((each) => each.source === state && each.event === event);
  return row ? row.target : state;
}

/** Whether an event moves anything in this lifecycle. */
export function moves(table: Lifecycle, event: string): boolean {
  return table.rows.some((row) => row.event === event);
}

export interface Visit {
  state: string;
  from: string | null;
  event: string;
  at: number;
  position: number;
}

/** The states that a stream of events went through, each with the event that led there. */
export function path(table: Lifecycle, events: readonly Event[]): Visit[] {
  const visits: Visit[] = [];
  let state: string | null = null;
  for (const event of events) {
    const next = nextState(table, state, event.name);
    if (next === null || (next === state && !isLoop(table, state, event.name))) continue;
    visits.push({
      state: next,
      from: state,
      event: event.name,
      at: Date.parse(event.at),
      position: event.position,
    });
    state = next;
  }
  return visits;
}

function isLoop(table: Lifecycle, state: string | null, event: string): boolean {
  return table.rows.some(
    (row) => row.source === state && row.event === event && row.target === state,
  );
}

/** The entity that an event is about; null if it is about no entity. */
export function levelOf(tables: Tables, event: Event): Level | null {
  for (const level of ["job", "run", "step"] as const) {
    const table = tables.byName.get(level);
    if (table && moves(table, event.name)) return level;
  }
  const isTask = ["board", "review"].some((name) => {
    const table = tables.byName.get(name);
    return table !== undefined && moves(table, event.name);
  });
  return isTask ? "task" : null;
}

/** The name of the table that holds an entity's states. */
export function tableOf(level: Level, lifecycle: string): string {
  return level === "task" ? lifecycle : level;
}

export interface Standing {
  level: Level;
  id: string;
  state: string;
  since: number;
}

/** The states of a task and its jobs after a position of the log, from the transition tables. */
export function asOf(
  tables: Tables,
  lifecycle: string,
  taskId: string,
  events: readonly Event[],
  position: number,
): Standing[] {
  const found = new Map<string, Standing>();
  for (const event of events) {
    if (event.position > position) break;
    const level = levelOf(tables, event);
    if (level === null) continue;
    const table = tables.byName.get(tableOf(level, lifecycle));
    if (!table) continue;
    const id = level === "task" ? taskId : subjectOf(event, level);
    const key = `${level} ${id}`;
    const before = found.get(key)?.state ?? null;
    const state = nextState(table, before, event.name);
    if (state !== null && state !== before) {
      found.set(key, { level, id, state, since: Date.parse(event.at) });
    }
    if (level === "job" && event.name === "job_running") recordRun(tables, found, event);
  }
  return [...found.values()];
}

/** A claim records its run without an event of its own: it is queued from then on. */
function recordRun(tables: Tables, found: Map<string, Standing>, event: Event): void {
  const id = (event.data as { run_id?: string } | null)?.run_id;
  const table = tables.byName.get("run");
  if (!id || !table || found.has(`run ${id}`)) return;
  found.set(`run ${id}`, { level: "run", id, state: table.initial, since: Date.parse(event.at) });
}

function subjectOf(event: Event, level: Level): string {
  return level === "job" ? event.stream : (event.subject ?? event.stream);
}
