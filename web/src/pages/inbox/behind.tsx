// What led to a matter: what the task was given to do, and the last that its run wrote.
import { lazy, Suspense } from "react";
import { useRead } from "../../api/hooks";
import type { Task } from "../../api/schema";
import { Link, linkTo } from "../../router";
import { Loading } from "../../ui/notes";
import { Value } from "../../ui/value";

const MOST_LINES = 12;

// Colours and the virtualiser are not needed before somebody looks at a matter of this kind.
const RunOutput = lazy(async () => ({ default: (await import("../../ui/output")).RunOutput }));

export function Behind({ task }: { task: Task }) {
  const runs = useRead("task_runs", { task_id: task.id });
  const run = runs.data?.items.findLast((each) => each.id.startsWith(`${task.id}-`));
  const given = task.payload != null && JSON.stringify(task.payload) !== "{}";
  return (
    <div className="behind">
      {run && (
        <>
          <div className="row spread">
            <h3>What its last run wrote</h3>
            <Link to={linkTo.task(task.id, "output")}>All output</Link>
          </div>
          <Suspense fallback={<Loading what="the output" />}>
            <RunOutput key={run.id} runId={run.id} state={run.state} most={MOST_LINES} />
          </Suspense>
        </>
      )}
      {given && (
        <>
          <h3>What it was given</h3>
          <Value value={task.payload} />
        </>
      )}
    </div>
  );
}
