"""How a benchmark is measured: contestants in turn, repetition by repetition, and the results.

Contestants are interleaved so that a slow minute of the machine slows all of them. A ratio is
taken inside each repetition and then over all of them; its spread shows how far to trust it.
"""

import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

#: How often the disk is asked how long a durable write takes.
SYNCS = 50


class Scale(NamedTuple):
    """How much of the work is done: all of it, or a share for a quick look."""

    share: float = 1.0

    def of(self, count: int, least: int = 1) -> int:
        """This share of `count`, but never fewer than the measurement needs to mean anything."""
        return max(least, round(count * self.share))


ALL = Scale()


class Contestant(NamedTuple):
    """One way to do the work. `measure` runs it once and gives a figure in the benchmark's unit."""

    name: str
    measure: Callable[[], float]


class Aim(NamedTuple):
    """What a contestant should reach: a figure, or to be better than another by a factor.

    A figure is at least this, or at most this where less is better.
    """

    bound: float
    over: str | None = None
    #: The first contestant if none is named.
    who: str | None = None


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A question that a run answers. `contestants` is called once, before anything is measured."""

    name: str
    question: str
    unit: str
    contestants: Callable[[Scale], tuple[Contestant, ...]]
    aims: tuple[Aim, ...] = ()
    #: For figures like µs, where the smaller one wins.
    less_is_better: bool = False
    #: False for parts of a whole, which do not compete.
    rivals: bool = True


class Spread(NamedTuple):
    """A figure over all repetitions: the one in the middle, the least and the most."""

    median: float
    least: float
    most: float


@dataclass(frozen=True, slots=True)
class Result:
    """The figures of every contestant, in the order of the repetitions."""

    benchmark: Benchmark
    figures: dict[str, list[float]]

    @property
    def first(self) -> str:
        return next(iter(self.figures))

    def spread(self, name: str) -> Spread:
        return spread(self.figures[name])

    def ratio(self, name: str, over: str) -> Spread:
        """How many times better one contestant is than another, repetition by repetition."""
        pairs = zip(self.figures[name], self.figures[over], strict=True)
        less = self.benchmark.less_is_better
        return spread([(other / own) if less else (own / other) for own, other in pairs])

    def reached(self, aim: Aim) -> float:
        """The figure that the aim is about; in the middle of all repetitions."""
        who = aim.who or self.first
        found = self.spread(who) if aim.over is None else self.ratio(who, aim.over)
        return found.median

    def missed(self) -> list[Aim]:
        return [aim for aim in self.benchmark.aims if not self._met(aim)]

    def _met(self, aim: Aim) -> bool:
        if aim.over is None and self.benchmark.less_is_better:
            return self.reached(aim) <= aim.bound
        return self.reached(aim) >= aim.bound


def spread(figures: list[float]) -> Spread:
    return Spread(statistics.median(figures), min(figures), max(figures))


def quantile(figures: Iterable[float], share: float) -> float:
    """The figure below which this share of them is."""
    ordered = sorted(figures)
    return ordered[int(share * (len(ordered) - 1))]


def parts(
    names: Iterable[str], measure: Callable[[], Mapping[str, float]]
) -> tuple[Contestant, ...]:
    """Contestants that are figures of one and the same run, which happens once a repetition.

    Each figure is read once; a caller whose figure was read already starts the next run.
    """
    left: dict[str, float] = {}

    def read(name: str) -> float:
        if name not in left:
            left.clear()
            left.update(measure())
        return left.pop(name)

    return tuple(Contestant(name, partial(read, name)) for name in names)


def run(benchmark: Benchmark, repetitions: int, scale: Scale = ALL) -> Result:
    """Measure every contestant in turn; each repetition begins with another one."""
    contestants = benchmark.contestants(scale)
    figures: dict[str, list[float]] = {each.name: [] for each in contestants}
    for repetition in range(repetitions):
        turn = repetition % len(contestants)
        for each in (*contestants[turn:], *contestants[:turn]):
            figures[each.name].append(each.measure())
    return Result(benchmark, figures)


# ---- the report ------------------------------------------------------------------------------


def machine() -> dict[str, object]:
    """What a figure depends on besides the code."""
    return {
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 2),
        "fdatasync": f"{_fdatasync_us():.0f} µs",
        "system": platform.platform(),
        "python": sys.version.split()[0],
        "detent": version("detent"),
    }


def _fdatasync_us() -> float:
    """The median time of a small write that is synced to the disk."""
    took = []
    with tempfile.TemporaryFile(dir=Path.home()) as file:
        for _ in range(SYNCS):
            file.write(b"x" * 4_096)
            file.flush()
            begun = time.perf_counter()
            os.fdatasync(file.fileno())
            took.append(time.perf_counter() - begun)
    return statistics.median(took) * 1e6


def _cpu() -> str:
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.machine())


def table(result: Result) -> Iterator[str]:
    """The result for people: figures, ratios with their spread, and the aims."""
    benchmark = result.benchmark
    yield f"{benchmark.name}: {benchmark.question}"
    heading = f"{result.first} is better by" if benchmark.rivals else ""
    yield f"  {'':24}{benchmark.unit:>16}{'spread':>26}    {heading}".rstrip()
    for name in result.figures:
        middle, least, most = map(shown, result.spread(name))
        figures = f"{middle:>16}{least + ' – ' + most:>26}"
        yield f"  {name:24}{figures}    {_better(result, name)}".rstrip()
    for aim in benchmark.aims:
        unit = benchmark.unit if aim.over is None else f"× {aim.over}"
        wanted = f"{aim.who or result.first}, {shown(aim.bound)} {unit}"
        verdict = "missed" if aim in result.missed() else "met"
        yield f"  aim: {wanted}: {verdict} with {shown(result.reached(aim))}"


def _better(result: Result, name: str) -> str:
    if name == result.first or not result.benchmark.rivals:
        return ""
    middle, least, most = map(shown, result.ratio(result.first, name))
    return f"{middle}×  ({least} – {most})"


def shown(figure: float) -> str:
    return f"{figure:,.0f}" if figure >= 100 else f"{figure:.3g}"


def document(results: list[Result]) -> dict[str, object]:
    """The results for programs."""
    return {"machine": machine(), "benchmarks": [_entry(result) for result in results]}


def _ratio(result: Result, name: str) -> dict[str, float] | None:
    """Parts of a whole have none: they do not compete, and one of them may be nothing."""
    return result.ratio(result.first, name)._asdict() if result.benchmark.rivals else None


def _entry(result: Result) -> dict[str, object]:
    benchmark = result.benchmark
    return {
        "name": benchmark.name,
        "question": benchmark.question,
        "unit": benchmark.unit,
        "less_is_better": benchmark.less_is_better,
        "contestants": [
            {
                "name": name,
                "figures": figures,
                **result.spread(name)._asdict(),
                "ratio": _ratio(result, name),
            }
            for name, figures in result.figures.items()
        ],
        "aims": [
            {**aim._asdict(), "reached": result.reached(aim), "met": aim not in result.missed()}
            for aim in benchmark.aims
        ],
    }
