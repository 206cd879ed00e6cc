// The page of one task: status, timeline, plan, output, evidence and history.
import { lazy } from "react";
import { useFresh, useRead } from "../../api/hooks";
import type { Task } from "../../api/schema";
import { Link, linkTo } from "../../router";
import { dollars, plain } from "../../text";
import { Evidence } from "../../ui/evidence";
import { Empty, Loading, Trouble } from "../../ui/notes";
import { Tabs } from "../../ui/tabs";
import { Title } from "../../ui/title";
import { When } from "../../ui/when";
import { titleOf } from "../inbox/kinds";
import { Gantt } from "./gantt";
import { History } from "./history";
import { Output } from "./output";
import { Overview } from "./overview";
import { Status, TaskMark } from "./status";

const Plan = lazy(() => import("./graph"));

const TABS = [
  ["", "Overview"],
  ["review", "Review"],
  ["timeline", "Timeline"],
  ["plan", "Plan"],
  ["output", "Output"],
  ["evidence", "Evidence"],
  ["history", "History"],
] as const;

/** A task with variants has a comparison of them. */
function tabsOf(task: Task): readonly (readonly [string, string])[] {
  const [first, ...others] = TABS;
  return "variants" in task.options ? [first, ["variants", "Compare"], ...others] : TABS;
}

const READS = [
  "show_task",
  "task_events",
  "task_jobs",
  "task_runs",
  "task_steps",
  "task_evidence",
  "subtasks",
  "why",
  "task_costs",
] as const;

export default function TaskPage({ id, tab = "" }: { id: string; tab?: string }) {
  const task = useRead("show_task", { task_id: id });
  useFresh(READS, (event) => event.stream === id || event.stream.startsWith(`${id}-j`), 400);
  if (task.error && (!task.data || task.error.status === 404)) {
    return (
      <>
        <Title>Task</Title>
        <Trouble problem={task.error} again={task.refetch} />
        <p>
          It may have been deleted. <Link to="/board">Open the board</Link>.
        </p>
      </>
    );
  }
  if (!task.data || task.data.id !== id) return <Loading what="the task" />;
  return (
    <>
      <Head key={`head ${id}`} task={task.data} />
      <Tabs label="Views of the task">
        {tabsOf(task.data).map(([key, name]) => (
          <Link key={key} to={linkTo.task(id, key)} aria-current={key === tab ? "page" : undefined}>
            {name}
          </Link>
        ))}
      </Tabs>
      <Tab key={id} task={task.data} tab={tab} />
    </>
  );
}

function Tab({ task, tab }: { task: Task; tab: string }) {
  if (tab === "") return <Overview task={task} />;
  if (tab === "timeline") return <Gantt task={task} />;
  if (tab === "plan") return <Plan task={task} />;
  if (tab === "output") return <Output taskId={task.id} />;
  if (tab === "evidence") return <Files task={task} />;
  if (tab === "history") return <History task={task} />;
  return (
    <Empty title="This task has no such view.">
      <Link to={linkTo.task(task.id)}>Open the overview</Link>
    </Empty>
  );
}

function Files({ task }: { task: Task }) {
  const evidence = useRead("task_evidence", { task_id: task.id });
  if (evidence.error) return <Trouble problem={evidence.error} again={evidence.refetch} />;
  return evidence.data ? <Evidence items={evidence.data.items} /> : <Loading what="the evidence" />;
}

function Head({ task }: { task: Task }) {
  return (
    <header className="task-head">
      <div className="title-row">
        <Title>{titleOf(task)}</Title>
      </div>
      <p className="facts-line">
        <TaskMark task={task} />
        <span>
          for <When at={task.state_at} brief />
        </span>
        <span title="Project">{plain(task.project)}</span>
        <span title="Task type (intent)">{plain(task.intent)}</span>
        <span title="Priority">{task.priority}</span>
        {(task.spent > 0 || task.budget !== null) && (
          <span>
            {dollars(task.spent)}
            {task.budget !== null && ` of ${dollars(task.budget)}`}
          </span>
        )}
        <code className="mono faint">{plain(task.id)}</code>
      </p>
      <Status task={task} />
    </header>
  );
}
