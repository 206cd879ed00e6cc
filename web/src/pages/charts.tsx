// Charts of throughput, success rate, durations, queue times and cost, with their thresholds.
import { useRead } from "../api/hooks";
import type { Series, Span } from "../api/schema";
import { dollars, plural } from "../text";
import { duration } from "../time";
import { Chart, type Mark } from "../ui/chart";
import { Loading, Trouble } from "../ui/notes";

const seconds = (value: number) => duration(value * 1_000);
const whole = (value: number) =>
  value < 10 ? value.toFixed(value % 1 ? 1 : 0) : Math.round(value).toLocaleString("en");
const share = (value: number) => `${Math.round(value * 100)} %`;

export default function Charts({ hours }: { hours: number }) {
  const series = useRead("stats_series", { hours });
  const stats = useRead("stats", { hours });
  if (series.error) return <Trouble problem={series.error} again={series.refetch} />;
  if (!series.data) return <Loading what="the charts" />;
  const { spans, span_s, partial } = series.data;
  const times = spans.map((span) => label(span.start, span_s));
  const of = (read: (span: Span) => number | null) => spans.map(read);
  return (
    <>
      {stats.data && (
        <p className="faint">
          {plural(stats.data.ended, "run")} ended; {stats.data.queued.toLocaleString("en")} in the
          queue
          {stats.data.oldest_queued_s !== null &&
            `, the oldest for ${seconds(stats.data.oldest_queued_s)}`}
          .{partial && " Only the latest runs of the window are included."}
        </p>
      )}
      <div className="charts">
        <Chart
          title={`Runs per ${span_s === 3_600 ? "hour" : seconds(span_s)}`}
          kind="bars"
          times={times}
          say={whole}
          lines={[
            { name: "succeeded", look: "good", values: of((span) => span.succeeded) },
            { name: "failed", look: "bad", values: of((span) => span.failed + span.timed_out) },
            { name: "cancelled", look: "ended", values: of((span) => span.cancelled) },
          ]}
        />
        <Chart
          title="Success rate"
          kind="lines"
          times={times}
          say={share}
          most={1}
          marks={threshold(series.data, "success_rate", share)}
          lines={[{ name: "success", look: "good", values: of((span) => span.success_rate) }]}
        />
        <Chart
          title="Time in the queue"
          kind="lines"
          times={times}
          say={seconds}
          marks={threshold(series.data, "queue_delay_s", seconds)}
          lines={[
            { name: "p50", look: "active", values: of((span) => span.queue_p50_s) },
            { name: "p95", look: "attention", values: of((span) => span.queue_p95_s) },
          ]}
        />
        <Chart
          title="Duration of runs"
          kind="lines"
          times={times}
          say={seconds}
          marks={threshold(series.data, "p95_duration_s", seconds)}
          lines={[
            { name: "p50", look: "active", values: of((span) => span.p50_s) },
            { name: "p95", look: "attention", values: of((span) => span.p95_s) },
          ]}
        />
        <Costs hours={hours} />
      </div>
    </>
  );
}

function Costs({ hours }: { hours: number }) {
  const stats = useRead("stats", { hours: Math.max(hours, 24 * 7) });
  const days = stats.data?.cost_per_day ?? [];
  return (
    <Chart
      title="Cost per day"
      kind="bars"
      times={days.length ? days.map((day) => day.day.slice(5)) : ["today"]}
      say={dollars}
      lines={[{ name: "spent", look: "active", values: days.map((day) => day.cost) }]}
    />
  );
}

function threshold(series: Series, figure: string, say: (value: number) => string): Mark[] {
  const found = series.thresholds.find((each) => each.figure === figure);
  if (!found) return [];
  // A rate is good from its limit up, everything else up to its limit.
  const [good, poor] = figure.endsWith("_rate") ? ["from", "below"] : ["up to", "above"];
  const ok = { value: found.ok, name: `ok ${good} ${say(found.ok)}`, look: "attention" };
  const marks: Mark[] = [ok];
  if (found.degraded !== null) {
    marks.push({
      value: found.degraded,
      name: `unhealthy ${poor} ${say(found.degraded)}`,
      look: "bad",
    });
  }
  return marks;
}

function label(start: string, span_s: number): string {
  const time = new Date(start);
  const day = time.toLocaleDateString(undefined, { month: "short", day: "numeric" });
  if (span_s >= 86_400) return day;
  const clock = time.toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit" });
  return span_s > 3_600 ? `${day} ${clock}` : clock;
}
