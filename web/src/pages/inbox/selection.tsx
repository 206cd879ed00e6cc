// Decisions about several items together: each is legal for some of them, and has their number.
import { useState } from "react";
import { call, type Problem } from "../../api/call";
import { client } from "../../api/hooks";
import type { InboxTask } from "../../api/schema";
import { plain, plural } from "../../text";
import { inZone } from "../../time";
import { Bulk, type Verb } from "../../ui/bulk";
import { say, type ToastAction } from "../../ui/toast";
import { AssignDialog, SnoozeDialog } from "./handling";
import { may } from "./kinds";

const fits = (action: string) => (task: InboxTask) => may(task, action);
const of = (task: InboxTask) => task.id;
const seen = (tasks: readonly InboxTask[]) => ({
  seen: Object.fromEntries(tasks.map((task) => [task.id, task.version])),
});

const VERBS: Verb<InboxTask>[] = [
  { name: "Accept", fits: fits("accept"), operation: "accept_many", of, more: seen },
  {
    name: "Reject",
    danger: true,
    fits: fits("reject"),
    operation: "reject_many",
    of,
    asks: "Comment (the next run of each gets it)",
    more: (tasks, comment) => ({ ...seen(tasks), comment: comment || null, run: true }),
  },
  { name: "Retry", fits: fits("retry"), operation: "retry_many", of },
  { name: "Dismiss", fits: fits("dismiss"), operation: "dismiss_many", of },
  { name: "Cancel", danger: true, fits: fits("cancel"), operation: "cancel_many", of },
];

interface Props {
  tasks: readonly InboxTask[];
  people: readonly string[];
  onDone: () => void;
}

export function Selection({ tasks, people, onDone }: Props) {
  return (
    <Bulk noun="item" items={tasks} verbs={VERBS} chooseAll={null} onDone={onDone}>
      <HandleMany {...{ tasks, people, onDone }} />
    </Bulk>
  );
}

/** Assign or snooze the selected items: every item allows this. */
function HandleMany({ tasks, people, onDone }: Props) {
  const [asking, setAsking] = useState<"assign" | "snooze" | null>(null);
  const close = () => setAsking(null);
  const count = tasks.length.toLocaleString("en");
  const items = plural(tasks.length, "item");
  const assign = (person: string | null) => {
    close();
    const word = person ? `Assigned to ${plain(person)}` : "Assigned to no one";
    void forEach(tasks, word, ({ id }) => call("assign_task", { task_id: id, person })).then(
      onDone,
    );
  };
  const snooze = (at: Date | null) => {
    const until = at?.toISOString() ?? null;
    const word = at ? `Snoozed until ${inZone(at.getTime())}` : "In the inbox again";
    const undo = { name: "Undo", act: () => snooze(null) };
    const one = ({ id }: InboxTask) => call("snooze_task", { task_id: id, until });
    void forEach(tasks, word, one, at ? undo : undefined).then(onDone);
  };
  return (
    <>
      <button type="button" className="button small" onClick={() => setAsking("assign")}>
        Assign {count}…
      </button>
      <button type="button" className="button small" onClick={() => setAsking("snooze")}>
        Snooze {count}…
      </button>
      {asking === "assign" && (
        <AssignDialog title={`Assign ${items}`} people={people} onAssign={assign} onClose={close} />
      )}
      {asking === "snooze" && (
        <SnoozeDialog title={`Snooze ${items}`} onSnooze={snooze} onClose={close} />
      )}
    </>
  );
}

/** Does it to each item, one after the other, and reports how many were refused and why. */
async function forEach(
  tasks: readonly InboxTask[],
  word: string,
  one: (task: InboxTask) => Promise<unknown>,
  action?: ToastAction,
): Promise<void> {
  const refused: string[] = [];
  for (const task of tasks) {
    await one(task).catch((problem: Problem) => refused.push(problem.message));
  }
  const done = `${word}: ${plural(tasks.length - refused.length, "item")}`;
  if (!refused.length) say(done, action ? { action } : {});
  else say(`${done}. ${refused.length} refused: ${plain(refused[0]!)}`, { bad: true });
  await client.invalidateQueries();
}
