// The kinds of inbox items, and what each needs from a person.
import type { Inbox, InboxTask, JobQuestion, Lifecycle, RefusedRow } from "../../api/schema";
import { isUnderReview, type Tables, unknownTable } from "../../lifecycles";

export type Kind =
  | "question"
  | "review"
  | "budget"
  | "confirmation"
  | "quarantine"
  | "failure"
  | "subtask"
  | "refused";

export const KIND_WORDS: Record<Kind, string> = {
  question: "Question",
  review: "Review",
  budget: "Budget",
  confirmation: "Confirmation",
  quarantine: "Quarantine",
  failure: "Failed",
  subtask: "Subtask",
  refused: "Refused",
};

const BY_REASON: Record<string, Kind> = {
  question: "question",
  needs_user: "confirmation",
  budget: "budget",
};

type Stopped = Pick<InboxTask, "state" | "blocked_by" | "error_class">;

export function kindOf(table: Lifecycle, task: Stopped): Kind {
  if (isUnderReview(table, task.state)) return "review";
  // A subtask that has ended for good: nothing but a dismissal settles it.
  if (table.terminal.includes(task.state)) return "subtask";
  if (task.blocked_by && BY_REASON[task.blocked_by]) return BY_REASON[task.blocked_by]!;
  // A task with which several workers were lost is quarantined: no worker claims it.
  return task.error_class === "lost" ? "quarantine" : "failure";
}

/** An entry of the inbox: a task that waits, what a job without a task asks, or a submission of
 * another program's transaction that was refused. */
export interface Waiting {
  id: string;
  kind: Kind;
  since: string;
  title: string;
  project: string;
  intent: string;
  priority: string;
  about: { task: InboxTask } | { question: JobQuestion } | { refused: RefusedRow };
}

const BY_WAIT: Record<string, Kind> = { confirmation: "confirmation", budget: "budget" };

/** All parts of the inbox as one list, oldest first. */
export function waitingIn(tables: Tables, inbox: Inbox): Waiting[] {
  const tasks = inbox.items.map((task) => ({
    ...task,
    kind: kindOf(tables.byId.get(task.lifecycle) ?? unknownTable(task.lifecycle), task),
    since: task.state_at,
    title: titleOf(task),
    about: { task },
  }));
  const alone = inbox.questions.map((question) => ({
    ...question,
    id: `${question.job_id}:${question.name}`,
    kind: BY_WAIT[question.kind] ?? "question",
    since: question.begun_at,
    title: question.intent,
    about: { question },
  }));
  const refused = inbox.refused.map((row) => ({
    ...row,
    id: `intake:${row.id}`,
    kind: "refused" as const,
    since: row.refused_at,
    title: row.intent || row.operation,
    priority: "",
    about: { refused: row },
  }));
  return [...tasks, ...alone, ...refused].sort((one, other) => (one.since < other.since ? -1 : 1));
}

export interface Asked {
  text: string;
  options: string[];
  /** The options as the asker gave them, which need not be texts. */
  values: unknown[];
  /** Whether a free text is allowed as the answer. */
  free: boolean;
}

/** An open question, however it was written. */
export function asked(detail: Record<string, unknown>): Asked {
  const options = Array.isArray(detail.options) ? detail.options : [];
  return {
    text: String(
      detail.text ?? detail.question ?? detail.error ?? "It is waiting for your answer.",
    ),
    options: options.map(String),
    values: options,
    free: options.length === 0 || detail.other === true,
  };
}

/** Whether the server would accept a verb on the task now. */
export function may(task: InboxTask, action: string): boolean {
  return task.actions.some((each) => each.action === action && each.id === task.id);
}

/** A title to show; a task without one is named by what it does. */
export function titleOf(task: { title: string; intent: string }): string {
  return task.title || task.intent;
}
