// All jobs: sorted, filtered and paged by the server; many can be retried or cancelled together.
import { useState } from "react";
import { useFresh, useRead } from "../api/hooks";
import type { Job, ListedJob } from "../api/schema";
import { Link, linkTo, useSearch } from "../router";
import { plain, shortId } from "../text";
import { Bulk, type Verb } from "../ui/bulk";
import { Filters } from "../ui/choice";
import { Empty } from "../ui/notes";
import { type ColumnOf, chooseAll, More, Rows, usePages } from "../ui/rows";
import { StateMark } from "../ui/state";
import { useTable } from "../ui/tables";
import { TaskLink } from "../ui/task_link";
import { Title } from "../ui/title";
import { When } from "../ui/when";

const COLUMNS: ColumnOf<ListedJob>[] = [
  {
    name: "Job",
    sort: "id",
    cell: (job) => (
      <Link className="mono" to={linkTo.job(job.id)}>
        {shortId(job.id)}
      </Link>
    ),
  },
  { name: "Task", cell: (job) => <TaskLink id={job.task_id} title={job.title} /> },
  { name: "State", cell: (job) => <StateMark table="job" state={job.state} quiet /> },
  { name: "Intent", cell: (job) => plain(job.intent) },
  { name: "Priority", spare: true, cell: (job) => job.priority },
  { name: "Project", cell: (job) => plain(job.project) },
  { name: "Attempt", end: true, spare: true, cell: (job) => job.attempt },
  { name: "Worker", spare: true, cell: (job) => job.worker && plain(job.worker) },
  { name: "Created", sort: "created_at", cell: (job) => <When at={job.created_at} /> },
  {
    name: "In state since",
    sort: "state_at",
    spare: true,
    cell: (job) => <When at={job.state_at} />,
  },
  { name: "Error", wide: true, cell: (job) => job.error && plain(job.error) },
];

export default function Jobs() {
  const [search, change] = useSearch();
  const table = useTable("job");
  const projects = useRead("list_projects", {});
  const intents = useRead("list_intents", {});
  const sort = search.get("sort") ?? "-created_at";
  const filter = {
    state: search.get("state") ?? undefined,
    project: search.get("project") ?? undefined,
    intent: search.get("intent") ?? undefined,
    task_id: search.get("task") ?? undefined,
    search: search.get("search") ?? undefined,
  };
  const pages = usePages("list_jobs", { ...filter, sort: sort as "-created_at" });
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  useFresh(["list_jobs"], (event) => event.name.startsWith("job_"), 2_000);
  const some = Object.values(filter).some(Boolean);
  return (
    <>
      <div className="title-row">
        <Title>Jobs</Title>
        <Filters
          fields={[
            { key: "search", name: "title, id or error" },
            { key: "state", choices: table.states },
            { key: "project", choices: projects.data?.items.map((each) => each.name) },
            { key: "intent", choices: intents.data?.items.map((each) => each.name) },
            { key: "task", name: "task id" },
          ]}
        />
      </div>
      <Bulk
        noun="job"
        items={pages.items.filter((job) => chosen.has(job.id))}
        verbs={verbs(table.terminal)}
        chooseAll={chooseAll(pages, setChosen)}
        onDone={() => setChosen(new Set())}
      />
      {pages.items.length === 0 && pages.data ? (
        <Empty title={some ? "No job matches the filters." : "There are no jobs yet."}>
          <p>{some ? "Remove a filter." : "A job is created when a task is queued."}</p>
          {!some && (
            <Link className="button primary" to="/new">
              New task
            </Link>
          )}
        </Empty>
      ) : (
        <Rows
          label="Jobs"
          items={pages.items}
          columns={COLUMNS}
          keyOf={(job) => job.id}
          sort={sort}
          onSort={(next) => change({ sort: next })}
          chosen={chosen}
          onChoose={setChosen}
        />
      )}
      <More pages={pages} what="the jobs" count={pages.items.length} />
    </>
  );
}

/** A job that belongs to a task is acted on through it, so that the two never disagree: the server
 * sees to that. */
function verbs(terminal: readonly string[]): Verb<Job>[] {
  const of = (job: Job) => job.id;
  return [
    { name: "Retry", fits: (job) => job.state === "failed", operation: "retry_many", of },
    {
      name: "Cancel",
      danger: true,
      fits: (job) => !terminal.includes(job.state),
      operation: "cancel_many",
      of,
    },
  ];
}
