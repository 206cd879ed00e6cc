// The schedules: their next and last times, with buttons to pause and trigger them.
import type { Problem } from "../api/call";
import { useFresh, useRead, useVerb } from "../api/hooks";
import type { Schedule } from "../api/schema";
import { go, Link, linkTo } from "../router";
import { plain, words } from "../text";
import { coarse } from "../time";
import { Command, Empty, Loading, Trouble } from "../ui/notes";
import { Mark } from "../ui/state";
import { say } from "../ui/toast";
import { When } from "../ui/when";

const COMING = 5;

export default function Schedules() {
  const schedules = useRead("list_schedules", {}, { everyMs: 10_000 });
  useFresh(["list_schedules"], (event) => event.actor === "schedule", 1_500);
  return (
    <>
      <h1>Schedules</h1>
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
          <table className="list" aria-label="Schedules">
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
                <Line key={each.name} schedule={each} />
              ))}
            </tbody>
          </table>
        </div>
      )}
      {schedules.data && <Coming schedules={schedules.data.items.filter((each) => !each.paused)} />}
    </>
  );
}

/** The next times of each, so that a mistake in a cron expression is visible before a task is submitted. */
function Coming({ schedules }: { schedules: Schedule[] }) {
  if (!schedules.length) return null;
  return (
    <section aria-labelledby="coming">
      <h2 id="coming">Next times</h2>
      <div className="tiles">
        {schedules.map((each) => (
          <Times key={each.name} name={each.name} />
        ))}
      </div>
    </section>
  );
}

function Times({ name }: { name: string }) {
  const next = useRead("next_times", { name, count: COMING });
  return (
    <article className="tile" aria-label={plain(name)}>
      <h3 className="cut">{plain(name)}</h3>
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
    </article>
  );
}

function Line({ schedule }: { schedule: Schedule }) {
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
      <td>
        {schedule.cron ? (
          <>
            <code className="mono">{plain(schedule.cron)}</code>{" "}
            <span className="faint">{plain(schedule.timezone)}</span>
          </>
        ) : (
          `every ${coarse((schedule.every_s ?? 0) * 1_000)}`
        )}
      </td>
      <td>{plain(schedule.intent)}</td>
      <td>{schedule.next_at && !schedule.paused ? <When at={schedule.next_at} /> : "none"}</td>
      <td>
        {schedule.last_at ? <When at={schedule.last_at} /> : "never"}{" "}
        {schedule.last_task && <Link to={linkTo.task(schedule.last_task)}>its task</Link>}
      </td>
      <td>{words(schedule.overlap)}</td>
      <td>{words(schedule.missed)}</td>
      <td>
        <span className="row end">
          <button
            type="button"
            className="button small"
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
        </span>
      </td>
    </tr>
  );
}
