"""`python -m bench publish`: measures everything and writes it into the documentation.

Four sections, each of which can be measured alone: the race, the workloads, several
machines, and the comparison under faults. The figures go to `bench/figures.json`, from which the
tables and charts of the pages are written; a section that was not measured keeps what it had.
"""

import argparse
import json
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bench import harness
from bench.harness import Benchmark, Result, Scale
from bench.publish import figures as kept
from bench.publish import pages
from bench.publish.figures import Figures

#: How often a workload is measured at most, while the race is run as often as was asked for: here
#: nothing is compared with a competitor, and all of it must end soon.
WORKLOADS = 3
#: How often a trial of the comparison is run at most: it waits for time-outs.
COMPARISONS = 2
#: The limit of the trials of the comparison, however small the scale is.
QUICK_TAKEOVER_S = 10.0
#: Those that read lists and the feed, and take long to set up.
ONCE = ("http.page", "feed.")


class Wish(NamedTuple):
    """How much is measured, and how often."""

    scale: Scale
    repetitions: int
    #: The beginning of the names of the workloads to measure again; the others keep their figures.
    only: str = ""


def race(wish: Wish) -> dict[str, Any]:
    from bench.peers.versions import versions
    from bench.race import command, report
    from bench.race.entrants import ENTRANTS
    from bench.race.lap import Size

    size = Size(*(wish.scale.of(count, least=10) for count in Size()))
    found = command.run(ENTRANTS, size, wish.repetitions)
    used = versions()
    print(*report.lines_of(found, used), sep="\n", flush=True)
    return report.document(found, used)


def workloads(wish: Wish) -> dict[str, Any]:
    from bench.__main__ import benchmarks

    results: list[Result] = []
    failed: dict[str, str] = {}
    for each in (each for each in benchmarks() if each.name.startswith(wish.only)):
        try:
            results.append(harness.run(each, _repetitions(each, wish), wish.scale))
        except Exception as error:  # the others are still worth the time; this one is named
            failed[each.name] = f"{type(error).__name__}: {error}"
            traceback.print_exc()
            continue
        print("", *harness.table(results[-1]), sep="\n", flush=True)
    return {
        **harness.document(results),
        "repetitions": min(WORKLOADS, wish.repetitions),
        "scale": wish.scale.share,
        "failed": failed,
    }


def merged(section: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    """A section in which some workloads were measured again, each with the load at that time."""
    load = found["machine"]["load"]
    again = {each["name"]: {**each, "load": load} for each in found["benchmarks"]}
    entries = [again.pop(each["name"], each) for each in section["benchmarks"]]
    failed = {**section.get("failed", {}), **found["failed"]}
    return {**section, "benchmarks": [*entries, *again.values()], "failed": failed}


def _repetitions(benchmark: Benchmark, wish: Wish) -> int:
    return 1 if benchmark.name.startswith(ONCE) else min(WORKLOADS, wish.repetitions)


def machines(wish: Wish) -> dict[str, Any] | None:
    """None, with a note, where it cannot be measured."""
    from bench.machines import command
    from verification.network import Unable

    try:
        found = command.run(wish.scale)
    except (Unable, RuntimeError, subprocess.TimeoutExpired) as reason:
        print(f"the machines were not measured: {reason}", file=sys.stderr)
        return None
    print(*command.lines_of(found), sep="\n", flush=True)
    return found


def compare(wish: Wish) -> dict[str, Any]:
    from bench.compare import command, report
    from bench.compare.trials import TAKEOVER_S

    limit_s = max(QUICK_TAKEOVER_S, TAKEOVER_S * wish.scale.share)
    found = command.run(min(COMPARISONS, wish.repetitions), takeover_s=limit_s)
    print(*report.lines(found), sep="\n", flush=True)
    return found


MEASURES: dict[str, Callable[[Wish], dict[str, Any] | None]] = {
    "race": race,
    "workloads": workloads,
    "machines": machines,
    "compare": compare,
}


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="bench publish", description=__doc__)
    parser.add_argument("sections", nargs="*", metavar="section", help=", ".join(MEASURES))
    parser.add_argument("--scale", type=float, default=1.0, metavar="X", help="a share of the work")
    parser.add_argument("--repetitions", type=int, default=5, metavar="N")
    parser.add_argument("--figures", type=Path, default=kept.FILE, metavar="FILE")
    parser.add_argument("--docs", type=Path, default=pages.DOCS, metavar="DIRECTORY")
    parser.add_argument("--only-pages", action="store_true", help="measure nothing")
    parser.add_argument("--only", default="", metavar="PREFIX", help="some of the workloads")
    options = parser.parse_args(arguments)
    if options.only and options.sections != ["workloads"]:
        parser.error("--only is for the section workloads: bench publish workloads --only PREFIX")
    unknown = set(options.sections) - MEASURES.keys()
    if unknown:
        parser.error(f"no section {', '.join(sorted(unknown))}; there are {', '.join(MEASURES)}")
    document = dict(Figures.read(options.figures).document)
    chosen = () if options.only_pages else options.sections or tuple(MEASURES)
    for section in chosen:
        begun = time.monotonic()
        wish = Wish(Scale(options.scale), options.repetitions, options.only)
        found = MEASURES[section](wish)
        if found is not None and options.only:
            document[section] = merged(document[section], found)
        elif found is not None:
            document[section] = {**found, "took_s": round(time.monotonic() - begun)}
        if found is not None:
            text = json.dumps(document, indent=1)
            options.figures.write_text(text + "\n", encoding="utf-8")
    for file in pages.write(Figures(document), options.docs):
        print(f"wrote {file}")
    wrong = faults(document)
    print(*wrong, sep="\n", file=sys.stderr)
    return 1 if wrong else 0


def faults(document: dict[str, Any]) -> list[str]:
    """What is no figure but a fault: a workload failed, or something acknowledged was lost."""
    from bench.machines import command

    failed = document.get("workloads", {}).get("failed", {})
    lost = command.faults(document["machines"]) if "machines" in document else []
    return [*(f"{name} failed: {why}" for name, why in failed.items()), *lost]
