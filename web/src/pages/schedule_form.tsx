// Create or edit a schedule: when it fires, and the task that it submits.
import { type FormEvent, useEffect, useRef, useState } from "react";
import { useRead, useVerb } from "../api/hooks";
import type { Schedule } from "../api/schema";
import { plain } from "../text";
import { IntentSelect, intentNamed } from "../ui/intent_select";
import { LifecycleSelect } from "../ui/lifecycle_select";
import { Loading, Trouble } from "../ui/notes";
import { PayloadForm, useTyped } from "../ui/payload_form";
import { say } from "../ui/toast";

interface Props {
  /** The schedule to edit; null for a new one. */
  schedule: Schedule | null;
  /** The names that schedules have: a new one has another name. */
  taken: readonly string[];
  onClose: () => void;
}

export function ScheduleForm({ schedule, taken, onClose }: Props) {
  const intents = useRead("list_intents", {});
  const [intent, setIntent] = useState(schedule?.intent ?? "");
  const first = useRef<string>(undefined);
  const section = useRef<HTMLElement>(null);
  const loaded = intents.data !== undefined;
  // It may be far above the button that has opened it.
  useEffect(() => {
    if (loaded) section.current?.querySelector<HTMLElement>("select, input")?.focus();
  }, [loaded]);
  if (intents.error) return <Trouble problem={intents.error} again={intents.refetch} />;
  if (!intents.data) return <Loading what="the task types" />;
  const known = intents.data.items;
  // The first type stays, also if another one is declared that comes before it.
  first.current ??= known[0]?.name;
  const chosen = intentNamed(known, intent || (first.current ?? ""));
  return (
    <section ref={section} className="tile stack" aria-labelledby="schedule-form">
      <h2 id="schedule-form">{schedule ? `Edit ${plain(schedule.name)}` : "New schedule"}</h2>
      <IntentSelect known={known} chosen={chosen} onChange={setIntent} />
      {chosen && (
        <Fields
          schedule={schedule}
          taken={taken}
          intent={chosen.name}
          declared={chosen.arguments}
          onClose={onClose}
        />
      )}
    </section>
  );
}

interface FieldsProps extends Props {
  intent: string;
  declared: Record<string, unknown> | null;
}

function Fields({ schedule, taken, intent, declared, onClose }: FieldsProps) {
  const put = useVerb("put_schedule");
  const same = schedule?.intent === intent;
  const payload = useTyped(intent, declared, same ? schedule.payload : null);
  const [text, setText] = useState({
    name: schedule?.name ?? "",
    cron: schedule ? (schedule.cron ?? "") : "0 3 * * *",
    timezone: schedule?.timezone ?? "UTC",
    every: schedule?.every_s ? String(schedule.every_s) : "",
    overlap: schedule?.overlap ?? "skip",
    missed: schedule?.missed ?? "once",
    priority: schedule?.priority ?? "P2",
    project: schedule?.project ?? "",
    lifecycle: schedule?.lifecycle ?? "",
  });
  const [refused, setRefused] = useState("");
  const change = (name: keyof typeof text) => (value: string) =>
    setText({ ...text, [name]: value });
  const save = (event: FormEvent) => {
    event.preventDefault();
    const read = payload.read();
    const name = text.name.trim();
    const isTaken = schedule === null && taken.includes(name);
    setRefused(isTaken ? name : "");
    if ("wrong" in read || isTaken) return;
    put.mutate(
      {
        ...kept(schedule),
        name,
        intent,
        payload: read.payload,
        ...(text.every ? { every_s: Number(text.every) } : { cron: text.cron }),
        timezone: text.timezone,
        overlap: text.overlap as "skip",
        missed: text.missed as "once",
        priority: text.priority as "P2",
        ...(text.lifecycle ? { lifecycle: text.lifecycle } : {}),
        ...(text.project.trim() ? { project: text.project.trim() } : {}),
      },
      {
        onSuccess: (made) => {
          say(`Saved: ${plain(made.name)}`);
          onClose();
        },
      },
    );
  };
  return (
    <form className="stack" aria-label="Schedule" onSubmit={save}>
      <div className="form-grid">
        <Text
          name="Name"
          value={text.name}
          onChange={change("name")}
          required
          fixed={schedule !== null}
        />
        <Text name="Cron expression" value={text.cron} onChange={change("cron")} />
        <Text name="Time zone" value={text.timezone} onChange={change("timezone")} />
        <Text
          name="Or an interval in seconds"
          value={text.every}
          onChange={change("every")}
          type="number"
        />
        <Choice
          name="If the last task has not ended"
          value={text.overlap}
          values={{ skip: "skip this time", allow: "submit another task" }}
          onChange={change("overlap")}
        />
        <Choice
          name="Times missed while no keeper ran"
          value={text.missed}
          values={{
            once: "submit one task for all of them",
            all: "submit a task for each",
            skip: "skip them",
          }}
          onChange={change("missed")}
        />
        <Choice
          name="Priority"
          value={text.priority}
          values={{ P0: "P0", P1: "P1", P2: "P2", P3: "P3" }}
          onChange={change("priority")}
        />
        <LifecycleSelect value={text.lifecycle} onChange={change("lifecycle")} />
        <Text name="Project (optional)" value={text.project} onChange={change("project")} />
      </div>
      <fieldset className="stack">
        <legend>Arguments</legend>
        <PayloadForm
          key={intent}
          schema={payload.schema}
          typed={payload.typed}
          onChange={payload.setTyped}
          wrong={payload.wrong}
        />
      </fieldset>
      {refused && (
        <p className="bad-text" role="alert">
          A schedule {plain(refused)} exists. Edit it, or choose another name.
        </p>
      )}
      {put.error && <Trouble problem={put.error} />}
      <div className="row">
        <button type="submit" className="button primary" disabled={put.isPending}>
          Save the schedule
        </button>
        <button type="button" className="button" onClick={onClose}>
          Close
        </button>
      </div>
    </form>
  );
}

/** What the form does not show; saving replaces the whole schedule. */
function kept(schedule: Schedule | null) {
  if (!schedule) return {};
  const { options, not_before } = schedule;
  return { options, ...(not_before === null ? {} : { not_before }) };
}

interface TextProps {
  name: string;
  value: string;
  onChange: (value: string) => void;
  required?: boolean;
  fixed?: boolean;
  type?: "text" | "number";
}

function Text({ name, value, onChange, required, fixed, type = "text" }: TextProps) {
  return (
    <label className="field">
      <span>{name}</span>
      <input
        className="input"
        type={type}
        min={1}
        value={value}
        required={required}
        readOnly={fixed}
        maxLength={200}
        onChange={(event) => onChange(event.target.value)}
      />
    </label>
  );
}

interface ChoiceProps {
  name: string;
  value: string;
  /** The words for each value. */
  values: Record<string, string>;
  onChange: (value: string) => void;
}

function Choice({ name, value, values, onChange }: ChoiceProps) {
  return (
    <label className="field">
      <span>{name}</span>
      <select className="input" value={value} onChange={(event) => onChange(event.target.value)}>
        {Object.entries(values).map(([each, meaning]) => (
          <option key={each} value={each}>
            {meaning}
          </option>
        ))}
      </select>
    </label>
  );
}
