// The background of an inbox item: the payload of the task, and the output of its last run.
import { lazy, Suspense } from "react";
import { useRead } from "../../api/hooks";
import type { Run, Task } from "../../api/schema";
import { Link, linkTo } from "../../router";
import { Loading } from "../../ui/notes";
import { Value } from "../../ui/value";

const MAX_LINES = 12;

// Loaded when an item of this kind is opened: they need the colours and the virtual list.
const RunOutput = lazy(async () => ({ default: (await import("../../ui/output")).RunOutput }));
const Transcript = lazy(async () => ({
  default: (await import("../../ui/transcript")).Transcript,
}));

export function Behind({ task }: { task: Task }) {
  const runs = useRead("task_runs", { task_id: task.id });
  const run = runs.data?.items.findLast((each) => each.id.startsWith(`${task.id}-`));
  return <Past run={run} whole={linkTo.task(task.id, "output")} given={task.payload} />;
}

export function BehindJob({ id }: { id: string }) {
  const runs = useRead("job_runs", { job_id: id });
  const job = useRead("show_job", { job_id: id });
  const run = runs.data?.items.at(-1);
  return <Past run={run} whole={run ? linkTo.run(run.id) : ""} given={job.data?.payload} />;
}

interface Props {
  run: Run | undefined;
  /** Where all of its output is. */
  whole: string;
  given: unknown;
}

function Past({ run, whole, given }: Props) {
  return (
    <div className="behind">
      {run && (
        <>
          <div className="row spread">
            <h3>Output of the last run</h3>
            <Link to={whole}>All output</Link>
          </div>
          <Suspense fallback={<Loading what="the output" />}>
            {/* Every run of an agent has a session. */}
            {run.session_id === null ? (
              <RunOutput key={run.id} run={run} most={MAX_LINES} />
            ) : (
              <Transcript key={run.id} run={run} short />
            )}
          </Suspense>
        </>
      )}
      {given != null && JSON.stringify(given) !== "{}" && (
        <>
          <h3>Payload</h3>
          <Value value={given} />
        </>
      )}
    </div>
  );
}
