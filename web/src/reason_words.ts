// Why a task or a job is not finished, in one sentence: made from the reasons that the server gives.
import type { Reason } from "./api/schema";
import { dollars, plain, plural, words } from "./text";

/** What the reader should know first: it works, it waits by itself, or a person is needed. */
export type Urgency = "active" | "waiting" | "attention" | "bad";

type Detail = Record<string, unknown>;
type Words = [Urgency, (detail: Detail) => string];

/** Longer messages are shown whole elsewhere on the page. */
const MAX_MESSAGE = 240;

const WORDS: Record<string, Words> = {
  question: ["attention", ({ text }) => `It asks: ${message(text)}`],
  needs_user: ["attention", ({ error, text }) => `It needs a person: ${message(text ?? error)}`],
  subtasks: ["waiting", ({ open }) => `It waits for ${plural(Number(open), "subtask")}.`],
  dependency: [
    "waiting",
    ({ open }) => `It waits for ${plural(Number(open), "task")} that it depends on.`,
  ],
  retry: ["waiting", (detail) => `An attempt failed and is retried${failure(detail)}`],
  rate_limit: ["waiting", (detail) => `The quota is used up${failure(detail)}`],
  budget: [
    "attention",
    ({ budget }) =>
      `The budget${typeof budget === "number" ? ` of ${dollars(budget)}` : ""} is spent.`,
  ],
  resource: ["waiting", () => "It waits for a resource that is in use."],
  error: ["bad", (detail) => `It failed and is not retried${failure(detail)}`],
  review: [
    "attention",
    ({ problem }) =>
      `The work is done. A person decides about it.${problem ? ` The last acceptance failed: ${message(problem)}` : ""}`,
  ],
  not_queued: ["waiting", () => "It is not queued. It starts when a person runs it."],
  accepting: [
    "active",
    ({ action, by }) =>
      `It was accepted by ${named(by)}; the action ${text(action)} is carried out.`,
  ],
  timer: ["waiting", ({ event }) => `If nothing else happens, the event ${named(event)} is sent.`],
  rounds_used: [
    "attention",
    ({ rounds, limit }) =>
      `${text(rounds)} of ${plural(Number(limit), "round")} used: none is left.`,
  ],
  failed_subtask: ["bad", ({ state }) => `A subtask has the state ${text(state)}.`],
  budget_warning: [
    "attention",
    ({ spent, budget }) => `${dollars(Number(spent))} of ${dollars(Number(budget))} is spent.`,
  ],
  "wait:timer": ["waiting", ({ name }) => `It sleeps: ${text(name)}.`],
  "wait:retry": ["waiting", (detail) => `An attempt failed and is retried${failure(detail)}`],
  "wait:signal": ["waiting", ({ needs }) => `It waits for the signal ${named([needs].flat()[0])}.`],
  "wait:subtasks": ["waiting", ({ needs }) => `It waits for ${subtasks(needs)}.`],
  "wait:question": ["attention", ({ text }) => `It asks: ${message(text)}`],
  "wait:confirmation": ["attention", ({ text }) => `It asks: ${message(text)}`],
  "wait:permission": ["attention", ({ text }) => `It asks for permission: ${message(text)}`],
  "wait:budget": ["attention", () => "The budget is spent."],
  "wait:funds": ["waiting", () => "The whole budget is reserved by other runs."],
  "wait:resource": ["waiting", () => "It waits for a resource that is in use."],
  not_before: ["waiting", () => "It starts later."],
  paused: [
    "waiting",
    ({ limit, paused_by, reason }) =>
      `${named(limit)} is paused by ${named(paused_by)}${reason ? `: ${message(reason)}` : "."}`,
  ],
  limit: [
    "waiting",
    ({ limit, max }) => `The limit ${named(limit)} is reached: at most ${text(max)} at a time.`,
  ],
  rate: [
    "waiting",
    ({ limit, max, per_s }) =>
      `The rate limit ${named(limit)} is reached: at most ${text(max)} in ${plural(Number(per_s), "second")}.`,
  ],
  cost_quota: [
    "waiting",
    ({ limit, max_usd, spent_usd }) =>
      `The cost quota of ${named(limit)} is used up: ${dollars(Number(spent_usd))} of ${dollars(Number(max_usd))} is spent today.`,
  ],
  memory_short: [
    "waiting",
    ({ intent }) =>
      `The machine of every worker that executes ${named(intent)} is short of memory.`,
  ],
  no_worker: ["attention", ({ intent }) => `No running worker executes ${named(intent)}.`],
  queued: [
    "waiting",
    ({ ahead }) => `It waits for a free worker, behind ${plural(Number(ahead), "job")}.`,
  ],
  cancelling: ["waiting", ({ asked }) => `It was asked to stop: ${text(asked)}.`],
  in_work: ["active", ({ worker }) => `The worker ${named(worker)} runs it.`],
};

/** The sentence of a reason; a state of a lifecycle in which the work failed is a reason too. */
export function sentence({ reason, detail }: Reason): string {
  const known = WORDS[reason];
  if (known) return known[1](detail as Detail);
  return `Its state is ${words(plain(reason))}${failure(detail as Detail)}`;
}

export function urgencyOf({ reason }: Reason): Urgency {
  return WORDS[reason]?.[0] ?? "bad";
}

/** Whether it waits by itself: nothing works on it, and it needs no person. */
export function isWaiting(reasons: readonly Reason[]): boolean {
  return reasons.length > 0 && reasons.every((each) => urgencyOf(each) === "waiting");
}

/** A name as it is: the reader looks for it elsewhere. */
const named = (value: unknown): string => plain(String(value ?? "unknown"));

const text = (value: unknown): string => plain(words(String(value ?? "unknown")));

function message(value: unknown): string {
  const whole = plain(String(value ?? "no message"));
  return whole.length > MAX_MESSAGE ? `${whole.slice(0, MAX_MESSAGE)}…` : whole;
}

function failure({ error_class, error }: Detail): string {
  const kind = error_class && error_class !== "error" ? ` (${text(error_class)})` : "";
  return error ? `${kind}: ${message(error)}` : `${kind}.`;
}

function subtasks(needs: unknown): string {
  return Array.isArray(needs) && needs.length ? plural(needs.length, "subtask") : "its subtasks";
}
