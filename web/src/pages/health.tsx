// The health page: the verdict with its reasons, and charts of the last days.
import { lazy, Suspense } from "react";
import { useFresh, useRead } from "../api/hooks";
import type { Health } from "../api/schema";
import { Link, useSearch } from "../router";
import { plain, words } from "../text";
import { duration } from "../time";
import { Loading, Trouble } from "../ui/notes";
import { Mark, Shape } from "../ui/state";
import { useTables } from "../ui/tables";
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
      <h1>Health</h1>
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

function Verdict({ health }: { health: Health }) {
  const look = LOOKS[health.verdict] ?? "ended";
  const shape = useTables().appearances[look]!.shape;
  return (
    <section className="verdict-box" data-look={look} aria-label="Verdict">
      <p className="verdict-word">
        <Shape name={shape} />
        {health.verdict}
      </p>
      <ul className="reasons">
        {health.reasons.map((reason) => (
          <li key={reason.figure}>
            <Mark look={LOOKS[reason.verdict] ?? "ended"}>{reason.verdict}</Mark>
            <span>{plain(reason.text)}</span>
          </li>
        ))}
      </ul>
      <dl className="facts">
        {health.shown.map((figure) => (
          <div key={figure.figure}>
            <dt>{words(figure.figure.replace(/_(ms|s)$/, ""))}</dt>
            <dd>
              {value(figure.figure, figure.value)}{" "}
              <span className="faint">
                {figure.within ? "within" : "over"} the limit of{" "}
                {value(figure.figure, figure.limit)}
              </span>
            </dd>
          </div>
        ))}
        <div>
          <dt>questions and reviews</dt>
          <dd>
            <Link to="/">{health.waiting_for_people.toLocaleString("en")} waiting</Link>
          </dd>
        </div>
      </dl>
    </section>
  );
}

function value(figure: string, given: number | null): string {
  if (given === null) return "none yet";
  if (figure.endsWith("_ms")) return duration(given);
  if (figure.includes("duration") || figure.endsWith("_s")) return duration(given * 1_000);
  return given.toLocaleString("en");
}
