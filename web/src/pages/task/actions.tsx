// The actions on a task, and the events of its lifecycle: exactly those that are legal now.
import { useState } from "react";
import { call, type Problem } from "../../api/call";
import { client } from "../../api/hooks";
import type { LifecycleRow, Task, Why } from "../../api/schema";
import { eventLabel } from "../../lifecycles";
import { go, Link, linkTo } from "../../router";
import { plain } from "../../text";
import { useTable } from "../../ui/tables";
import { say } from "../../ui/toast";
import { acceptedWord, acceptLabel } from "../inbox/acceptance";
import { rowsFor, weight } from "../inbox/choices";
import { titleOf } from "../inbox/kinds";
import { RetryForm } from "../inbox/retry_form";
import { CancelDialog, DeleteDialog, RaiseDialog } from "./action_dialogs";
import { Decision } from "./decision";

const DIRECT = {
  run: ["Run", "run_task"],
  retry: ["Retry", "retry_task"],
  resume: ["Resume", "resume_task"],
  dismiss: ["Dismiss", "dismiss_task"],
} as const;
/** The verdicts, which are events of the lifecycle with calls of their own. */
const VERDICTS = { task_accepted: "accept_task", task_rejected: "reject_task" } as const;
const ACCEPTED = "task_accepted";
/** Actions that are also done in the inbox, beside what they are about. */
const IN_INBOX = ["answer", "accept", "reject"];

const DELETED = "Deleted";

type Open = "cancel" | "delete" | "raise" | "edit" | LifecycleRow;

export function Actions({ task, why }: { task: Task; why: Why }) {
  const table = useTable(task.lifecycle);
  const [open, setOpen] = useState<Open | null>(null);
  const close = () => setOpen(null);
  const { act, busy } = useAct(task, close);
  const may = (action: string) => why.actions.includes(action);
  const budgetId = raisable(why);
  const verdicts = ["accept", "reject"].filter(may).map((each) => `task_${each}ed`);
  const verbs = (Object.keys(DIRECT) as (keyof typeof DIRECT)[]).filter(may);
  const button = (name: string, press: () => void, look = "", title?: string) => (
    <button
      key={name}
      type="button"
      className={`button ${look}`}
      title={title}
      disabled={busy}
      onClick={press}
    >
      {name}
    </button>
  );
  return (
    <>
      <div className="row wrap actions" role="group" aria-label="Actions">
        {may("choose") && (
          <Link className="button primary" to={linkTo.task(task.id, "variants")}>
            Compare and choose
          </Link>
        )}
        {IN_INBOX.some(may) && (
          <Link
            className={`button ${may("answer") ? "primary" : ""}`}
            to={`/inbox/${encodeURIComponent(task.id)}`}
          >
            {may("answer") ? "Answer" : "Review"}
          </Link>
        )}
        {rowsFor(table, task, [...verdicts, ...why.events]).map((row) =>
          button(labelOf(row, task), () => setOpen(row), weight(table, row), plain(row.why)),
        )}
        {budgetId && button("Raise the budget", () => setOpen("raise"), "primary")}
        {verbs.map((each) =>
          button(DIRECT[each][0], () =>
            act(DIRECT[each][0], () => call(DIRECT[each][1], { task_id: task.id })),
          ),
        )}
        {may("retry") && button("Edit and retry", () => setOpen("edit"))}
        {may("cancel") && button("Cancel", () => setOpen("cancel"), "danger")}
        {may("delete") && button("Delete", () => setOpen("delete"), "danger")}
      </div>
      {open && <Opened {...{ task, open, budgetId, busy, act }} onClose={close} />}
    </>
  );
}

type Act = (word: string, verb: () => Promise<unknown>) => Promise<void>;

/** Carries an action out and reports its result. */
function useAct(task: Task, done: () => void): { act: Act; busy: boolean } {
  const [busy, setBusy] = useState(false);
  const act: Act = async (word, verb) => {
    setBusy(true);
    try {
      await verb();
      say(`${word}: ${plain(titleOf(task))}`);
      if (word === DELETED) go("/board");
    } catch (problem) {
      say(plain((problem as Problem).message), { bad: true });
    }
    setBusy(false);
    done();
    await client.invalidateQueries();
  };
  return { act, busy };
}

interface OpenedProps {
  task: Task;
  open: Open;
  budgetId: string | undefined;
  busy: boolean;
  act: Act;
  onClose: () => void;
}

/** The dialog or the form of an action. */
function Opened({ task, open, budgetId, busy, act, onClose }: OpenedProps) {
  const task_id = task.id;
  const common = { task, busy, onClose };
  if (open === "edit") return <RetryForm task={task} onClose={onClose} />;
  if (open === "cancel") {
    const cancel = () => act("Cancelled", () => call("cancel_task", { task_id }));
    return <CancelDialog {...common} onDo={cancel} />;
  }
  if (open === "delete") {
    const remove = () => act(DELETED, () => call("delete_task", { task_id }));
    return <DeleteDialog {...common} onDo={remove} />;
  }
  if (open === "raise") {
    if (!budgetId) return null;
    const raise = (max_budget_usd: number) =>
      act("Raised", () => call("edit_task", { task_id: budgetId, max_budget_usd }));
    return <RaiseDialog {...{ budgetId, busy, onClose }} onRaise={raise} />;
  }
  const send = (comment: string | null) => {
    const given = { task_id, comment, seen: task.version };
    const verdict = VERDICTS[open.event as keyof typeof VERDICTS];
    return act(open.event === ACCEPTED ? acceptedWord(task) : labelOf(open, task), () =>
      verdict ? call(verdict, given) : call("send_event", { ...given, event: open.event }),
    );
  };
  return <Decision {...common} row={open} label={labelOf(open, task)} onSend={send} />;
}

function labelOf({ event }: LifecycleRow, task: Task): string {
  if (event === ACCEPTED) return acceptLabel(task);
  return event === "task_rejected" ? "Reject" : eventLabel(event);
}

/** The task whose budget can be raised: this one, or one above it. */
function raisable(why: Why): string | undefined {
  const suggested = why.reasons.flatMap((reason) => reason.actions);
  return suggested.find((each) => each.action === "raise")?.id;
}
