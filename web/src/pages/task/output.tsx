// The output of a task's runs, one run at a time.
import { useRead } from "../../api/hooks";
import { useSearch } from "../../router";
import { plain, shortId } from "../../text";
import { Empty, Loading, Trouble } from "../../ui/notes";
import { RunLog } from "../../ui/run_log";

export function Output({ taskId }: { taskId: string }) {
  const runs = useRead("task_runs", { task_id: taskId });
  const [search, change] = useSearch();
  if (runs.error) return <Trouble problem={runs.error} again={runs.refetch} />;
  if (!runs.data) return <Loading what="the runs" />;
  const items = runs.data.items;
  const run = items.find((each) => each.id === search.get("run")) ?? items.at(-1);
  if (!run) {
    return (
      <Empty title="No run has written output yet.">
        <p>The output appears here line by line after a worker has started the job.</p>
      </Empty>
    );
  }
  return (
    <>
      {items.length > 1 && (
        <label className="field inline">
          <span>Run</span>
          <select
            className="input small"
            value={run.id}
            onChange={(event) => change({ run: event.target.value })}
          >
            {items.map((each, at) => (
              <option key={each.id} value={each.id}>
                {at + 1}: {each.state}
                {each.step ? ` (${plain(each.step)})` : ""} {shortId(each.id)}
              </option>
            ))}
          </select>
        </label>
      )}
      <RunLog key={run.id} run={run} />
    </>
  );
}
