// Edit and retry: a new payload and a new budget for a task that failed, sent with the retry.
import { type FormEvent, useEffect, useRef, useState } from "react";
import { useRead } from "../../api/hooks";
import type { Task } from "../../api/schema";
import { dollars } from "../../text";
import { BudgetField } from "../../ui/budget_field";
import { Loading, Trouble } from "../../ui/notes";
import { PayloadForm, useTyped } from "../../ui/payload_form";
import type { Schema } from "../../ui/schema_fields";
import { useSettling } from "./settling";

interface Props {
  task: Task;
  onClose: () => void;
}

export function RetryForm({ task, onClose }: Props) {
  const intents = useRead("list_intents", {});
  if (!intents.data) {
    if (intents.error) return <Trouble problem={intents.error} again={intents.refetch} />;
    return <Loading what="the arguments" />;
  }
  const intent = intents.data.items.find((each) => each.name === task.intent);
  return <Form task={task} schema={intent?.arguments ?? null} onClose={onClose} />;
}

function Form({ task, schema, onClose }: Props & { schema: Schema | null }) {
  const retry = useSettling("retry_task", "Queued again", task);
  const payload = useTyped(task.intent, schema, task.payload);
  const [budget, setBudget] = useState("");
  const form = useRef<HTMLFormElement>(null);
  // It takes the place of the button that has opened it.
  useEffect(() => form.current?.querySelector<HTMLElement>("input, select, textarea")?.focus(), []);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    const read = payload.read();
    if ("wrong" in read) return;
    const limit = budget ? { max_budget_usd: Number(budget) } : {};
    retry.mutate({ task_id: task.id, payload: read.payload, ...limit }, { onSuccess: onClose });
  };
  const spent =
    task.budget === null ? "" : `; ${dollars(task.spent)} of ${dollars(task.budget)} is spent`;
  return (
    <form ref={form} className="stack edit-form" aria-label="Edit and retry" onSubmit={submit}>
      <PayloadForm
        schema={payload.schema}
        typed={payload.typed}
        onChange={payload.setTyped}
        wrong={payload.wrong}
      />
      <BudgetField
        label={`New budget in dollars (optional${spent})`}
        value={budget}
        onChange={setBudget}
      />
      {retry.error && <Trouble problem={retry.error} />}
      <div className="row">
        <button type="submit" className="button primary" disabled={retry.isPending}>
          Save and retry
        </button>
        <button type="button" className="button" onClick={onClose}>
          Discard the changes
        </button>
      </div>
    </form>
  );
}
