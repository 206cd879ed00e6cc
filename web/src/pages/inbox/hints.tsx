// The keys for the open item, beside the title of the inbox.
import type { InboxTask } from "../../api/schema";
import { type Kind, may, type Waiting } from "./kinds";

const KEYS: Record<Kind, [string, string][]> = {
  question: [["enter", "answer"]],
  confirmation: [["enter", "answer"]],
  review: [],
  budget: [["enter", "change the budget"]],
  failure: [["enter", "retry"]],
  quarantine: [["enter", "retry"]],
  subtask: [["enter", "dismiss"]],
  refused: [["enter", "discard"]],
};

/** What failed and cannot be run again is dismissed, if a parent waits for it. */
function keysOf({ kind, about }: Waiting): [string, string][] {
  if ("task" in about && kind === "review") return keysOfReview(about.task);
  const stuck = "task" in about && ["failure", "quarantine"].includes(kind);
  if (!stuck || may(about.task, "retry")) return KEYS[kind];
  return may(about.task, "dismiss") ? KEYS.subtask : [];
}

function keysOfReview(task: InboxTask): [string, string][] {
  const keys: [string, string][] = [];
  if (may(task, "accept")) keys.push(["a", "accept"]);
  if (may(task, "reject")) keys.push(["r", "reject"]);
  if (task.events.length) keys.push(["enter", "choose"]);
  return keys;
}

export function Hints({ waiting }: { waiting: Waiting }) {
  return (
    <ul className="hints" aria-label="Keys">
      <li>
        <kbd>j</kbd> <kbd>k</kbd> next, previous
      </li>
      {keysOf(waiting).map(([key, does]) => (
        <li key={key}>
          <kbd>{key}</kbd> {does}
        </li>
      ))}
      <li>
        <kbd>?</kbd> all keys
      </li>
    </ul>
  );
}
