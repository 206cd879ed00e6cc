// Shared by unit tests: a small lifecycle table in the format of the server, and events.
import type { Event, Lifecycle } from "./api/schema";
import { type Tables, tablesFrom } from "./lifecycles";

export function table(
  name: string,
  states: string[],
  terminal: string[],
  rows: [string | null, string, string][],
  active: string[] = ["running"],
): Lifecycle {
  return {
    name,
    title: name,
    states,
    initial: states[0]!,
    terminal,
    rows: rows.map(([source, event, target]) => ({
      source,
      event,
      target,
      who: "",
      why: "",
      extension: false,
      reopens: false,
    })),
    meanings: {},
    looks: Object.fromEntries(
      states.map((state) => [state, active.includes(state) ? "active" : "waiting"]),
    ),
  };
}

export const REVIEW = table(
  "review",
  ["pending", "queued", "running", "ready", "blocked", "completed"],
  ["completed"],
  [
    [null, "task_created", "pending"],
    ["pending", "task_queued", "queued"],
    ["queued", "task_started", "running"],
    ["running", "task_ready", "ready"],
    ["running", "task_blocked", "blocked"],
    ["ready", "task_accepted", "completed"],
    ["ready", "task_rejected", "pending"],
  ],
);
export const JOB = table(
  "job",
  ["queued", "running", "waiting", "completed"],
  ["completed"],
  [
    [null, "job_created", "queued"],
    ["queued", "job_running", "running"],
    ["queued", "job_requeued", "queued"],
    ["running", "job_waiting", "waiting"],
    ["waiting", "wait_completed", "queued"],
    ["running", "job_completed", "completed"],
  ],
);
export const RUN = table(
  "run",
  ["queued", "running", "succeeded"],
  ["succeeded"],
  [
    [null, "run_queued", "queued"],
    ["queued", "run_started", "running"],
    ["running", "run_succeeded", "succeeded"],
  ],
);
export const STEP = table("step", ["pending", "running"], [], [[null, "step_pending", "pending"]]);

export const TABLES: Tables = tablesFrom({
  lifecycles: [REVIEW, JOB, RUN, STEP],
  appearances: {},
});

let position = 0;

/** An event of a stream, a second after the one before it. */
export function event(
  stream: string,
  name: string,
  data: unknown = {},
  subject: string | null = null,
): Event {
  position += 1;
  return {
    position,
    stream,
    version: 1,
    name,
    subject,
    project: "p",
    at: new Date(position * 1_000).toISOString(),
    actor: "owner",
    data,
  };
}
