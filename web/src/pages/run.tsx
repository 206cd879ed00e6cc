// The page of one run: its outcome, cost, output and evidence.
import { useFresh, useRead } from "../api/hooks";
import { Link, linkTo } from "../router";
import { dollars, plain, shortId } from "../text";
import { ErrorText } from "../ui/error_text";
import { Evidence } from "../ui/evidence";
import { Loading, Trouble } from "../ui/notes";
import { RunLog } from "../ui/run_log";
import { RunMark } from "../ui/state";
import { Title } from "../ui/title";
import { Took, When } from "../ui/when";

export default function RunPage({ id }: { id: string }) {
  const run = useRead("show_run", { run_id: id });
  const evidence = useRead("run_evidence", { run_id: id });
  useFresh(["show_run", "run_evidence"], (event) => event.subject === id, 400);
  if (run.error && !run.data) {
    return (
      <>
        <Title>Run</Title>
        <Trouble problem={run.error} again={run.refetch} />
        <p>
          It may have been deleted. <Link to="/runs">Open the list of runs</Link>.
        </p>
      </>
    );
  }
  if (!run.data || run.data.id !== id) return <Loading what="the run" />;
  const { started_at, ended_at, worker, attempt, cost, error, exit_code, task_id, title } =
    run.data;
  return (
    <>
      <header className="task-head">
        <Title>{`Run ${shortId(id)}`}</Title>
        <p className="facts-line">
          <RunMark run={run.data} />
          {run.data.outcome && run.data.outcome !== "done" && (
            <span>
              {plain(run.data.outcome)}
              {run.data.reason && !error && `: ${plain(run.data.reason)}`}
            </span>
          )}
          {started_at && (
            <span>
              started <When at={started_at} />
            </span>
          )}
          <span>
            took <Took from={started_at} to={ended_at} />
          </span>
          <span>by {plain(worker)}</span>
          <span>attempt {attempt}</span>
          {exit_code !== null && <span>exit code {exit_code}</span>}
          {cost > 0 && <span>{dollars(cost)}</span>}
          {run.data.step && <span>step {plain(run.data.step)}</span>}
          {task_id && <Link to={linkTo.task(task_id)}>{plain(title) || "Open its task"}</Link>}
          <Link to={linkTo.job(run.data.job_id)}>Open its job</Link>
          <code className="mono faint">{plain(id)}</code>
        </p>
      </header>
      {run.data.note && <p>{plain(run.data.note)}</p>}
      {error && <ErrorText error={error} errorClass={run.data.error_class} heading="h2" />}
      <h2>Output</h2>
      <RunLog key={id} run={run.data} />
      <h2>Evidence</h2>
      {evidence.data && <Evidence items={evidence.data.items} />}
    </>
  );
}
