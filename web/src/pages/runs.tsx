// All runs: every attempt, sorted, filtered and paged by the server.
import { useState } from "react";
import { useFresh, useRead } from "../api/hooks";
import type { ListedRun, Run } from "../api/schema";
import { Link, linkTo, useSearch } from "../router";
import { dollars, plain, reasonText, shortId } from "../text";
import { Bulk, type Verb } from "../ui/bulk";
import { Filters } from "../ui/choice";
import { Empty } from "../ui/notes";
import { type ColumnOf, chooseAll, More, Rows, usePages } from "../ui/rows";
import { RunMark } from "../ui/state";
import { useTable } from "../ui/tables";
import { TaskLink } from "../ui/task_link";
import { Title } from "../ui/title";
import { Took, When } from "../ui/when";

const COLUMNS: ColumnOf<ListedRun>[] = [
  {
    name: "Run",
    sort: "id",
    cell: (run) => (
      <Link className="mono" to={linkTo.run(run.id)}>
        {shortId(run.id)}
      </Link>
    ),
  },
  { name: "Task", cell: (run) => <TaskLink id={run.task_id} title={run.title} /> },
  { name: "State", cell: (run) => <RunMark run={run} quiet /> },
  {
    name: "Job",
    cell: (run) => (
      <Link className="mono" to={linkTo.job(run.job_id)}>
        {shortId(run.job_id)}
      </Link>
    ),
  },
  { name: "Step", spare: true, cell: (run) => run.step && plain(run.step) },
  { name: "Worker", spare: true, cell: (run) => plain(run.worker) },
  { name: "Attempt", end: true, spare: true, cell: (run) => run.attempt },
  {
    name: "Started",
    sort: "started_at",
    cell: (run) => run.started_at && <When at={run.started_at} />,
  },
  {
    name: "Ended",
    sort: "ended_at",
    spare: true,
    cell: (run) => run.ended_at && <When at={run.ended_at} />,
  },
  { name: "Duration", end: true, cell: (run) => <Took from={run.started_at} to={run.ended_at} /> },
  { name: "Exit", end: true, spare: true, cell: (run) => run.exit_code },
  { name: "Cost", end: true, cell: (run) => (run.cost ? dollars(run.cost) : "") },
  { name: "Outcome", spare: true, cell: (run) => run.outcome && reasonText(run.outcome) },
  { name: "Reason", wide: true, cell: (run) => run.reason && reasonText(run.reason) },
];

/** Runs are acted on through their jobs. */
const of = (run: Run) => run.job_id;
const VERBS: Verb<Run>[] = [
  {
    name: "Retry",
    fits: (run) => ["failed", "timeout"].includes(run.state),
    operation: "retry_many",
    of,
  },
  {
    name: "Cancel",
    danger: true,
    fits: (run) => ["queued", "running"].includes(run.state),
    operation: "cancel_many",
    of,
  },
];

export default function Runs() {
  const [search, change] = useSearch();
  const table = useTable("run");
  const workers = useRead("list_workers", {});
  const sort = search.get("sort") ?? "-queued_at";
  const filter = {
    state: search.get("state") ?? undefined,
    worker: search.get("worker") ?? undefined,
    job_id: search.get("job") ?? undefined,
    search: search.get("search") ?? undefined,
  };
  const some = Object.values(filter).some(Boolean);
  const pages = usePages("list_runs", { ...filter, sort: sort as "-queued_at" });
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  useFresh(
    ["list_runs"],
    (event) => event.name.startsWith("run_") || event.name === "job_running",
    2_000,
  );
  return (
    <>
      <div className="title-row">
        <Title>Runs</Title>
        <Filters
          fields={[
            { key: "search", name: "title, id or error" },
            { key: "state", choices: table.states },
            { key: "worker", choices: workers.data?.items.map((each) => each.name) },
            { key: "job", name: "job id" },
          ]}
        />
      </div>
      <Bulk
        noun="run"
        items={pages.items.filter((run) => chosen.has(run.id))}
        verbs={VERBS}
        chooseAll={chooseAll(pages, setChosen)}
        onDone={() => setChosen(new Set())}
      />
      {pages.items.length === 0 && pages.data ? (
        <Empty title={some ? "No run matches the filters." : "There are no runs yet."}>
          <p>
            A run is recorded when a worker starts a job.{" "}
            {some ? "Remove a filter, or open" : "See"} <Link to="/workers">the workers</Link>.
          </p>
        </Empty>
      ) : (
        <Rows
          label="Runs"
          items={pages.items}
          columns={COLUMNS}
          keyOf={(run) => run.id}
          sort={sort}
          onSort={(next) => change({ sort: next })}
          chosen={chosen}
          onChoose={setChosen}
        />
      )}
      <More pages={pages} what="the runs" count={pages.items.length} />
    </>
  );
}
