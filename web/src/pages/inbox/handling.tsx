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
  const [person, setPerson] = useState("");
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
        <Dialog
          title="Assign this item"
          action="Assign"
          onClose={() => setAsking(false)}
          onDo={() => give(person.trim() || null)}
        >
          <label className="field">
            <span>Person (empty: no person)</span>
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
            {people.map((each) => (
              <option key={each} value={each} />
            ))}
          </datalist>
          <p className="faint">
            A person is the name of a token, for example {plain(me ?? "ada")}.
          </p>
        </Dialog>
      )}
    </>
  );
}

const CUSTOM = "custom";

function Snooze({ task }: { task: InboxTask }) {
  const [asking, setAsking] = useState(false);
  const [value, setValue] = useState("");
  const times = snoozeTimes(new Date());
  const choose = (chosen: string) => {
    if (chosen === CUSTOM) {
      setValue(localValue(times[1]!.at));
      setAsking(true);
    } else if (chosen) void snooze(task, times[Number(chosen)]!.at);
  };
  return (
    <>
      <select
        className="input small"
        aria-label="Snooze"
        data-key="snooze"
        value=""
        onChange={(event) => choose(event.target.value)}
      >
        <option value="">Snooze…</option>
        {times.map((each, index) => (
          <option key={each.name} value={index}>
            {each.name}
          </option>
        ))}
        <option value={CUSTOM}>until another time…</option>
      </select>
      {asking && (
        <Dialog
          title="Snooze this item"
          action="Snooze"
          onClose={() => setAsking(false)}
          onDo={() => {
            setAsking(false);
            void snooze(task, new Date(value));
          }}
        >
          <label className="field">
            <span>Until</span>
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
      )}
    </>
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
