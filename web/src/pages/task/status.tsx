// The status of a task in plain words: what it does or waits for, until when, and what one can do.
import { useRead } from "../../api/hooks";
import type { Reason, Task, Why } from "../../api/schema";
import { isWaiting, sentence, urgencyOf } from "../../reason_words";
import { Link, linkTo } from "../../router";
import { plain, shortId, words } from "../../text";
import { Trouble } from "../../ui/notes";
import { Reasons } from "../../ui/reasons";
import { Mark, StateMark } from "../../ui/state";
import { useTable } from "../../ui/tables";
import { When } from "../../ui/when";
import { Actions } from "./actions";

export function Status({ task }: { task: Task }) {
  const why = useRead("why", { task_id: task.id });
  if (why.error) return <Trouble problem={why.error} again={why.refetch} />;
  if (why.data?.id !== task.id) return null;
  return (
    <section className="status" data-look={lookOf(why.data)} aria-label="Status">
      <Sentences task={task} why={why.data} />
      <Actions task={task} why={why.data} />
      {why.data.reasons.length > 0 && (
        <details>
          <summary>Who can change this, and how</summary>
          <Reasons reasons={why.data.reasons} />
        </details>
      )}
    </section>
  );
}

/** The looks of states in which one would not expect that the task waits by itself. */
const NOT_WAITING = ["active", "attention"];

/** The state. A task that continues by itself, later, is shown as waiting. */
export function TaskMark({ task }: { task: Task }) {
  const why = useRead("why", { task_id: task.id });
  const look = useTable(task.lifecycle).looks[task.state] ?? "";
  const waits = why.data?.id === task.id && isWaiting(why.data.reasons);
  if (!waits || !NOT_WAITING.includes(look))
    return <StateMark table={task.lifecycle} state={task.state} />;
  return (
    <>
      <Mark look="waiting">waiting</Mark>
      <span>state {words(task.state)}</span>
    </>
  );
}

/** The most urgent reason decides. */
function lookOf({ reasons }: Why): string {
  const found = new Set(reasons.map(urgencyOf));
  return (["bad", "attention", "active", "waiting"] as const).find((each) => found.has(each)) ?? "";
}

function Sentences({ task, why }: { task: Task; why: Why }) {
  const meaning = useTable(task.lifecycle).meanings[task.state];
  if (!why.reasons.length) {
    const reason = task.cancel_reason ? `: ${plain(task.cancel_reason)}` : "";
    return (
      <p className="status-words">
        The task is {words(task.state)}
        {reason || (meaning && meaning !== words(task.state) ? `: ${plain(meaning)}` : "")}.
      </p>
    );
  }
  return (
    <>
      {why.reasons.map((reason) => (
        <p key={`${reason.reason} ${reason.detail.task ?? ""}`} className="status-words">
          {sentence(reason)}
          {reason.looks_again_at && (
            <span className="status-until">
              {" "}
              Until <When at={reason.looks_again_at} exact /> (<When at={reason.looks_again_at} />)
            </span>
          )}
        </p>
      ))}
      <Others taskId={task.id} reasons={why.reasons} />
    </>
  );
}

/** Other tasks on which something can be done. */
function Others({ taskId, reasons }: { taskId: string; reasons: readonly Reason[] }) {
  const all = reasons.flatMap((reason) => reason.actions).filter((each) => each.id !== taskId);
  const ids = [...new Set(all.map((each) => each.id))];
  const actionsOn = (id: string) =>
    new Set(all.filter((each) => each.id === id).map((each) => each.action));
  return ids.map((id) => (
    <p key={id}>
      <Link to={linkTo.task(id)}>
        Open {shortId(id)} to {[...actionsOn(id)].join(" or ")} it
      </Link>
    </p>
  ));
}
