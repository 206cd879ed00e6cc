// The page of one job: its status, runs, result and history.
import { useFresh, useRead } from "../api/hooks";
import type { Job } from "../api/schema";
import { path } from "../lifecycles";
import { Link, linkTo } from "../router";
import { plain, shortId } from "../text";
import { Diagram, wayKey } from "../ui/diagram";
import { ErrorText } from "../ui/error_text";
import { Loading, Trouble } from "../ui/notes";
import { Reasons } from "../ui/reasons";
import { RunMark, StateMark } from "../ui/state";
import { useTables } from "../ui/tables";
import { Title } from "../ui/title";
import { Value } from "../ui/value";
import { Took, When } from "../ui/when";

export default function JobPage({ id }: { id: string }) {
  const job = useRead("show_job", { job_id: id });
  useFresh(["show_job", "job_events", "job_runs", "job_why"], (event) => event.stream === id, 400);
  if (job.error && !job.data) {
    return (
      <>
        <Title>Job</Title>
        <Trouble problem={job.error} again={job.refetch} />
        <p>
          It may have been deleted. <Link to="/jobs">Open the list of jobs</Link>.
        </p>
      </>
    );
  }
  if (!job.data || job.data.id !== id) return <Loading what="the job" />;
  return (
    <>
      <header className="task-head">
        <Title>{`Job ${shortId(id)}`}</Title>
        <p className="facts-line">
          <StateMark table="job" state={job.data.state} />
          <span>
            for <When at={job.data.state_at} brief />
          </span>
          <span title="Project">{plain(job.data.project)}</span>
          <span title="Task type (intent)">{plain(job.data.intent)}</span>
          <span>attempt {job.data.attempt}</span>
          {job.data.task_id ? (
            <Link to={linkTo.task(job.data.task_id)}>Open its task</Link>
          ) : (
            <span className="faint">without a task</span>
          )}
          <code className="mono faint">{plain(id)}</code>
        </p>
      </header>
      <Inside key={id} job={job.data} />
    </>
  );
}

function Inside({ job }: { job: Job }) {
  const events = useRead("job_events", { job_id: job.id });
  const why = useRead("job_why", { job_id: job.id });
  const runs = useRead("job_runs", { job_id: job.id });
  const tables = useTables();
  const visits = path(tables, "job", events.data?.events ?? []);
  const way = new Set(visits.map((visit) => wayKey(visit.from, visit.event)));
  return (
    <div className="overview">
      {job.error && (
        <section aria-label="Error">
          <ErrorText error={job.error} errorClass={job.error_class} heading="h2" />
        </section>
      )}
      {why.data && why.data.reasons.length > 0 && (
        <section aria-label="Status">
          <h2>Status</h2>
          <Reasons reasons={why.data.reasons} />
          {why.data.actions.includes("answer") && (
            <p>
              <Link to={`/inbox/${encodeURIComponent(job.task_id ?? job.id)}`}>
                Answer in the inbox
              </Link>
            </p>
          )}
        </section>
      )}
      <section aria-label="Runs">
        <h2>Runs</h2>
        <ul className="plain-list">
          {runs.data?.items.map((run) => (
            <li key={run.id} className="row">
              <RunMark run={run} quiet />
              <Link className="mono" to={linkTo.run(run.id)}>
                {shortId(run.id)}
              </Link>
              <span className="faint">
                <Took from={run.started_at} to={run.ended_at} /> by {plain(run.worker)}
              </span>
            </li>
          ))}
        </ul>
        {runs.data?.items.length === 0 && <p className="faint">No run has started yet.</p>}
      </section>
      {job.result != null && (
        <section aria-label="Result">
          <h2>Result</h2>
          <Value value={job.result} />
        </section>
      )}
      <section aria-label="History">
        <h2>History</h2>
        <div className="scroll tall" tabIndex={0} role="region" aria-label="Events">
          <table className="list" aria-label="Events, oldest first">
            <thead>
              <tr>
                {["Event", "About", "Time", "By"].map((name) => (
                  <th key={name} scope="col">
                    {name}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {events.data?.events.map((event) => (
                <tr key={event.position}>
                  <td className="mono">{event.name}</td>
                  <td>{event.subject && shortId(event.subject)}</td>
                  <td>
                    <When at={event.at} exact />
                  </td>
                  <td>{plain(event.actor)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      </section>
      <section aria-label="States">
        <h2>States</h2>
        <Diagram name="job" lit={job.state} way={way} />
      </section>
    </div>
  );
}
