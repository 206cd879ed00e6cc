"""The goals and their results: from the figures to the rows of the page.

The worst figure of a goal decides. A goal is met if every repetition meets it; if only the median
meets it, the row says so.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from bench.figures import Figures
from bench.harness import Spread, shown
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


def _pgqueuer_at_its_best(figures: Figures) -> Iterator[Reached]:
    ways = ("pgqueuer", "pgqueuer, batches")
    yield from _every(*(_at_least("race", "end-to-end", POSTGRES, each, 1.5) for each in ways))(
        figures
    )


GOALS = (
    Goal("jobs end to end on SQLite: faster than every durable peer", _ahead_of_all(SQLITE)),
    Goal(
        "jobs end to end on SQLite: 60 % of bare rows",
        _at_least("race", "end-to-end", SQLITE, BARE[SQLITE], 0.6),
    ),
    Goal("jobs end to end on PostgreSQL: faster than every durable peer", _ahead_of_all(POSTGRES)),
    Goal("jobs end to end on PostgreSQL: 1.5 × pgqueuer at its best", _pgqueuer_at_its_best),
    Goal(
        "jobs end to end on PostgreSQL: 20 × DBOS and 20 × Procrastinate",
        _every(
            _at_least("race", "end-to-end", POSTGRES, "DBOS, PostgreSQL", 20),
            _at_least("race", "end-to-end", POSTGRES, "Procrastinate", 20),
        ),
    ),
    Goal(
        "jobs end to end on PostgreSQL: 60 % of bare rows",
        _at_least("race", "end-to-end", POSTGRES, BARE[POSTGRES], 0.6),
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
        "workflows: 50 × DBOS on the same database",
        _every(
            _at_least("race", "workflows", SQLITE, "DBOS, SQLite", 50),
            _at_least("race", "workflows", POSTGRES, "DBOS, PostgreSQL", 50),
        ),
    ),
    Goal(
        "workflows: 20 × absurd on the same database",
        _at_least("race", "workflows", POSTGRES, "absurd", 20),
    ),
    Goal(
        "pick-up without load: p50 within 3 ms",
        _every(*(_at_most("workloads", f"pick-up-idle-{each}", "p50", 3) for each in STORES)),
    ),
    Goal(
        "pick-up without load: p99 within 8 ms",
        _every(*(_at_most("workloads", f"pick-up-idle-{each}", "p99", 8) for each in STORES)),
    ),
    Goal(
        "a job costs less than 10 % more with 1,000,000 finished jobs than with 1,000",
        _every(
            *(
                _at_least(
                    "workloads", f"finished-{each}", "1,000,000 finished", "1,000 finished", 1 / 1.1
                )
                for each in STORES
            )
        ),
    ),
    Goal(
        "two workers on PostgreSQL: 1.5 × one worker, if the database is not the bottleneck",
        _every(
            *(
                _at_least("workloads", f"workers-{work}", "2 workers", "1 worker", 1.5)
                for work in ("compute", "sleep")
            )
        ),
    ),
    Goal(
        "`detent --help` within 150 ms", _at_most("workloads", "start-help", "detent --help", 150)
    ),
    Goal(
        "`detent up` ready within 1.5 s",
        _every(
            *(_at_most("workloads", "start-up", f"{each}, first start", 1_500) for each in STORES)
        ),
    ),
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
