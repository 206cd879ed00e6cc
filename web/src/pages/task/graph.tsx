// The plan of a task's last planned job as a graph, with the states of its steps as they change.
import { useMemo } from "react";
import { useRead } from "../../api/hooks";
import type { Event, Step, Task } from "../../api/schema";
import { go, linkTo, useSearch } from "../../router";
import { plain, plural, shown, words } from "../../text";
import { Empty, Loading, Trouble } from "../../ui/notes";
import { Shape, StateMark } from "../../ui/state";
import { useLook } from "../../ui/tables";
import { Value } from "../../ui/value";
import { When } from "../../ui/when";
import { BOX, type Node, type PlanStep, picture } from "./plan";
import { isWaiting } from "./timeline";
import { useTimeline } from "./use_timeline";

interface Planned {
  jobId: string;
  version: number;
  steps: PlanStep[];
}

export default function Plan({ task }: { task: Task }) {
  const { events, drawn } = useTimeline(task.id);
  const steps = useRead("task_steps", { task_id: task.id });
  const plan = useMemo(() => lastPlan(events.data?.events ?? []), [events.data]);
  if (events.error) return <Trouble problem={events.error} again={events.refetch} />;
  if (!events.data || !steps.data) return <Loading what="the plan" />;
  if (!plan) {
    return (
      <Empty title="This task has no plan.">
        <p>Its job has no steps: see its timeline and output.</p>
      </Empty>
    );
  }
  const own = steps.data.items.filter(
    (step) => step.job_id === plan.jobId && step.plan_version === plan.version,
  );
  const waiting = drawn.rows.filter((row) => row.kind === "step" && isWaiting(row));
  return (
    <Graph
      plan={plan}
      states={new Map(own.map((step) => [step.name, step]))}
      waiting={new Set(waiting.map((row) => row.id))}
    />
  );
}

function lastPlan(events: Event[]): Planned | null {
  const event = events.findLast((each) => each.name === "plan_generated");
  if (!event) return null;
  const data = event.data as { plan_version: number; plan: { steps: PlanStep[] } };
  return { jobId: event.stream, version: data.plan_version, steps: data.plan.steps };
}

interface GraphProps {
  plan: Planned;
  states: Map<string, Step>;
  /** Steps that sleep or wait for something; their state is that in which they go on. */
  waiting: ReadonlySet<string>;
}

function Graph({ plan, states, waiting }: GraphProps) {
  const [search, change] = useSearch();
  const drawn = useMemo(() => picture(plan.steps), [plan]);
  const open = search.get("step");
  const step = open ? states.get(open) : undefined;
  const done = [...states.values()].filter((each) => each.state === "succeeded").length;
  return (
    <>
      <p className="faint">
        Version {plan.version}: {done} of {plural(plan.steps.length, "step")} succeeded
      </p>
      <div className="scroll plan" tabIndex={0} role="region" aria-label="Plan">
        <svg
          width={drawn.width + 8}
          height={drawn.height + 8}
          viewBox={`-4 -4 ${drawn.width + 8} ${drawn.height + 8}`}
          role="group"
          aria-label="Steps of the plan"
        >
          <defs>
            <marker
              id="plan-head"
              viewBox="0 0 8 8"
              refX="8"
              refY="4"
              markerWidth="8"
              markerHeight="8"
              orient="auto"
              markerUnits="userSpaceOnUse"
            >
              <path d="M0,0.5 L8,4 L0,7.5 z" className="head plain" />
            </marker>
          </defs>
          {drawn.lines.map((line) => (
            <path
              key={`${line.from} ${line.to}`}
              d={line.path}
              className="arrow"
              markerEnd="url(#plan-head)"
            />
          ))}
          {drawn.nodes.map((node) => (
            <StepBox
              key={node.name}
              node={node}
              state={states.get(node.name)?.state ?? "pending"}
              waits={waiting.has(node.name)}
              intent={plan.steps.find((each) => each.name === node.name)?.intent ?? ""}
              open={node.name === open}
              onOpen={() => change({ step: node.name === open ? null : node.name })}
            />
          ))}
        </svg>
      </div>
      {step && <StepFacts step={step} />}
    </>
  );
}

interface BoxProps {
  node: Node;
  state: string;
  waits: boolean;
  intent: string;
  open: boolean;
  onOpen: () => void;
}

function StepBox({ node, state, waits, intent, open, onOpen }: BoxProps) {
  const { look, appearance } = useLook(waits ? "job" : "step", waits ? "waiting" : state);
  const press = (event: React.KeyboardEvent) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    onOpen();
  };
  return (
    <g
      className={`box ${open ? "lit" : ""} ${look === "active" ? "moving" : ""}`}
      data-look={look}
      data-step={node.name}
      data-state={state}
      role="button"
      tabIndex={0}
      aria-pressed={open}
      onClick={onOpen}
      onKeyDown={press}
    >
      <rect x={node.x} y={node.y} width={BOX.width} height={BOX.height} rx="7" />
      <svg
        x={node.x + 10}
        y={node.y + 9}
        width="12"
        height="12"
        viewBox="0 0 12 12"
        aria-hidden="true"
      >
        <Shape name={appearance.shape} />
      </svg>
      <text className="step-name" x={node.x + 28} y={node.y + 15} dy="0.35em">
        {cut(plain(node.name), 20)}
      </text>
      <text className="step-note" x={node.x + 10} y={node.y + 33} dy="0.35em">
        {cut(`${waits ? "waiting" : words(state)} · ${plain(intent)}`, 28)}
      </text>
    </g>
  );
}

const cut = (text: string, most: number) =>
  text.length <= most ? text : `${text.slice(0, most - 1)}…`;

function StepFacts({ step }: { step: Step }) {
  return (
    <section className="step-facts" aria-label={`Step ${plain(step.name)}`}>
      <h2>{plain(step.name)}</h2>
      <p className="facts-line">
        <StateMark table="step" state={step.state} />
        <span>
          for <When at={step.state_at} brief />
        </span>
        {step.retries > 0 && <span>{plural(step.retries, "retry", "retries")}</span>}
        {step.resource && <span>resource {plain(step.resource)}</span>}
        {!step.resource && step.last_resource && <span>held {plain(step.last_resource)}</span>}
        {step.reason && <span>{plain(step.reason)}</span>}
        {step.run_id && (
          <button
            type="button"
            className="button small"
            onClick={() => go(linkTo.run(step.run_id!))}
          >
            Open its run
          </button>
        )}
      </p>
      {step.error && <pre className="block">{shown(step.error)}</pre>}
      {step.result != null && <Value value={step.result} />}
    </section>
  );
}
