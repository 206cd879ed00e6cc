// Edit and retry: a new payload and a new budget for a task that failed, sent with the retry.
import { type FormEvent, useState } from "react";
import { useRead } from "../../api/hooks";
import type { InboxTask } from "../../api/schema";
import { dollars } from "../../text";
import { Loading, Trouble } from "../../ui/notes";
import { PayloadForm, readTyped, type Typed, typedFrom } from "../../ui/payload_form";
import type { Schema } from "../../ui/schema_fields";
import { useSettling } from "./settling";

interface Props {
  task: InboxTask;
  onClose: () => void;
}

export function RetryForm({ task, onClose }: Props) {
  const intents = useRead("list_intents", {});
  if (!intents.data) return <Loading what="the arguments" />;
  const intent = intents.data.items.find((each) => each.name === task.intent);
  return <Form task={task} schema={intent?.arguments ?? null} onClose={onClose} />;
}

function Form({ task, schema, onClose }: Props & { schema: Schema | null }) {
  const retry = useSettling("retry_task", "Queued again", task);
  const [typed, setTyped] = useState<Typed>(() => typedFrom(schema, task.payload));
  const [wrong, setWrong] = useState<Record<string, string>>({});
  const [budget, setBudget] = useState("");
  const submit = (event: FormEvent) => {
    event.preventDefault();
    const read = readTyped(schema, typed);
    setWrong("wrong" in read ? read.wrong : {});
    if ("wrong" in read) return;
    retry.mutate({
      task_id: task.id,
      payload: read.payload,
      ...(budget ? { max_budget_usd: Number(budget) } : {}),
    });
  };
  return (
    <form className="stack edit-form" aria-label="Edit and retry" onSubmit={submit}>
      <PayloadForm schema={schema} typed={typed} onChange={setTyped} wrong={wrong} />
      <label className="field">
        <span>
          New budget in dollars (optional
          {task.budget !== null && `; ${dollars(task.spent)} of ${dollars(task.budget)} is spent`})
        </span>
        <input
          className="input"
          type="number"
          min={0.01}
          step="any"
          value={budget}
          onChange={(event) => setBudget(event.target.value)}
        />
      </label>
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
