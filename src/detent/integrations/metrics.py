"""Metrics for Prometheus: what happened, counted from the feed; how things stand, from counts.

Every process that serves `/metrics` follows the whole log from its own start. Numbers of series
are bounded: names that come after the bound are counted as `other`. Reads the store.
"""

import threading
import time
from collections import Counter as Counts
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Histogram,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from detent import feed
from detent.integrations.transitions import OVER, Move, Tracker
from detent.kernel.health import Figures, judge
from detent.kernel.lifecycles import LIFECYCLES
from detent.operations.context import Core
from detent.operations.installation import figures, status
from detent.operations.registry import OWNER
from detent.operations.thresholds import thresholds
from detent.store.types import LoggedEvent, Query

MEDIA_TYPE = "text/plain; version=1.0.0; charset=utf-8"
#: Different values that one label may have; all further ones together are `other`.
MAX_NAMES = 200
OTHER = "other"
BUCKETS_S = (0.1, 0.5, 1, 5, 10, 30, 60, 120, 300, 600, 1_800, 3_600, 14_400, 86_400)
#: Counts are taken at most this often, and cost at most this part of a second each second.
FRESH_S = 5.0
SHARE = 0.05

#: Requeues that are no new try: the delay of one that was counted is over, or nothing had failed.
NO_RETRY = ("due", "released", "handed_back")
#: A task's work has ended when it waits for review, too.
TASK_OVER = OVER["task"] | {"ready"}
RUN_OVER = LIFECYCLES["run"].terminal


class Names:
    """Lets a bounded number of different values through."""

    def __init__(self, most: int = MAX_NAMES) -> None:
        self._most = most
        self._known: set[str] = set()

    def __call__(self, value: str) -> str:
        if value not in self._known:
            if len(self._known) >= self._most:
                return OTHER
            self._known.add(value)
        return value


class Families:
    """What is counted from the feed, each family under the name that dashboards know."""

    def __init__(self, registry: CollectorRegistry) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # they double every series

        def counter(name: str, meaning: str, *labels: str) -> Counter:
            return Counter(name, meaning, labels, registry=registry)

        def histogram(name: str, meaning: str, *labels: str) -> Histogram:
            return Histogram(name, meaning, labels, registry=registry, buckets=BUCKETS_S)

        self.transitions = {
            level: counter(
                f"{level}_state_transitions_total",
                f"Moves of {level}s from state to state",
                "step_id" if level == "step" else "intent",
                "from_state",
                "to_state",
            )
            for level in ("step", "run", "job", "task")
        }
        self.retries = {
            level: counter(f"{level}_retries_total", f"Further tries of {level}s", "intent")
            for level in ("run", "job", "task")
        }
        self.step_retries = counter(
            "step_retries_total", "Further tries of steps", "step_id", "capability"
        )
        self.durations = {
            "task": histogram(
                "task_duration_seconds", "From submitting a task to its end", "intent", "status"
            ),
            "job": histogram(
                "job_duration_seconds", "From making a job to its end", "intent", "status"
            ),
            "run": histogram(
                "run_duration_seconds", "From the start of a run to its end", "intent", "status"
            ),
        }
        self.step_durations = histogram(
            "step_duration_seconds", "How long a step ran", "step_id", "capability", "status"
        )
        self.claims = counter("detent_claims_total", "Jobs that workers have claimed", "intent")
        self.reclaims = counter(
            "detent_reclaims_total", "Jobs taken back from a worker that was lost", "intent"
        )
        self.dismissed = counter(
            "detent_subtasks_dismissed_total",
            "Failed subtasks that people have dismissed",
            "intent",
        )
        self.cost = counter("detent_cost_usd_total", "Money that runs have spent", "intent")


class Metrics:
    """Follows the feed on a thread of its own. `page` is what `/metrics` answers."""

    media_type = MEDIA_TYPE

    def __init__(self, core: Core, duties: Mapping[str, int] | None = None) -> None:
        self.core = core
        self.registry = CollectorRegistry()
        #: Requests by method, route and status; the gateway counts them here.
        self.requests: Counts[tuple[str, str, str]] = Counts()
        self._families = Families(self.registry)
        self._steps, self._capabilities, self._intents = Names(), Names(), Names()
        self._tracker = Tracker(core.store)
        self.registry.register(Standing(core, self._counted_here))
        self._duties = {} if duties is None else duties
        self._follower = feed.Follower(core.store, "metrics", self.observe)

    def start(self) -> None:
        self._follower.start(feed.head(self.core.store))

    def stop(self) -> None:
        self._follower.stop()
        self._follower.join()

    def page(self) -> bytes:
        return generate_latest(self.registry)

    def observe(self, batch: Sequence[LoggedEvent]) -> None:
        """Count what a piece of the log says: all of it, or after a failure nothing."""
        for move in self._tracker.moves(batch):
            if move.level in OBSERVED:
                OBSERVED[move.level](self, move)

    def _counted_here(self) -> Iterable[Metric]:
        """What this process has counted itself."""
        requests = CounterMetricFamily(
            "detent_http_requests",
            "Requests that this gateway has answered",
            labels=["method", "path", "status"],
        )
        for key, count in sorted(self.requests.copy().items()):
            requests.add_metric(key, count)
        passes = CounterMetricFamily(
            "detent_keeper_passes", "Passes of this process's keeper", labels=["duty"]
        )
        for duty, count in sorted(dict(self._duties).items()):
            passes.add_metric([duty], count)
        refused = CounterMetricFamily(
            "detent_stale_writes_refused",
            "Reports of this process's workers that came after their lease was taken away",
            value=self.core.engine.refused["stale_fence"],
        )
        return [requests, passes, refused]

    # -- one event -------------------------------------------------------------------------

    def _intent(self, move: Move) -> str:
        return self._intents(move.stream.intent)

    def _step(self, move: Move) -> None:
        if move.target is None:
            return
        name = move.logged.subject or ""
        capability = self._capabilities(move.stream.capabilities.get(name, ""))
        step = self._steps(name)
        self._families.transitions["step"].labels(step, move.source, move.target).inc()
        if move.logged.name == "step_retrying":
            self._families.step_retries.labels(step, capability).inc()
        if move.source == "running":
            ended = self._families.step_durations.labels(step, capability, move.target)
            ended.observe(move.seconds)

    def _run(self, move: Move) -> None:
        intent, told = self._intent(move), move.told
        if move.logged.name == "run_charged":
            self._families.cost.labels(intent).inc(told.cost / 1_000_000)
        if move.logged.name == "run_queued" and told.attempt > 1:
            self._families.retries["run"].labels(intent).inc()
        if move.target is None:
            return
        self._families.transitions["run"].labels(intent, move.source, move.target).inc()
        if move.target in RUN_OVER:
            outcome = "suspended" if told.outcome == "suspended" else move.target
            self._families.durations["run"].labels(intent, outcome).observe(move.seconds)

    def _job(self, move: Move) -> None:
        intent, event, told = self._intent(move), move.logged.name, move.told
        if event == "job_running":
            self._families.claims.labels(intent).inc()
        if told.reason == "lost" or told.error_class == "lost":
            self._families.reclaims.labels(intent).inc()
        if event == "job_retrying" or (event == "job_requeued" and told.reason not in NO_RETRY):
            self._families.retries["job"].labels(intent).inc()
        self._moved(move, intent, OVER["job"])

    def _task(self, move: Move) -> None:
        intent = self._intent(move)
        # An event of every task above the subtask: counted once, at the top.
        if move.logged.name == "subtask_dismissed" and move.stream.parent_id is None:
            self._families.dismissed.labels(intent).inc()
        again = move.logged.name == "task_unblocked" and move.told.reason == "retry"
        if again or move.logged.name == "task_retried":
            self._families.retries["task"].labels(intent).inc()
        self._moved(move, intent, TASK_OVER)

    def _moved(self, move: Move, intent: str, over: frozenset[str]) -> None:
        if move.target is None:
            return
        self._families.transitions[move.level].labels(intent, move.source, move.target).inc()
        if move.target in over:
            seconds = (move.logged.at - move.stream.begun_at) / 1_000_000
            self._families.durations[move.level].labels(intent, move.target).observe(seconds)


OBSERVED: Mapping[str, Callable[[Metrics, Move], None]] = {
    "step": Metrics._step,
    "run": Metrics._run,
    "job": Metrics._job,
    "task": Metrics._task,
}


# ---- how things stand ------------------------------------------------------------------------


class Standing(Collector):
    """Counts of the store, taken when somebody asks and kept for a while; and what processes count.

    The longer a count takes, the longer it is kept: being watched costs a bounded share.
    """

    def __init__(self, core: Core, here: Callable[[], Iterable[Metric]]) -> None:
        self._core = core
        self._here = here
        self._lock = threading.Lock()
        self._counted: list[Metric] = []
        self._until = float("-inf")

    def describe(self) -> Iterable[Metric]:
        """Nothing: counting the store to learn the names would be too much for a start."""
        return []

    def collect(self) -> Iterable[Metric]:
        with self._lock:
            begun = time.monotonic()
            if begun > self._until:
                self._counted = [*by_state(self._core), *queue(self._core), *health(self._core)]
                took = time.monotonic() - begun
                self._until = begun + max(FRESH_S, took / SHARE)
            return [*self._counted, *self._here()]


def _gauge(name: str, meaning: str, values: Mapping[str, float], label: str) -> Metric:
    made = GaugeMetricFamily(name, meaning, labels=[label])
    for value in sorted(values):
        made.add_metric([value], values[value])
    return made


def by_state(core: Core) -> Iterable[Metric]:
    """How many of each level are in each state."""
    with core.store.read() as view:
        counts = {
            table: view.count_by(Query(table), "state")
            for table in ("steps", "runs", "jobs", "tasks")
        }
    return [
        _gauge(f"{table}_by_state", f"How many {table} are in each state", states, "state")
        for table, states in counts.items()
    ]


def queue(core: Core) -> Iterable[Metric]:
    """How long the queue is, and how long its oldest work has waited."""
    with core.store.read() as view:
        now = view.now()
        oldest = view.page(Query("jobs", {"state": "queued"}, "queued_at", limit=1))
        keeper: Mapping[str, Any] = view.rows("system_state").get("keeper") or {}
    age = (now - oldest[0]["queued_at"]) / 1_000_000 if oldest else 0.0
    lengths = {name: float(count) for name, count in status(core, OWNER)["byPriority"].items()}
    return [
        _gauge("detent_queue_length", "Work that waits, by priority", lengths, "priority"),
        GaugeMetricFamily(
            "detent_queue_age_seconds", "How long the oldest queued job has waited", value=age
        ),
        GaugeMetricFamily(
            "detent_keeper_elected",
            "1 while some keeper holds the office",
            value=int(keeper.get("until", 0) > now),
        ),
    ]


def health(core: Core) -> Iterable[Metric]:
    """The figures that the verdict is about, and the verdict."""
    found = figures(core)
    verdict = judge(found, thresholds(core.settings)).verdict.value
    verdicts = {each: float(each == verdict) for each in ("ok", "degraded", "unhealthy")}
    return [
        _gauge("detent_health", "1 for the verdict that holds now", verdicts, "verdict"),
        GaugeMetricFamily(
            "detent_success_ratio", "Runs of 24 h that ended well", value=_ratio(found)
        ),
        GaugeMetricFamily(
            "detent_failed_runs", "Runs of 24 h that failed or timed out", value=found.failures
        ),
        GaugeMetricFamily(
            "detent_blocked_tasks", "Blocked tasks that do not wait for people", value=found.blocked
        ),
        GaugeMetricFamily(
            "detent_waiting_for_people",
            "Questions and reviews that wait for a person",
            value=found.waiting_for_people,
        ),
    ]


def _ratio(found: Figures) -> float:
    return found.succeeded / found.ended if found.ended else 1.0
