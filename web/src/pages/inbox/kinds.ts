// What a task in the inbox asks of a person.
import type { Task } from "../../api/schema";

export type Kind = "question" | "review" | "budget" | "confirmation" | "quarantine" | "failure";

export const KIND_WORDS: Record<Kind, string> = {
  question: "Question",
  review: "Review",
  budget: "Budget",
  confirmation: "Confirmation",
  quarantine: "Quarantine",
  failure: "Failed",
};

const BY_REASON: Record<string, Kind> = {
  question: "question",
  needs_user: "confirmation",
  budget: "budget",
};

export function kindOf(task: Task): Kind {
  if (task.state === "ready") return "review";
  if (task.blocked_by && BY_REASON[task.blocked_by]) return BY_REASON[task.blocked_by]!;
  // Work that costs its workers their lives is kept from them: nobody takes it any more.
  return task.error_class === "lost" ? "quarantine" : "failure";
}

export interface Asked {
  text: string;
  options: string[];
  /** Whether an answer of one's own words is allowed. */
  free: boolean;
}

/** The open question of a task, however it was written. */
export function asked(task: Task): Asked {
  const detail = task.blocked_detail;
  const options = Array.isArray(detail.options) ? detail.options : [];
  return {
    text: String(detail.text ?? detail.question ?? detail.error ?? "It waits for your word."),
    options: options.map(String),
    free: options.length === 0 || detail.free_text === true,
  };
}

/** A title to show; a task without one is named by what it does. */
export function titleOf(task: { title: string; intent: string }): string {
  return task.title || task.intent;
}
