// The start page: the items that wait for a person, oldest first, with their controls.
import { useEffect, useRef } from "react";
import type { InboxTask } from "../../api/schema";
import { go, Link } from "../../router";
import { plain, plural } from "../../text";
import { useKeys } from "../../ui/keys";
import { Command, Empty, Loading, Trouble } from "../../ui/notes";
import { useReveal } from "../../ui/reveal";
import { When } from "../../ui/when";
import { KIND_WORDS, type Kind, may, type Waiting } from "./kinds";
import { Matter } from "./matter";
import { useWaiting } from "./waiting";

export function Inbox({ id }: { id?: string }) {
  const { items, problem, again } = useWaiting();
  if (items) return <Matters items={items} id={id} />;
  return problem ? <Trouble problem={problem} again={again} /> : <Loading what="the inbox" />;
}

function Matters({ items, id }: { items: Waiting[]; id: string | undefined }) {
  const place = useRef(0);
  const found = items.findIndex((each) => each.id === id || jobOf(each) === id);
  // When the open item is settled, the next one is opened.
  if (found >= 0) place.current = found;
  const at = found >= 0 ? found : Math.min(place.current, items.length - 1);
  const open = items[at];
  useAddress(id, found >= 0, open);
  const move = (by: number) => {
    const next = items[Math.max(0, Math.min(items.length - 1, at + by))];
    if (next) go(addressOf(next), { replace: true });
  };
  useKeys({
    j: () => move(1),
    k: () => move(-1),
    a: () => press("accept"),
    r: () => press("reject"),
    Enter: (event) => {
      if (event.target instanceof HTMLElement && event.target.closest("a, button")) return false;
      return press("main") || press("option", "focus");
    },
  });
  return (
    <>
      <div className="title-row">
        <h1>Inbox</h1>
        <p className="faint">
          {items.length ? `${plural(items.length, "item")} waiting, oldest first` : ""}
        </p>
        {open && <Hints waiting={open} />}
      </div>
      {open ? (
        <div className="inbox">
          <ol className="matters" aria-label="Waiting for you">
            {items.map((each, index) => (
              <Item key={each.id} waiting={each} current={index === at} />
            ))}
          </ol>
          <Matter key={open.id} waiting={open} />
        </div>
      ) : (
        <Empty title="Nothing is waiting for you.">
          <p>
            Questions, reviews, exceeded budgets and failures appear here. Open the{" "}
            <Link to="/board">board</Link>, or submit a task:
          </p>
          <Command>detent submit runQA --project demo</Command>
        </Empty>
      )}
    </>
  );
}

/** Keep the address that of the open item: one that was settled is not waiting any more. */
function useAddress(id: string | undefined, waits: boolean, open: Waiting | undefined): void {
  const next = open ? addressOf(open) : "/";
  useEffect(() => {
    if (id !== undefined && !waits) go(next, { replace: true });
  }, [id, waits, next]);
}

function addressOf(waiting: Waiting): string {
  return `/inbox/${encodeURIComponent(waiting.id)}`;
}

/** The job without a task that has a question: its id opens its oldest question. */
function jobOf({ about }: Waiting): string | null {
  return "question" in about ? about.question.job_id : null;
}

/** Go to the control that does this; where it can simply be pressed, press it. Whether it exists. */
function press(what: string, how?: "focus"): boolean {
  const control = document.querySelector<HTMLElement>(`[data-key="${what}"]`);
  if (control instanceof HTMLButtonElement && how !== "focus") control.click();
  else control?.focus();
  return control !== null;
}

/** The keys for the open item. */
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

function Hints({ waiting }: { waiting: Waiting }) {
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
    </ul>
  );
}

function Item({ waiting, current }: { waiting: Waiting; current: boolean }) {
  const link = useRef<HTMLLIElement>(null);
  useReveal(link, current);
  return (
    <li ref={link}>
      <Link
        to={addressOf(waiting)}
        className="matter-link"
        aria-current={current ? "true" : undefined}
      >
        <span className="matter-kind" data-kind={waiting.kind}>
          {KIND_WORDS[waiting.kind]}
        </span>
        <span className="faint age">
          <When at={waiting.since} />
        </span>
        <span className="matter-title">{plain(waiting.title)}</span>
        <span className="faint matter-where">
          {[plain(waiting.project), plain(waiting.intent), waiting.priority]
            .filter(Boolean)
            .join(" · ")}
        </span>
      </Link>
    </li>
  );
}
