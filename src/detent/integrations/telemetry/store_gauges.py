"""The gauges of the metrics: counts of the store at the time of a scrape.

They are cached, so that scraping takes a bounded share of the time. Reads the store.
"""

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from detent.kernel.health import Figures, Verdict, judge
from detent.operations.context import Core
from detent.operations.installation import figures, status, system_figures
from detent.operations.registry import OWNER
from detent.operations.workload import workload
from detent.store.stale_reads import read_stale
from detent.store.types import Query
from detent.thresholds import thresholds

#: The minimum interval between two counts of the store, and the maximum share of time they take.
FRESH_S = 5.0
SHARE = 0.05
#: The maximum number of pauses and of intents that are listed.
MAX_PAUSES = MAX_INTENTS = 200


class StoreCollector(Collector):
    """Collects counts of the store when the metrics are scraped, and the counters of this process.

    The counts are cached. The longer counting takes, the longer they are cached, so that scraping
    takes a bounded share of the time.
    """

    def __init__(self, core: Core, here: Callable[[], Iterable[Metric]]) -> None:
        self._core = core
        self._here = here
        self._lock = threading.Lock()
        self._counted: list[Metric] = []
        self._until = float("-inf")

    def describe(self) -> Iterable[Metric]:
        """No metrics: the names are not known without counting the store."""
        return []

    def collect(self) -> Iterable[Metric]:
        with self._lock:
            begun = time.monotonic()
            if begun > self._until:
                parts = (by_state, queue, needed_work, health, replica)
                self._counted = [metric for part in parts for metric in part(self._core)]
                took = time.monotonic() - begun
                self._until = begun + max(FRESH_S, took / SHARE)
            return [*self._counted, *self._here()]


def _gauge(name: str, meaning: str, values: Mapping[str, float], label: str) -> Metric:
    made = GaugeMetricFamily(name, meaning, labels=[label])
    for value in sorted(values):
        made.add_metric([value], values[value])
    return made


def by_state(core: Core) -> Iterable[Metric]:
    """The numbers of steps, runs, jobs and tasks by state."""
    with read_stale(core.store) as view:
        counts = {
            table: view.count_by(Query(table), "state")
            for table in ("steps", "runs", "jobs", "tasks")
        }
    return [
        _gauge(f"{table}_by_state", f"Number of {table} by state", states, "state")
        for table, states in counts.items()
    ]


def replica(core: Core) -> Iterable[Metric]:
    """Whether this process reads from the replica, and how far it is behind."""
    if core.store.replica is None:
        return
    used, lag_us, _ = core.store.replica.status
    yield GaugeMetricFamily(
        "detent_replica_used",
        "1 if lists and the feed are read from the replica",
        value=float(used),
    )
    if lag_us is not None:
        yield GaugeMetricFamily(
            "detent_replica_lag_seconds", "How far the replica is behind", value=lag_us / 1_000_000
        )


def queue(core: Core) -> Iterable[Metric]:
    """The length of the queue, the age of its oldest job, and whether a keeper is elected."""
    with read_stale(core.store) as view:
        now = view.now()
        oldest = view.page(Query("jobs", {"state": "queued"}, "queued_at", limit=1))
        keeper: Mapping[str, Any] = view.rows("system_state").get("keeper") or {}
        limits = view.rows("limits")
    age = (now - oldest[0]["queued_at"]) / 1_000_000 if oldest else 0.0
    lengths = {name: float(count) for name, count in status(core, OWNER)["byPriority"].items()}
    return [
        _gauge("detent_queue_length", "Queued tasks and jobs by priority", lengths, "priority"),
        GaugeMetricFamily("detent_queue_age_seconds", "Age of the oldest queued job", value=age),
        _gauge("detent_paused", "1 for each current pause", _paused(limits), "limit"),
        GaugeMetricFamily(
            "detent_keeper_elected",
            "1 while a keeper is the elected leader",
            value=int(keeper.get("until", 0) > now),
        ),
    ]


def needed_work(core: Core) -> Iterable[Metric]:
    """The work that needs workers, for autoscalers; the totals are there even if they are 0."""
    found = workload(core)
    by_intent = GaugeMetricFamily(
        "detent_workload_jobs_by_intent",
        "Jobs that need a worker now or soon, by intent",
        labels=["kind", "intent"],
    )
    for kind, counts in found._asdict().items():
        for intent in sorted(counts)[:MAX_INTENTS]:
            by_intent.add_metric([kind, intent], counts[intent])
    meaning = "Jobs that need a worker: queued, held by a worker, or due within 60 s"
    totals = {kind: float(count) for kind, count in found.totals().items()}
    return [_gauge("detent_workload_jobs", meaning, totals, "kind"), by_intent]


def _paused(limits: Mapping[str, Any]) -> Mapping[str, float]:
    names = [name for name, row in sorted(limits.items()) if row.get("paused")]
    return dict.fromkeys(names[:MAX_PAUSES], 1.0)


def health(core: Core) -> Iterable[Metric]:
    """The health and the figures from which it is judged."""
    found, system = figures(core), system_figures(core)
    judged = judge(found, thresholds(core.settings), system)
    return [
        _gauge("detent_health", "1 for the current verdict", _verdicts(judged.verdict), "verdict"),
        _gauge(
            "detent_system_health",
            "1 for the verdict of gateway, store, keeper, workers and queue",
            _verdicts(judged.system.verdict),
            "verdict",
        ),
        _gauge(
            "detent_recent_run_seconds",
            "Duration of the newest runs in 24 h",
            _quantiles(found.p50_duration_ms, found.p95_duration_ms),
            "quantile",
        ),
        _gauge(
            "detent_queue_delay_seconds",
            "Time from queueing to the claim of the newest runs in 24 h",
            _quantiles(system.p50_queue_delay_ms, system.p95_queue_delay_ms),
            "quantile",
        ),
        GaugeMetricFamily(
            "detent_success_ratio", "Share of succeeded runs in 24 h", value=_ratio(found)
        ),
        GaugeMetricFamily(
            "detent_failed_runs", "Failed and timed-out runs in 24 h", value=found.failures
        ),
        GaugeMetricFamily(
            "detent_blocked_tasks",
            "Blocked tasks that do not wait for a person",
            value=found.blocked,
        ),
        GaugeMetricFamily(
            "detent_waiting_for_people",
            "Questions and reviews that wait for a person",
            value=found.waiting_for_people,
        ),
    ]


def _verdicts(current: Verdict) -> Mapping[str, float]:
    return {each.value: float(each is current) for each in Verdict}


def _quantiles(p50_ms: int | None, p95_ms: int | None) -> Mapping[str, float]:
    """By quantile, the seconds; none before something was measured."""
    given = {"0.5": p50_ms, "0.95": p95_ms}
    return {name: ms / 1_000 for name, ms in given.items() if ms is not None}


def _ratio(found: Figures) -> float:
    return found.succeeded / found.ended if found.ended else 1.0
