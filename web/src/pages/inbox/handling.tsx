// Who deals with an item and when: assign it to a person, or snooze it.
import { useState } from "react";
import { call, type Problem } from "../../api/call";
import { client, useRead } from "../../api/hooks";
import type { InboxTask } from "../../api/schema";
import { go } from "../../router";
import { plain } from "../../text";
import { inZone } from "../../time";
import { Dialog } from "../../ui/dialog";
import { say } from "../../ui/toast";
import { titleOf } from "./kinds";
import { inboxAddress, useSettling } from "./settling";
import { localValue, snoozeTimes } from "./snooze_times";

export function Handling({ task, people }: { task: InboxTask; people: readonly string[] }) {
  return (
    <div className="row wrap handling">
      <Assignment task={task} people={people} />
      {task.snoozed_until ? <SnoozeEnd task={task} /> : <Snooze task={task} />}
    </div>
  );
}

function Assignment({ task, people }: { task: InboxTask; people: readonly string[] }) {
  const me = useRead("show_me", {}, { fixed: true }).data?.name;
  const [asking, setAsking] = useState(false);
  const word = (name: string | null) => (name ? `Assigned to ${plain(name)}` : "Unassigned");
  const assign = useSettling("assign_task", "Assignment changed", task);
  const give = (name: string | null) => {
    setAsking(false);
    assign.mutate({ task_id: task.id, person: name });
  };
  return (
    <>
      <span>{word(task.assigned_to)}</span>
      {me && task.assigned_to !== me && (
        <button
          type="button"
          className="button small"
          data-key="mine"
          disabled={assign.isPending}
          onClick={() => give(me)}
        >
          Assign to me
        </button>
      )}
      <button
        type="button"
        className="button small"
        data-key="person"
        disabled={assign.isPending}
        onClick={() => setAsking(true)}
      >
        Assign…
      </button>
      {asking && (
        <AssignDialog
          title="Assign this item"
          people={people}
          onAssign={give}
          onClose={() => setAsking(false)}
        />
      )}
    </>
  );
}

interface AssignProps {
  title: string;
  people: readonly string[];
  onAssign: (person: string | null) => void;
  onClose: () => void;
}

export function AssignDialog({ title, people, onAssign, onClose }: AssignProps) {
  const me = useRead("show_me", {}, { fixed: true }).data?.name;
  const [person, setPerson] = useState("");
  return (
    <Dialog
      title={title}
      action="Assign"
      onClose={onClose}
      onDo={() => onAssign(person.trim() || null)}
    >
      <label className="field">
        <span>Person (leave it empty to assign no one)</span>
        <input
          className="input"
          list="people"
          autoComplete="off"
          maxLength={100}
          value={person}
          onChange={(event) => setPerson(event.target.value)}
        />
      </label>
      <datalist id="people">
        {[...new Set([...(me ? [me] : []), ...people])].map((each) => (
          <option key={each} value={each} />
        ))}
      </datalist>
      <p className="faint">
        People are known by the names of their tokens; yours is {plain(me ?? "not known")}.
      </p>
    </Dialog>
  );
}

function Snooze({ task }: { task: InboxTask }) {
  const [asking, setAsking] = useState(false);
  return (
    <>
      <button
        type="button"
        className="button small"
        data-key="snooze"
        onClick={() => setAsking(true)}
      >
        Snooze…
      </button>
      {asking && (
        <SnoozeDialog
          title="Snooze this item"
          onSnooze={(at) => void snooze(task, at)}
          onClose={() => setAsking(false)}
        />
      )}
    </>
  );
}

interface SnoozeProps {
  title: string;
  onSnooze: (until: Date) => void;
  onClose: () => void;
}

export function SnoozeDialog({ title, onSnooze, onClose }: SnoozeProps) {
  const [times] = useState(() => snoozeTimes(new Date()));
  const [value, setValue] = useState(localValue(times[1]!.at));
  const until = (at: Date) => {
    onClose();
    onSnooze(at);
  };
  return (
    <Dialog
      title={title}
      action="Snooze until then"
      onClose={onClose}
      onDo={() => until(new Date(value))}
    >
      <div className="row wrap">
        {times.map(({ name, at }) => (
          <button key={name} type="button" className="button" onClick={() => until(at)}>
            {name}
          </button>
        ))}
      </div>
      <label className="field">
        <span>Another time</span>
        <input
          className="input"
          type="datetime-local"
          required
          min={localValue(new Date())}
          value={value}
          onChange={(event) => setValue(event.target.value)}
        />
      </label>
    </Dialog>
  );
}

function SnoozeEnd({ task }: { task: InboxTask }) {
  return (
    <>
      <span>Snoozed until {inZone(Date.parse(task.snoozed_until!))}</span>
      <button
        type="button"
        className="button small"
        data-key="snooze"
        onClick={() => void snooze(task, null)}
      >
        End the snooze
      </button>
    </>
  );
}

/** Hide the item until a time, or show it again. The item leaves the page, so that the outcome is
 * reported from here. */
async function snooze(task: InboxTask, at: Date | null): Promise<void> {
  const title = plain(titleOf(task));
  const undo = () => {
    void snooze(task, null);
    go(inboxAddress(task.id));
  };
  try {
    await call("snooze_task", { task_id: task.id, until: at?.toISOString() ?? null });
    if (at) {
      const action = { name: "Undo", act: undo };
      say(`Snoozed until ${inZone(at.getTime())}: ${title}`, { action });
    } else say(`In the inbox again: ${title}`);
  } catch (problem) {
    say(plain((problem as Problem).message), { bad: true });
  }
  await client.invalidateQueries();
}
