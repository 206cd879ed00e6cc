// Shared by unit tests: a small lifecycle table in the format of the server, and events.
import type { Event, Lifecycle } from "./api/schema";
import { Tables, unknownTable } from "./lifecycles";

export function table(
  kind: Lifecycle["kind"],
  id: string,
  states: string[],
  terminal: string[],
  rows: [string | null, string, string][],
  active: string[] = ["running"],
): Lifecycle {
  return {
    ...unknownTable(id),
    kind,
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
    looks: Object.fromEntries(
      states.map((state) => [state, active.includes(state) ? "active" : "waiting"]),
    ),
  };
}

export const REVIEW = table(
  "task",
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
  "run",
  ["queued", "running", "succeeded"],
  ["succeeded"],
  [
    [null, "run_queued", "queued"],
    ["queued", "run_started", "running"],
    ["running", "run_succeeded", "succeeded"],
  ],
);
export const STEP = table(
  "step",
  "step",
  ["pending", "running"],
  [],
  [[null, "step_pending", "pending"]],
);
/** A lifecycle from a document, in two versions; two of its states share a column. */
export const RELEASE: Lifecycle = {
  ...table(
    "task",
    "release",
    ["draft", "queued", "building", "approval", "released"],
    ["released"],
    [
      [null, "task_created", "draft"],
      ["draft", "task_queued", "queued"],
      ["queued", "task_started", "building"],
      ["building", "task_ready", "approval"],
      ["approval", "task_approved", "released"],
      ["approval", "task_sent_back", "queued"],
    ],
    ["building"],
  ),
  phases: { draft: "idle", queued: "queued", building: "working", approval: "idle" },
  endings: { released: "done" },
  columns: { queued: "In work", building: "In work" },
  waits_for_person: ["approval"],
  rounds: { events: ["task_sent_back"], limit: 2 },
};
export const RELEASE_2: Lifecycle = { ...RELEASE, id: "release@2", version: 2 };

export const TABLES = new Tables({
  lifecycles: [REVIEW, RELEASE, RELEASE_2, JOB, RUN, STEP],
  defaults: { submit: "review" },
  tasks: null,
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
