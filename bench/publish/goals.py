"""The goals and their results: from the figures to the rows of the page.

The worst figure of a goal decides. A goal is met if every repetition meets it; if only the median
meets it, the row says so.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from bench.harness import Spread, shown
from bench.publish.figures import Figures
from bench.race.entrants import ENTRANTS, POSTGRES, SQLITE

BARE = {SQLITE: "bare rows, SQLite", POSTGRES: "bare rows, PostgreSQL"}
NOT_DURABLE = "Huey, no fsync"
STORES = ("sqlite", "postgres")


class Reached(NamedTuple):
    """One figure of a goal: about what, how much, and how much of what was wanted (1 is enough).

    The latter by the middle of all repetitions, and by the worst of them.
    """

    what: str
    figure: Spread
    unit: str
    of_goal: float
    at_worst: float

    @property
    def verdict(self) -> str:
        if self.of_goal < 1:
            return f"missed by {shown(1 / self.of_goal)} ×"
        return "met" if self.at_worst >= 1 else "met by the median, not by every repetition"


class Goal(NamedTuple):
    """What is wanted, and the figures that it is about."""

    text: str
    reached: Callable[[Figures], Iterator[Reached]]


def _at_least(
    section: str, name: str, who: str, over: str, wanted: float
) -> Callable[[Figures], Iterator[Reached]]:
    """At least this factor better than another contestant."""

    def reached(figures: Figures) -> Iterator[Reached]:
        found = figures.ratio(section, name, who, over)
        if found is not None:
            yield Reached(
                f"{who} to {over}", found, "×", found.median / wanted, found.least / wanted
            )

    return reached


def _at_most(
    section: str, name: str, who: str, wanted: float
) -> Callable[[Figures], Iterator[Reached]]:
    """A figure with a maximum."""

    def reached(figures: Figures) -> Iterator[Reached]:
        result = figures.result(section, name)
        found = figures.spread(section, name, who)
        if result is not None and found is not None:
            unit = result.benchmark.unit
            share, worst = wanted / found.median, wanted / found.most
            yield Reached(f"{name}, {who}", found, unit, share, worst)

    return reached


def _ahead_of_all(own: str) -> Callable[[Figures], Iterator[Reached]]:
    """Faster than every durable peer of the comparison, on any store."""
    peers = [each.name for each in ENTRANTS if each.environment and each.name != NOT_DURABLE]
    return _every(*(_at_least("race", "end-to-end", own, peer, 1.0) for peer in peers))


def _every(
    *parts: Callable[[Figures], Iterator[Reached]],
) -> Callable[[Figures], Iterator[Reached]]:
    def reached(figures: Figures) -> Iterator[Reached]:
        for part in parts:
            yield from part(figures)

    return reached


def _of_stores(
    section: str, name: str, wanted: float, *who: str
) -> Callable[[Figures], Iterator[Reached]]:
    """A maximum on both stores; `{}` in the name is the store."""
    return _every(
        *(_at_most(section, name.format(each), one, wanted) for each in STORES for one in who)
    )


def _rates(name: str, wanted: float) -> Callable[[Figures], Iterator[Reached]]:
    """A minimum for every contestant of a workload."""

    def reached(figures: Figures) -> Iterator[Reached]:
        result = figures.result("workloads", name)
        if result is None:
            return
        for who in result.figures:
            found, unit = result.spread(who), result.benchmark.unit
            yield Reached(
                f"{name}, {who}", found, unit, found.median / wanted, found.least / wanted
            )

    return reached


def _each(name: str, wanted: float) -> Callable[[Figures], Iterator[Reached]]:
    """A maximum for the contestants of both stores."""
    return _every(*(_at_most("workloads", name, each, wanted) for each in ("SQLite", "PostgreSQL")))


def _peers(own: str, wanted: float, *peers: str) -> Callable[[Figures], Iterator[Reached]]:
    """Jobs end to end: this factor faster than each of the peers."""
    return _every(*(_at_least("race", "end-to-end", own, peer, wanted) for peer in peers))


def _grown(name: str) -> Callable[[Figures], Iterator[Reached]]:
    """With a million other jobs, at most 10 % more than with a thousand."""
    return _every(
        *(
            _at_least("workloads", f"{name}-{each}", f"1,000,000 {name}", f"1,000 {name}", 1 / 1.1)
            for each in STORES
        )
    )


GOALS = (
    Goal(
        "jobs end to end on PostgreSQL: 1.2 × graphile-worker and pg-boss in batches",
        _peers(POSTGRES, 1.2, "graphile-worker, batches", "pg-boss"),
    ),
    Goal(
        "jobs end to end on PostgreSQL: 2.5 × pgqueuer in batches",
        _peers(POSTGRES, 2.5, "pgqueuer, batches"),
    ),
    Goal(
        "jobs end to end on PostgreSQL: 40 × DBOS and 40 × Procrastinate",
        _peers(POSTGRES, 40, "DBOS, PostgreSQL", "Procrastinate"),
    ),
    Goal("jobs end to end on SQLite: faster than every durable peer", _ahead_of_all(SQLITE)),
    Goal(
        "jobs end to end: 60 % of bare rows",
        _every(*(_at_least("race", "end-to-end", own, bare, 0.6) for own, bare in BARE.items())),
    ),
    Goal(
        "tasks of both lifecycles: half the rate of jobs",
        _every(
            *(
                _at_least("workloads", f"end-to-end-{store}", kind, "job", 0.5)
                for store in STORES
                for kind in ("board", "review")
            )
        ),
    ),
    Goal(
        "`detent up` with defaults: 8 % of a bare SQLite loop",
        _at_least("workloads", "defaults-rate", "detent up", "bare loop", 0.08),
    ),
    Goal(
        "`detent up` with defaults: 2,000 bytes on disk per task",
        _at_most("workloads", "defaults-size", "detent up", 2_000),
    ),
    Goal(
        "two workers on PostgreSQL: 1.6 × one worker, if the cores allow it",
        _every(
            *(
                _at_least("workloads", f"workers-{work}", "2 workers", "1 worker", 1.6)
                for work in ("nothing", "compute", "sleep")
            )
        ),
    ),
    Goal(
        "workflows: 50 × DBOS on the same database",
        _every(
            _at_least("race", "workflows", SQLITE, "DBOS, SQLite", 50),
            _at_least("race", "workflows", POSTGRES, "DBOS, PostgreSQL", 50),
        ),
    ),
    Goal(
        "workflows: 15 × absurd on the same database",
        _at_least("race", "workflows", POSTGRES, "absurd", 15),
    ),
    Goal(
        "pick-up without load: p50 within 3 ms",
        _of_stores("workloads", "pick-up-idle-{}", 3, "p50"),
    ),
    Goal(
        "pick-up without load: p99 within 8 ms",
        _of_stores("workloads", "pick-up-idle-{}", 8, "p99"),
    ),
    Goal(
        "one durable submission: 1.3 × the time of a bare commit",
        _every(
            *(
                _at_least("workloads", f"submit-{each}", "detent", "bare commit", 1 / 1.3)
                for each in STORES
            )
        ),
    ),
    Goal("200 clients over HTTP: 5,000 submissions per second", _rates("http.crowd-200", 5_000)),
    Goal("200 clients over HTTP: p99 within 150 ms", _each("http.crowd-200-p99", 150)),
    Goal("1,500 clients over HTTP: p99 within 1 s", _each("http.crowd-1500-p99", 1_000)),
    Goal(
        "bytes of write-ahead log for a job on PostgreSQL, 100 per transaction: 2,000",
        _at_most("workloads", "cost-postgres-100", "bytes of its log", 2_000),
    ),
    Goal(
        "bytes on disk for a finished job on PostgreSQL: 800",
        _at_most("workloads", "size", "postgres", 800),
    ),
    Goal(
        "bytes on disk for a finished job on SQLite: 1,000",
        _at_most("workloads", "size", "sqlite", 1_000),
    ),
    Goal("a job costs at most 10 % more with 1,000,000 finished jobs", _grown("finished")),
    Goal("a job costs at most 10 % more with 1,000,000 queued jobs", _grown("queued")),
    Goal(
        "`detent verify`: 150,000 events per second of CPU time",
        _rates("verify", 150_000),
    ),
    Goal(
        "the feed from the beginning: 300,000 events per second of CPU time",
        _rates("feed.catch-up", 300_000),
    ),
    Goal(
        "a command without a server within 300 ms",
        _at_most("workloads", "start-command", "detent tasks", 300),
    ),
    Goal("`detent --help` within 80 ms", _at_most("workloads", "start-help", "detent --help", 80)),
)


def table(figures: Figures) -> Iterator[str]:
    """Every goal with its worst figure, and by how much it was missed."""
    yield "| goal | worst figure | result |"
    yield "|---|---|---|"
    for goal in GOALS:
        found = sorted(goal.reached(figures), key=lambda each: each.of_goal)
        if not found:
            yield f"| {goal.text} | not measured | |"
            continue
        worst = found[0]
        middle, least, most = map(shown, worst.figure)
        what = f"{worst.what}: {middle} {worst.unit} ({least} – {most})"
        yield f"| {goal.text} | {what} | {worst.verdict} |"
