"""`python -m bench race`: measures all entrants in turn, then prints the report.

The turns are as in the harness: each repetition begins with another entrant, so that a slow minute
of the machine does not always affect the same one.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from bench.peers.environments import Missing
from bench.peers.versions import versions
from bench.race import lap, report
from bench.race.chart import chart
from bench.race.entrants import ENTRANTS, Entrant
from bench.race.lap import Size
from bench.race.report import Race

Once = Callable[[Entrant, Size], Mapping[str, float]]


def turns(entrants: Sequence[Entrant], repetitions: int) -> Iterator[Entrant]:
    for repetition in range(repetitions):
        turn = repetition % len(entrants)
        yield from (*entrants[turn:], *entrants[:turn])


def run(entrants: Sequence[Entrant], size: Size, repetitions: int, once: Once = lap.once) -> Race:
    """An entrant that cannot be installed, started or finished is listed with the reason."""
    race = Race(size)
    for entrant in turns(entrants, repetitions):
        if entrant.name in race.missing:
            continue
        print(f"race: {entrant.name}", file=sys.stderr, flush=True)
        try:
            race.note(entrant.name, once(entrant, size))
        except Missing as reason:
            race.drop(entrant.name, str(reason))
        except Exception as error:  # one entrant's failure must not cost the others their figures
            race.drop(entrant.name, f"{type(error).__name__}: {error}")
    return race


def chosen(names: Sequence[str]) -> list[Entrant]:
    """The tools whose names have one of these prefixes, and always detent."""
    prefixes = tuple(name.lower() for name in names)
    return [
        each
        for each in ENTRANTS
        if each.environment is None or not names or each.name.lower().startswith(prefixes)
    ]


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="bench race", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="tool", help="the prefix of a tool's name")
    parser.add_argument("--repetitions", type=int, default=5, metavar="N")
    for name, value in Size()._asdict().items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=value, metavar="N")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="a table for a page")
    parser.add_argument("--charts", type=Path, metavar="DIRECTORY", help="an SVG for each figure")
    options = parser.parse_args(arguments)
    size = Size(**{name: getattr(options, name) for name in Size._fields})
    race = run(chosen(options.names), size, options.repetitions)
    found = versions()
    print(*report.lines_of(race, found), sep="\n")
    _write(race, found, options)
    return 0


def _write(race: Race, found: Mapping[str, str], options: argparse.Namespace) -> None:
    if options.json is not None:
        text = json.dumps(report.document(race, found), indent=2)
        options.json.write_text(text + "\n", encoding="utf-8")
    if options.markdown is not None:
        options.markdown.write_text("\n".join(report.markdown(race)) + "\n", encoding="utf-8")
    if options.charts is not None:
        options.charts.mkdir(parents=True, exist_ok=True)
        for name in (each for each in report.MEASURED if race.figures.get(each)):
            file = options.charts / f"race-{name.replace(' ', '-')}.svg"
            file.write_text(chart(race, name), encoding="utf-8")
