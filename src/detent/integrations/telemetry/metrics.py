"""Metrics for Prometheus: counters from the event feed, and the gauges of `store_gauges`.

Every process that serves `/metrics` counts the events since its own start. It reads them from the
first scrape on, so metrics cost nothing where nothing scrapes them. The number of series is
bounded: names after the maximum are counted as `other`. Reads the store.
"""

import threading
from collections import Counter as Counts
from collections.abc import Callable, Iterable, Mapping, Sequence

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Histogram,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, Metric

from detent import feed
from detent.integrations.telemetry.state_changes import Transition, TransitionTracker, Usage
from detent.integrations.telemetry.store_gauges import StoreCollector
from detent.kernel.lifecycles import LIFECYCLES
from detent.operations.context import Core
from detent.store.types import LoggedEvent

MEDIA_TYPE = "text/plain; version=1.0.0; charset=utf-8"
#: The maximum number of values of one label; all further ones are counted as `other`.
MAX_NAMES = 200
OTHER = "other"
#: The model of a run whose agent has not named it.
UNKNOWN = "unknown"
BUCKETS_S = (0.1, 0.5, 1, 5, 10, 30, 60, 120, 300, 600, 1_800, 3_600, 14_400, 86_400)
#: The maximum number of events before the first scrape that are counted.
MAX_BEFORE = 100_000

#: Reasons of requeues that are not retries: the retry was counted before, or nothing had failed.
NO_RETRY = ("due", "released", "handed_back")
RUN_OVER = LIFECYCLES["run"].terminal


class LabelValues:
    """Bounds the number of values of a label, or of several labels together.

    Further values become `other`.
    """

    def __init__(self, most: int = MAX_NAMES) -> None:
        self._most = most
        self._known: set[tuple[str, ...]] = set()

    def __call__(self, value: str) -> str:
        return self.together(value)[0]

    def together(self, *values: str) -> tuple[str, ...]:
        """The values of labels of one metric; all of them are `other` above the maximum."""
        if values not in self._known:
            if len(self._known) >= self._most:
                return (OTHER,) * len(values)
            self._known.add(values)
        return values


#: By level, the help text of its duration.
DURATIONS = {
    "task": "Time from the submission of a task to its end",
    "job": "Time from the creation of a job to its end",
    "run": "Time from the start of a run to its end",
}


class EventMetrics:
    """The counters and histograms that are updated from the feed."""

    def __init__(self, registry: CollectorRegistry) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # they double every series

        def counter(name: str, meaning: str, *labels: str) -> Counter:
            return Counter(name, meaning, labels, registry=registry)

        def histogram(name: str, meaning: str, *labels: str) -> Histogram:
            return Histogram(name, meaning, labels, registry=registry, buckets=BUCKETS_S)

        self.transitions = {
            level: counter(
                f"{level}_state_transitions_total",
                f"State transitions of {level}s",
                "step_id" if level == "step" else "intent",
                "from_state",
                "to_state",
            )
            for level in ("step", "run", "job", "task")
        }
        self.retries = {
            level: counter(f"{level}_retries_total", f"Retries of {level}s", "intent")
            for level in ("run", "job", "task")
        }
        self.step_retries = counter(
            "step_retries_total", "Retries of steps", "step_id", "capability"
        )
        self.durations = {
            level: histogram(f"{level}_duration_seconds", meaning, "intent", "status")
            for level, meaning in DURATIONS.items()
        }
        self.step_durations = histogram(
            "step_duration_seconds", "Duration of a step", "step_id", "capability", "status"
        )
        self.claims = counter("detent_claims_total", "Jobs that workers claimed", "intent")
        self.reclaims = counter(
            "detent_reclaims_total", "Jobs reclaimed from lost workers", "intent"
        )
        self.dismissed = counter(
            "detent_subtasks_dismissed_total",
            "Failed subtasks that people dismissed",
            "intent",
        )
        self.limits = counter(
            "detent_limit_events_total",
            "Pauses and limits that were set or ended",
            "event",
            "kind",
        )
        self.cost = counter("detent_cost_usd_total", "Cost of runs in dollars", "intent")


class ModelMetrics:
    """The counters of language models."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.runs = Counter(
            "detent_model_runs_total",
            "Ended runs that used a language model",
            ("model", "project", "status"),
            registry=registry,
        )
        self.cost = Counter(
            "detent_model_cost_usd_total",
            "Cost of runs in dollars",
            ("model", "project"),
            registry=registry,
        )
        self.tokens = Counter(
            "detent_model_tokens_total",
            "Tokens that runs have used; type is input or output",
            ("model", "project", "type"),
            registry=registry,
        )


class Metrics:
    """Counts events, on its own thread from the first scrape on. `page` is the response."""

    media_type = MEDIA_TYPE

    def __init__(self, core: Core, duties: Mapping[str, int] | None = None) -> None:
        self.core = core
        self.registry = CollectorRegistry()
        #: Requests by method, route and status; the gateway counts them here.
        self.requests: Counts[tuple[str, str, str]] = Counts()
        self._counters = EventMetrics(self.registry)
        self._steps, self._capabilities, self._intents = LabelValues(), LabelValues(), LabelValues()
        self._models, self._model_labels = ModelMetrics(self.registry), LabelValues()
        self._tracker = TransitionTracker(core.store)
        self.registry.register(StoreCollector(core, self._counted_here))
        self._duties = {} if duties is None else duties
        self._follower: feed.Follower | None = None
        #: The position from which events are counted; None before the start.
        self._after: int | None = None
        self._first_scrape = threading.Lock()

    def start(self) -> None:
        """Count events from here on; the first page begins to read them."""
        self._after = feed.head(self.core.store)

    def stop(self) -> None:
        with self._first_scrape:
            self._after = None
            follower, self._follower = self._follower, None
        if follower is not None:
            follower.stop()
            follower.join()

    def page(self) -> bytes:
        self._follow()
        return generate_latest(self.registry)

    def _follow(self) -> None:
        """At the first scrape, count what has happened since the start, then follow the log."""
        with self._first_scrape:
            if self._after is None or self._follower is not None:
                return
            head = feed.head(self.core.store)
            tail = feed.Tail(self.core.store, self.observe, max(self._after, head - MAX_BEFORE))
            while tail.cursor < head:
                tail.step()
                self._after = tail.cursor
            self._follower = feed.Follower(self.core.store, "metrics", self.observe)
            self._follower.start(tail.cursor)

    def observe(self, batch: Sequence[LoggedEvent]) -> None:
        """Update the metrics from a batch of events; from none of them if there is an error."""
        for transition in self._tracker.transitions(batch):
            if transition.level in OBSERVED:
                OBSERVED[transition.level](self, transition)

    def _counted_here(self) -> Iterable[Metric]:
        """The counters of this process."""
        requests = CounterMetricFamily(
            "detent_http_requests",
            "Requests to this gateway",
            labels=["method", "path", "status"],
        )
        for key, count in sorted(self.requests.copy().items()):
            requests.add_metric(key, count)
        passes = CounterMetricFamily(
            "detent_keeper_passes", "Passes of the keeper in this process", labels=["duty"]
        )
        for duty, count in sorted(dict(self._duties).items()):
            passes.add_metric([duty], count)
        refused = CounterMetricFamily(
            "detent_stale_writes_refused",
            "Reports that were refused because the worker had lost its lease",
            value=self.core.engine.refused["stale_fence"],
        )
        return [requests, passes, refused]

    # -- one event -------------------------------------------------------------------------

    def _intent(self, transition: Transition) -> str:
        return self._intents(transition.stream.intent)

    def _step(self, transition: Transition) -> None:
        if transition.target is None:
            return
        name = transition.logged.subject or ""
        capability = self._capabilities(transition.stream.capabilities.get(name, ""))
        step = self._steps(name)
        self._counters.transitions["step"].labels(step, transition.source, transition.target).inc()
        if transition.logged.name == "step_retrying":
            self._counters.step_retries.labels(step, capability).inc()
        if transition.source == "running":
            ended = self._counters.step_durations.labels(step, capability, transition.target)
            ended.observe(transition.seconds)

    def _run(self, transition: Transition) -> None:
        intent, fields = self._intent(transition), transition.fields
        if transition.logged.name == "run_charged" and transition.usage is not None:
            self._charge(transition, intent, transition.usage)
        if transition.logged.name == "run_queued" and fields.attempt > 1:
            self._counters.retries["run"].labels(intent).inc()
        if transition.target is None:
            return
        self._counters.transitions["run"].labels(intent, transition.source, transition.target).inc()
        if transition.target in RUN_OVER:
            outcome = "suspended" if fields.outcome == "suspended" else transition.target
            self._counters.durations["run"].labels(intent, outcome).observe(transition.seconds)
            if transition.usage is not None:
                used = self._model(transition, transition.usage)
                self._models.runs.labels(*used, outcome).inc()

    def _charge(self, transition: Transition, intent: str, added: Usage) -> None:
        used = self._model(transition, added)
        self._counters.cost.labels(intent).inc(added.cost / 1_000_000)
        self._models.cost.labels(*used).inc(added.cost / 1_000_000)
        self._models.tokens.labels(*used, "input").inc(added.tokens_in)
        self._models.tokens.labels(*used, "output").inc(added.tokens_out)

    def _model(self, transition: Transition, usage: Usage) -> tuple[str, ...]:
        return self._model_labels.together(usage.model or UNKNOWN, transition.logged.project)

    def _job(self, transition: Transition) -> None:
        intent, event, fields = self._intent(transition), transition.logged.name, transition.fields
        if event == "job_running":
            self._counters.claims.labels(intent).inc()
        if fields.reason == "lost" or fields.error_class == "lost":
            self._counters.reclaims.labels(intent).inc()
        if event == "job_retrying" or (event == "job_requeued" and fields.reason not in NO_RETRY):
            self._counters.retries["job"].labels(intent).inc()
        self._count_transition(transition, intent)

    def _task(self, transition: Transition) -> None:
        intent = self._intent(transition)
        # Every task above the subtask has this event; it is counted once, for the root task.
        if transition.logged.name == "subtask_dismissed" and transition.stream.parent_id is None:
            self._counters.dismissed.labels(intent).inc()
        again = transition.logged.name == "task_unblocked" and transition.fields.reason == "retry"
        if again or transition.logged.name == "task_retried":
            self._counters.retries["task"].labels(intent).inc()
        self._count_transition(transition, intent)

    def _limit(self, transition: Transition) -> None:
        kind = (transition.logged.subject or "").partition(":")[0]
        self._counters.limits.labels(transition.logged.name, kind).inc()

    def _count_transition(self, transition: Transition, intent: str) -> None:
        """Count it. The duration ends with the work, or when a person must decide about it."""
        if transition.target is None:
            return
        self._counters.transitions[transition.level].labels(
            intent, transition.source, transition.target
        ).inc()
        if transition.ending is not None or transition.under_review:
            seconds = (transition.logged.at - transition.stream.begun_at) / 1_000_000
            self._counters.durations[transition.level].labels(intent, transition.target).observe(
                seconds
            )


OBSERVED: Mapping[str, Callable[[Metrics, Transition], None]] = {
    "step": Metrics._step,
    "run": Metrics._run,
    "job": Metrics._job,
    "task": Metrics._task,
    "limit": Metrics._limit,
}
