// The kinds of inbox items, and what each needs from a person.
import type { Inbox, InboxTask, JobQuestion, RefusedRow } from "../../api/schema";

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
  /** The person who is to deal with it. */
  assignedTo: string | null;
  about: { task: InboxTask } | { question: JobQuestion } | { refused: RefusedRow };
}

const BY_WAIT: Record<string, Kind> = { confirmation: "confirmation", budget: "budget" };

/** The priority of what has none. */
const USUAL = "P2";

/** All parts of the inbox as one list: the highest priority first, then the oldest. */
export function waitingIn(inbox: Inbox): Waiting[] {
  const tasks = inbox.items.map((task) => ({
    ...task,
    kind: task.kind as Kind,
    since: task.state_at,
    title: titleOf(task),
    assignedTo: task.assigned_to,
    about: { task },
  }));
  const alone = inbox.questions.map((question) => ({
    ...question,
    id: `${question.job_id}:${question.name}`,
    kind: BY_WAIT[question.kind] ?? "question",
    since: question.begun_at,
    title: question.intent,
    assignedTo: null,
    about: { question },
  }));
  const refused = inbox.refused.map((row) => ({
    ...row,
    id: `intake:${row.id}`,
    kind: "refused" as const,
    since: row.refused_at,
    title: row.intent || row.operation,
    priority: "",
    assignedTo: null,
    about: { refused: row },
  }));
  return [...tasks, ...alone, ...refused].sort((one, other) =>
    urgency(one) < urgency(other) ? -1 : 1,
  );
}

function urgency({ priority, since }: Waiting): string {
  return `${priority || USUAL} ${since}`;
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
