"""What came of the race: tables for people, the same as Markdown, and a document for programs.

A difference counts only if the spreads of the two do not overlap; else the two are too close.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from bench import harness
from bench.harness import Benchmark, Result, Spread, shown
from bench.race.entrants import ENTRANTS, Entrant, packages
from bench.race.lap import Size

CLOSE = "too close"
#: One repetition has no spread, so no difference can be shown.
ONCE = "measured once"

#: What is measured, in the order of the report: the figure, what it is, its unit, less is better.
MEASURED = {
    "enqueue": ("One job after another, each durable before the next.", "jobs/s", False),
    "enqueue together": (
        "By 50 concurrent callers, each waiting for its responses.",
        "jobs/s",
        False,
    ),
    "bulk": ("Many jobs in one call, if the tool has such a call.", "jobs/s", False),
    "drain": (
        "One worker process, from its start until every job is stored as done.",
        "jobs/s",
        False,
    ),
    "end-to-end": (
        "Enqueuing in the fastest way plus execution, per job.",
        "jobs/s",
        False,
    ),
    "pick-up p50": (
        "From the call in another process until the handler runs, without other load.",
        "ms",
        True,
    ),
    "pick-up p99": ("The same, 99th percentile.", "ms", True),
    "workflows": ("Five durable steps, each stored before the next.", "workflows/s", False),
}


@dataclass(slots=True)
class Race:
    """Figures by benchmark and entrant, repetition by repetition, and entrants that failed."""

    size: Size
    figures: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)

    def note(self, entrant: str, figures: Mapping[str, float]) -> None:
        for name, figure in figures.items():
            self.figures.setdefault(name, {}).setdefault(entrant, []).append(figure)

    def drop(self, entrant: str, reason: str) -> None:
        """An entrant that fails once is left out: half a row of figures would say nothing."""
        self.missing[entrant] = reason
        for rows in self.figures.values():
            rows.pop(entrant, None)

    @property
    def repetitions(self) -> int:
        every = [figures for rows in self.figures.values() for figures in rows.values()]
        return max(map(len, every), default=0)

    def result(self, name: str) -> Result:
        question, unit, less = MEASURED[name]
        benchmark = Benchmark(f"race.{name}", question, unit, lambda _: (), less_is_better=less)
        return Result(benchmark, self.figures.get(name, {}))


def overlap(one: Spread, other: Spread) -> bool:
    return one.least <= other.most and other.least <= one.most


def verdict(result: Result, entrant: Entrant) -> str:
    """By how much detent on the same store is better; below 1 it is worse."""
    name, own = entrant.name, entrant.against
    if name == own or own not in result.figures:
        return ""
    if len(result.figures[own]) == 1:
        return ONCE
    if overlap(result.spread(own), result.spread(name)):
        return CLOSE
    middle, least, most = map(shown, result.ratio(own, name))
    return f"{middle}× ({least} – {most})"


def rows(race: Race, name: str) -> Iterator[tuple[str, str, str, str]]:
    """One row for each entrant that has this figure: name, middle, spread, verdict."""
    result = race.result(name)
    for entrant in ENTRANTS:
        if entrant.name in result.figures:
            middle, least, most = map(shown, result.spread(entrant.name))
            yield entrant.name, middle, f"{least} – {most}", verdict(result, entrant)


def lines_of(race: Race, versions: Mapping[str, str]) -> Iterator[str]:
    """The report for a terminal."""
    yield ", ".join(f"{name} {value}" for name, value in {**harness.machine(), **versions}.items())
    yield ", ".join(f"{value:,} {name}" for name, value in race.size._asdict().items())
    for name, (question, unit, _) in MEASURED.items():
        if not race.figures.get(name):
            continue
        yield ""
        yield f"race.{name}: {question}"
        yield f"  {'':26}{unit:>14}{'spread':>22}    detent is better by"
        for who, middle, between, difference in rows(race, name):
            yield f"  {who:26}{middle:>14}{between:>22}    {difference}".rstrip()
    yield ""
    yield "Settings:"
    for entrant in ENTRANTS:
        made_of = packages(entrant)
        yield f"  {entrant.name:26}{entrant.settings}{f' ({made_of})' if made_of else ''}"
        if entrant.source:
            yield f"  {'':26}see {entrant.source}"
    yield from (f"Not in the race: {who}: {why}" for who, why in race.missing.items())


def markdown(race: Race) -> Iterator[str]:
    """Two tables for a page, of jobs per second and of the rest: all seven would be too wide."""
    rates = [name for name in MEASURED if MEASURED[name][1] == "jobs/s"]
    for names in (rates, [name for name in MEASURED if name not in rates]):
        measured = [name for name in names if race.figures.get(name)]
        if measured:
            yield from (*_page_table(race, measured), "")


def _page_table(race: Race, names: list[str]) -> Iterator[str]:
    yield "| | " + " | ".join(f"{name}, {MEASURED[name][1]}" for name in names) + " |"
    yield "|---" * (len(names) + 1) + "|"
    tables = {name: {row[0]: row for row in rows(race, name)} for name in names}
    for entrant in ENTRANTS:
        if not any(entrant.name in table for table in tables.values()):
            continue
        cells = [_cell(tables[name].get(entrant.name)) for name in names]
        yield f"| {entrant.name} | " + " | ".join(cells) + " |"


def _cell(row: tuple[str, str, str, str] | None) -> str:
    if row is None:
        return "–"
    _, middle, between, difference = row
    return f"{middle} ({between})" + (f"<br>{difference}" if difference else "")


def document(race: Race, versions: Mapping[str, str]) -> dict[str, object]:
    """The race for programs."""
    return {
        "machine": harness.machine(),
        "versions": dict(versions),
        "size": race.size._asdict(),
        "repetitions": race.repetitions,
        "entrants": [
            {
                "name": each.name,
                "packages": packages(each),
                "store": each.store,
                "settings": each.settings,
                "source": each.source,
                "jobs": race.size.of(each).jobs,
            }
            for each in ENTRANTS
        ],
        "missing": race.missing,
        "benchmarks": [_entry(race, name) for name in MEASURED if race.figures.get(name)],
    }


def read(document: Mapping[str, Any]) -> Race:
    """The race of a document."""
    race = Race(Size(**document["size"]), missing=dict(document["missing"]))
    for entry in document["benchmarks"]:
        rows = {each["name"]: each["figures"] for each in entry["contestants"]}
        race.figures[entry["name"]] = rows
    return race


def _entry(race: Race, name: str) -> dict[str, object]:
    result = race.result(name)
    question, unit, less = MEASURED[name]
    entrants = [each for each in ENTRANTS if each.name in result.figures]
    return {
        "name": name,
        "question": question,
        "unit": unit,
        "less_is_better": less,
        "contestants": [
            {
                "name": each.name,
                "against": each.against,
                "figures": result.figures[each.name],
                **result.spread(each.name)._asdict(),
                "detent_is_better_by": verdict(result, each),
            }
            for each in entrants
        ],
    }
