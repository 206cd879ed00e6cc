// The schedules: their next times and past tasks; create, edit, delete, pause and trigger them.
import { useState } from "react";
import type { Problem } from "../api/call";
import { useFresh, useRead, useVerb } from "../api/hooks";
import type { Schedule } from "../api/schema";
import { go, Link, linkTo } from "../router";
import { plain, words } from "../text";
import { coarse } from "../time";
import { Dialog } from "../ui/dialog";
import { Command, Empty, Loading, Trouble } from "../ui/notes";
import { Mark, StateMark } from "../ui/state";
import { Title } from "../ui/title";
import { say } from "../ui/toast";
import { When } from "../ui/when";
import { ScheduleForm } from "./schedule_form";

const COMING = 5;
const PAST = 5;

export default function Schedules() {
  const schedules = useRead("list_schedules", {}, { everyMs: 10_000 });
  useFresh(["list_schedules"], (event) => event.actor === "schedule", 1_500);
  const [editing, setEditing] = useState<Schedule | "new" | null>(null);
  return (
    <>
      <div className="title-row">
        <Title>Schedules</Title>
        <button type="button" className="button" onClick={() => setEditing("new")}>
          New schedule
        </button>
      </div>
      {editing && (
        <ScheduleForm
          key={editing === "new" ? "" : editing.name}
          schedule={editing === "new" ? null : editing}
          taken={schedules.data?.items.map((each) => each.name) ?? []}
          onClose={() => setEditing(null)}
        />
      )}
      {schedules.error && <Trouble problem={schedules.error} again={schedules.refetch} />}
      {!schedules.data && !schedules.error && <Loading what="the schedules" />}
      {schedules.data?.items.length === 0 && (
        <Empty title="There are no schedules.">
          <p>Run a task type every night, for example:</p>
          <Command>detent schedules put nightly runQA --cron "0 3 * * *"</Command>
        </Empty>
      )}
      {schedules.data && schedules.data.items.length > 0 && (
        <div className="scroll">
          <table className="list stacking no-choice" aria-label="Schedules">
            <thead>
              <tr>
                {["Name", "When", "Intent", "Next", "Last", "Overlap", "Missed", ""].map((name) => (
                  <th key={name} scope="col">
                    {name || <span className="unseen">Actions</span>}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {schedules.data.items.map((each) => (
                <Line key={each.name} schedule={each} onEdit={() => setEditing(each)} />
              ))}
            </tbody>
          </table>
        </div>
      )}
      {schedules.data && <Coming schedules={schedules.data.items} />}
    </>
  );
}

/** The next times of each, so that a mistake in a cron expression is visible before a task is submitted. */
function Coming({ schedules }: { schedules: Schedule[] }) {
  if (!schedules.length) return null;
  return (
    <section aria-labelledby="coming">
      <h2 id="coming">Next times and past tasks</h2>
      <div className="tiles">
        {schedules.map((each) => (
          <Times key={each.name} schedule={each} />
        ))}
      </div>
    </section>
  );
}

function Times({ schedule: { name, paused } }: { schedule: Schedule }) {
  const next = useRead("next_times", { name, count: COMING });
  return (
    <article className="tile" aria-label={plain(name)}>
      <h3>{plain(name)}</h3>
      {paused && <p className="faint">It is paused. Without the pause, it would fire:</p>}
      <ol className="plain-list">
        {next.data?.times.map((at) => (
          <li key={at} className="row spread">
            <When at={at} exact />
            <span className="faint">
              <When at={at} />
            </span>
          </li>
        ))}
      </ol>
      <Past name={name} />
    </article>
  );
}

/** The newest tasks that the schedule has submitted; their title is its name. */
function Past({ name }: { name: string }) {
  const found = useRead("list_tasks", { source: "schedule", search: name, limit: 50 });
  useFresh(["list_tasks"], (event) => event.name.startsWith("task_"), 2_000);
  const tasks = found.data?.items.filter((task) => task.title === name).slice(0, PAST) ?? [];
  return (
    <>
      <h4>Past tasks</h4>
      {!tasks.length && <p className="faint">It has not fired yet.</p>}
      <ol className="plain-list" aria-label={`Past tasks of ${plain(name)}`}>
        {tasks.map((task) => (
          <li key={task.id} className="row spread">
            <Link to={linkTo.task(task.id)}>
              <When at={task.created_at} exact />
            </Link>
            <StateMark table={task.lifecycle} state={task.state} quiet />
          </li>
        ))}
      </ol>
    </>
  );
}

function Line({ schedule, onEdit }: { schedule: Schedule; onEdit: () => void }) {
  const remove = useVerb("delete_schedule");
  const [removing, setRemoving] = useState(false);
  const pause = useVerb("pause_schedule");
  const resume = useVerb("resume_schedule");
  const trigger = useVerb("trigger_schedule");
  const onError = (problem: Problem) => say(plain(problem.message), { bad: true });
  const name = { name: schedule.name };
  return (
    <tr data-id={schedule.name}>
      <td>
        <strong>{plain(schedule.name)}</strong>
        {schedule.paused && <Mark look="attention">paused</Mark>}
      </td>
      <td data-name="When">
        {schedule.cron ? (
          <span>
            <code className="mono">{plain(schedule.cron)}</code>{" "}
            <span className="faint">{plain(schedule.timezone)}</span>
          </span>
        ) : (
          `every ${coarse((schedule.every_s ?? 0) * 1_000)}`
        )}
      </td>
      <td data-name="Intent">{plain(schedule.intent)}</td>
      <td data-name="Next">
        {schedule.next_at && !schedule.paused ? <When at={schedule.next_at} /> : "none"}
      </td>
      <td data-name="Last">
        {schedule.last_at ? <When at={schedule.last_at} /> : "never"}{" "}
        {schedule.last_task && <Link to={linkTo.task(schedule.last_task)}>its task</Link>}
      </td>
      <td data-name="Overlap">{words(schedule.overlap)}</td>
      <td data-name="Missed">{words(schedule.missed)}</td>
      <td className="acts">
        <span className="row wrap end">
          <button
            type="button"
            className="button small"
            disabled={trigger.isPending}
            onClick={() =>
              trigger.mutate(name, {
                onSuccess: (made) => {
                  say(`Triggered: ${plain(schedule.name)}`);
                  go(linkTo.task(made.task_id));
                },
                onError,
              })
            }
          >
            Trigger now
          </button>
          <button
            type="button"
            className="button small"
            onClick={() => (schedule.paused ? resume : pause).mutate(name, { onError })}
          >
            {schedule.paused ? "Resume" : "Pause"}
          </button>
          <button type="button" className="button small" onClick={onEdit}>
            Edit
          </button>
          <button type="button" className="button small danger" onClick={() => setRemoving(true)}>
            Delete
          </button>
        </span>
        {removing && (
          <Dialog
            title={`Delete ${plain(schedule.name)}?`}
            action="Delete the schedule"
            danger
            busy={remove.isPending}
            onClose={() => setRemoving(false)}
            onDo={() => remove.mutate(name, { onError, onSettled: () => setRemoving(false) })}
          >
            <p>It submits no further tasks. The tasks that it has submitted are kept.</p>
          </Dialog>
        )}
      </td>
    </tr>
  );
}
