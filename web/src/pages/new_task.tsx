// Create a task: its type, the arguments that the handler declares, and what people see of it.
import { type FormEvent, useRef, useState } from "react";
import { useRead, useVerb } from "../api/hooks";
import type { KnownIntent } from "../api/schema";
import { go, linkTo, useSearch } from "../router";
import { plain } from "../text";
import { BudgetField } from "../ui/budget_field";
import { IntentSelect, intentNamed } from "../ui/intent_select";
import { LifecycleSelect } from "../ui/lifecycle_select";
import { Command, Empty, Loading, Trouble } from "../ui/notes";
import { PayloadForm, useTyped } from "../ui/payload_form";
import { Title } from "../ui/title";
import { say } from "../ui/toast";

const PRIORITIES = ["P0", "P1", "P2", "P3"];

export default function NewTask() {
  const intents = useRead("list_intents", {});
  const [search, change] = useSearch();
  const first = useRef<string>(undefined);
  if (intents.error) return <Trouble problem={intents.error} again={intents.refetch} />;
  if (!intents.data) return <Loading what="the task types" />;
  const known = intents.data.items;
  // The first type stays, also if another one is declared that comes before it.
  first.current ??= known[0]?.name;
  const chosen = intentNamed(known, search.get("intent") ?? first.current ?? "");
  return (
    <>
      <Title>New task</Title>
      {chosen ? (
        <div className="stack new-task">
          <IntentSelect known={known} chosen={chosen} onChange={(intent) => change({ intent })} />
          {chosen.workers === 0 && chosen.kind === "function" && (
            <p className="notice">No running worker executes this task type. The task waits.</p>
          )}
          {chosen.paused && <p className="notice">This task type is paused. The task waits.</p>}
          <Form intent={chosen} />
        </div>
      ) : (
        <Empty title="There are no task types.">
          <p>Declare a task type in detent.toml, or start a worker with an app:</p>
          <Command>detent up --app module:app</Command>
        </Empty>
      )}
    </>
  );
}

function Form({ intent }: { intent: KnownIntent }) {
  const projects = useRead("list_projects", {});
  const submit = useVerb("submit_task");
  const payload = useTyped(intent.name, intent.arguments, null);
  const [title, setTitle] = useState("");
  const [project, setProject] = useState("");
  const [priority, setPriority] = useState("P2");
  const [lifecycle, setLifecycle] = useState("");
  const [budget, setBudget] = useState("");
  const send = (event: FormEvent) => {
    event.preventDefault();
    const read = payload.read();
    if ("wrong" in read) return;
    submit.mutate(
      {
        intent: intent.name,
        payload: read.payload,
        priority: priority as "P2",
        run: true,
        ...(title.trim() ? { title: title.trim() } : {}),
        ...(project.trim() ? { project: project.trim() } : {}),
        ...(lifecycle ? { lifecycle } : {}),
        ...(budget ? { max_budget_usd: Number(budget) } : {}),
      },
      {
        onSuccess: (made) => {
          say(`Submitted: ${plain(title.trim() || intent.name)}`);
          go(linkTo.task(made.id));
        },
      },
    );
  };
  return (
    <form className="stack" aria-label="New task" onSubmit={send}>
      <label className="field">
        <span>Title (optional)</span>
        <input
          className="input"
          maxLength={500}
          value={title}
          onChange={(event) => setTitle(event.target.value)}
        />
      </label>
      <fieldset className="stack">
        <legend>Arguments</legend>
        <PayloadForm
          key={intent.name}
          schema={payload.schema}
          typed={payload.typed}
          onChange={payload.setTyped}
          wrong={payload.wrong}
        />
      </fieldset>
      <div className="form-grid">
        <label className="field">
          <span>Project (optional)</span>
          <input
            className="input"
            list="projects"
            maxLength={200}
            value={project}
            onChange={(event) => setProject(event.target.value)}
          />
          <datalist id="projects">
            {projects.data?.items.map((each) => (
              <option key={each.name} value={each.name} />
            ))}
          </datalist>
        </label>
        <label className="field">
          <span>Priority</span>
          <select
            className="input"
            value={priority}
            onChange={(event) => setPriority(event.target.value)}
          >
            {PRIORITIES.map((each) => (
              <option key={each}>{each}</option>
            ))}
          </select>
        </label>
        <LifecycleSelect value={lifecycle} onChange={setLifecycle} />
        <BudgetField label="Budget in dollars (optional)" value={budget} onChange={setBudget} />
      </div>
      {submit.error && <Trouble problem={submit.error} />}
      <div className="row">
        <button type="submit" className="button primary" disabled={submit.isPending}>
          Create the task
        </button>
      </div>
    </form>
  );
}
