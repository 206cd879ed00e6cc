// The health page: the verdict with its reasons, and charts of the last days.
import { lazy, Suspense } from "react";
import { useFresh, useRead } from "../api/hooks";
import type { Health, HealthGroup } from "../api/schema";
import { Link, useSearch } from "../router";
import { plain, words } from "../text";
import { Loading, Trouble } from "../ui/notes";
import { Mark, Shape } from "../ui/state";
import { useTables } from "../ui/tables";
import { Title } from "../ui/title";
import { TaskCounts } from "./task_counts";

const Charts = lazy(() => import("./charts"));

const LOOKS: Record<string, string> = { ok: "good", degraded: "attention", unhealthy: "bad" };
const WINDOWS: [number, string][] = [
  [6, "6 h"],
  [24, "24 h"],
  [24 * 7, "7 days"],
  [24 * 30, "30 days"],
];

export default function HealthPage() {
  const health = useRead("health", {}, { everyMs: 10_000 });
  useFresh(["health", "stats", "stats_series"], (event) => /^(task|run)_/.test(event.name), 3_000);
  const [search, change] = useSearch();
  const hours = Number(search.get("hours")) || 24;
  return (
    <>
      <Title>Health</Title>
      {health.error && <Trouble problem={health.error} again={health.refetch} />}
      {health.data ? <Verdict health={health.data} /> : <Loading what="the verdict" />}
      <h2>Tasks by lifecycle</h2>
      <TaskCounts />
      <div className="title-row">
        <h2>Over time</h2>
        <div className="segments" role="group" aria-label="Window">
          {WINDOWS.map(([value, name]) => (
            <button
              key={value}
              type="button"
              aria-pressed={value === hours}
              onClick={() => change({ hours: String(value) })}
            >
              {name}
            </button>
          ))}
        </div>
      </div>
      <Suspense fallback={<Loading what="the charts" />}>
        <Charts hours={hours} />
      </Suspense>
    </>
  );
}

const WORST_FIRST = ["unhealthy", "degraded", "ok"];

/** The heading names both parts; the verdict of `/api/health` follows fewer figures. */
function Verdict({ health }: { health: Health }) {
  const parts = [health.system.verdict, health.work.verdict];
  const worst = WORST_FIRST.find((each) => parts.includes(each)) ?? health.verdict;
  const look = LOOKS[worst] ?? "ended";
  const shape = useTables().appearances[look]!.shape;
  return (
    <section className="verdict-box" data-look={look} aria-label="Verdict">
      <p className="verdict-word">
        <Shape name={shape} />
        System {health.system.verdict}, your work {health.work.verdict}
      </p>
      <p className="faint">
        Each is the verdict of its worst figure. The worst of success rate, queue and blocked tasks,
        which <code>detent health</code> reports, is {health.verdict}.
      </p>
      <div className="health-groups">
        <Group name="System" group={health.system} />
        <Group name="Your work" group={health.work} />
      </div>
    </section>
  );
}

/** Where a figure can be looked into. */
const PAGES: Record<string, string> = {
  waiting_for_people: "/",
  failures: "/runs?state=failed",
  blocked: "/board",
  workers: "/workers",
  queue: "/jobs?state=queued",
};

function Group({ name, group }: { name: string; group: HealthGroup }) {
  return (
    <section aria-label={name}>
      <h2>
        {name} <Mark look={LOOKS[group.verdict] ?? "ended"}>{group.verdict}</Mark>
      </h2>
      <dl className="health-figures">
        {group.reasons.map(({ figure, verdict, text }) => (
          <div key={figure}>
            <dt>
              {PAGES[figure] ? <Link to={PAGES[figure]}>{words(figure)}</Link> : words(figure)}
            </dt>
            <dd>
              <Mark look={LOOKS[verdict] ?? "ended"} quiet>
                {verdict}
              </Mark>{" "}
              {plain(text)}
            </dd>
          </div>
        ))}
      </dl>
    </section>
  );
}
