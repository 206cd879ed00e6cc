"""All fault injection: every part in its full size, two at a time, and a page of results.

`./dev faults` takes about an hour on two cores and writes
`docs/explanation/fault-injection-results.md`; `--only PART` runs some parts and leaves the lines of
the others as they are; `--share 10 --steps 10000000` runs all night.
"""

import json
import os
import platform
import shlex
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from importlib import metadata
from pathlib import Path

import apsw
import click

from tools import dependencies, fuzz, mutants
from verification.fuzzing.parsers import PARSERS as PARSERS_OF_INPUT
from verification.postgres_programs import find_binaries

ROOT = Path(__file__).resolve().parents[1]
RESULTS_PAGE = ROOT / "docs/explanation/fault-injection-results.md"
#: Parts that are done on each store, and those that are about a file alone.
ON_BOTH = ("soak", "chaos", "failpoints", "stops", "races", "operations")
ON_FILES = ("simulation", "images", "disk", "clock")
ON_POSTGRES = ("commits", "interleavings", "freezes")
#: About this repository, not about an installation.
OF_THE_CLONE = (
    *("wire", "tests", "failovers", "traces", "mutants", "unit-tests-of-mutants", "fuzzing"),
    *("dependencies", "ray"),
)
PARTS = (*ON_BOTH, *ON_FILES, *ON_POSTGRES, *OF_THE_CLONE)
#: It takes as long as all others together, and is run only if it is named.
ONLY_IF_NAMED = "unit-tests-of-mutants"
STORES = ("sqlite", "postgres")
#: The simulation is cut into runs of this many steps, so that both lanes have something to do.
SHARD = 500_000
CATCHERS = (
    "tests/kernel/test_search.py::test_a_broken_kernel_is_found",
    "tests/simulation/test_simulation.py::test_a_mutant_is_caught",
    "tests/fault_injection/test_mutants.py",
    "tests/store/test_postgres_interleavings.py::test_a_mutant_is_caught",
    "tests/store/test_store_mutants.py",
    "tests/forges/test_forge_mutants.py",
    "tests/integrations/test_slack_mutants.py",
    "tests/docs/test_promise_mutants.py",
    "tests/lifecycles/test_lifecycle_search.py::test_a_broken_kernel_is_found",
)
#: By default, pytest leaves out the tests that are marked so.
EVERY_TEST = ("-m", "full or not full")
LEAST_MUTANTS = 20
#: How often each fault is injected into a Patroni cluster.
FAILOVERS = 2
WIRE = "tests/store/test_postgres_wire.py"
#: Seconds of processor time for each parser, and how many parsers one process fuzzes.
FUZZED_S, PARSERS_IN_A_SHARD = 5, 10


@dataclass(frozen=True, slots=True)
class Size:
    """What is asked for."""

    seed: int = 1
    minutes: float = 5.0
    steps: int = 1_000_000
    quick: bool = False
    #: The share of the full size of the counted parts.
    share: float = 1.0


@dataclass(slots=True)
class Line:
    """One row of the results page: what was run, on which store, and the result."""

    part: str
    store: str
    seed: str
    seen: str
    problems: list[str] = field(default_factory=list)
    replay: str = ""
    seconds: float = 0.0
    #: What can be added up, if the part was cut into several runs.
    counts: Mapping[str, int] = field(default_factory=dict)

    def row(self, when: str, version: str) -> str:
        verdict = "passed" if not self.problems else f"**failed**: {self.problems[0]}"
        cells = (self.part, self.store, self.seed, self.seen, verdict, f"{self.seconds:.0f}")
        return "| " + " | ".join(_cell(each) for each in (*cells, when, version)) + " |"


def _cell(text: str) -> str:
    return text.replace("|", "/").replace("\n", " ") or "-"


Job = Callable[[], Line]


# ---- what is to be done ----------------------------------------------------------------------


def jobs(only: Sequence[str], size: Size) -> Iterator[Job]:
    """The longest first, so that no lane is idle in the end."""
    wanted = only or [part for part in PARTS if part != ONLY_IF_NAMED]
    for part in ON_BOTH:
        if part in wanted:
            yield from (_fault_injection(part, store, size) for store in STORES)
    for number, steps in enumerate(shards(size.steps) if "simulation" in wanted else ()):
        yield _fault_injection("simulation", "sqlite", size, steps=steps, shard=number)
    for part in ("images", "disk", "clock"):
        if part in wanted:
            yield _fault_injection(part, "sqlite", size)
    for part in ON_POSTGRES:
        if part in wanted:
            yield _fault_injection(part, "postgres", size)
    if "failovers" in wanted:
        yield partial(_failovers, max(1, round(FAILOVERS * size.share)))
    if "fuzzing" in wanted:
        seconds = 1 if size.quick else FUZZED_S * size.share
        names = list(PARSERS_OF_INPUT)
        for begin in range(0, len(names), PARSERS_IN_A_SHARD):
            yield partial(_fuzzing, names[begin : begin + PARSERS_IN_A_SHARD], seconds)
    for part, job in OWN.items():
        if part in wanted:
            yield job


def shards(steps: int) -> list[int]:
    """Every shard but the last is whole."""
    whole, rest = divmod(steps, SHARD)
    return [SHARD] * whole + ([rest] if rest else [])


def _fault_injection(part: str, store: str, size: Size, *, steps: int = 0, shard: int = 0) -> Job:
    # A shard has its own seeds: those of the next one begin far behind.
    seed = size.seed + shard * 1_000
    command = [sys.executable, "-m", "verification.fault_injection", "--json", "--store", store]
    command += ["--part", part, "--seed", str(seed), "--minutes", f"{size.minutes:g}"]
    command += ["--steps", str(steps)] if steps else []
    command += ["--quick"] if size.quick else ["--share", f"{size.share:g}"]
    return lambda: _run(part, store, str(seed), command)


def _run(part: str, store: str, seed: str, command: Sequence[str]) -> Line:
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    try:
        (result,) = json.loads(ended.stdout)["results"]
    except (ValueError, KeyError):
        last = (ended.stderr.strip().splitlines() or ["no output"])[-1]
        return Line(part, store, seed, "-", [f"it ended with an error: {last}"], " ".join(command))
    return Line(
        *(
            part,
            store,
            seed,
            result["seen"],
            result["problems"],
            result["replay"],
            result["seconds"],
        ),
        result["counts"],
    )


# ---- what is about this repository -----------------------------------------------------------


def _caught() -> Line:
    """Every mutant is caught by its layer, each within its time."""
    return _tests("mutants", "--timeout", "60", *EVERY_TEST, *CATCHERS)


def _wire() -> Line:
    """One write to PostgreSQL, cut and stopped by a proxy at and within each of its messages."""
    return replace(_tests("wire", "--timeout", "600", *EVERY_TEST, WIRE), store="postgres")


def _left_out() -> Line:
    """The tests that `./dev test` leaves out. Mutants and `wire` have parts of their own."""
    others = (f"--deselect={each}" for each in (*CATCHERS, WIRE))
    return _tests("tests", "-m", "full", *others)


def _fuzzing(names: Sequence[str], seconds: float) -> Line:
    """Parsers with inputs that reach new branches; the inputs are kept."""
    begun_s = time.monotonic()
    counts: Counter[str] = Counter()
    problems = []
    with tempfile.TemporaryDirectory() as made:
        for each in fuzz.fuzzed(names, seconds, Path(made)):
            fuzz.keep_inputs(each, Path(made))
            counts.update({"parsers": 1, "seconds of processor time": round(each["cpu_s"])})
            counts["inputs"] += each.get("calls", 0)
            problems += [f"{each['parser']} failed"] if "failed" in each else []
    seen, replay = _counted(counts), "./dev fuzz PARSER"
    passed_s = time.monotonic() - begun_s
    return Line("fuzzing", "-", "-", seen, problems, replay, passed_s, counts)


def _tests(part: str, *arguments: str) -> Line:
    begun_s = time.monotonic()
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--no-header", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    last = (ended.stdout.strip().splitlines() or ["no output"])[-1]
    problems = [] if ended.returncode == 0 else [last]
    command = f"python -m pytest {shlex.join(arguments)}"
    seconds = time.monotonic() - begun_s
    return Line(part, "-", "-", last.partition(" in ")[0], problems, command, seconds)


def _unseen_by_unit_tests() -> Line:
    """Enough of the mutants pass the ordinary unit tests; the page of mutants says which."""
    begun_s = time.monotonic()
    verdicts = [mutants.judge(name) for name in mutants.mutants()]
    mutants.write(verdicts)
    counting = sum(each.counts for each in verdicts)
    problems = [] if counting >= LEAST_MUTANTS else [f"only {counting} pass the unit tests"]
    seen = f"{counting} of {len(verdicts)} mutants pass {', '.join(mutants.UNIT_TESTS)}"
    seconds = time.monotonic() - begun_s
    return Line(
        "unit-tests-of-mutants", "-", "-", seen, problems, "python -m tools.mutants", seconds
    )


def _traces() -> Line:
    """The logs of simulations are sequences of steps of the TLA+ model of their lifecycle."""
    begun_s = time.monotonic()
    command = [sys.executable, "-m", "verification.lifecycle_model"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    lines = (ended.stdout or ended.stderr).strip().splitlines() or ["no output"]
    problems = [] if ended.returncode == 0 else [lines[-1]]
    replay = "python -m verification.lifecycle_model"
    return Line("traces", "sqlite", "0", lines[0], problems, replay, time.monotonic() - begun_s)


def _failovers(rounds: int) -> Line:
    """The leader of PostgreSQL under Patroni is killed, cut off and switched over, under load."""
    begun_s = time.monotonic()
    arguments = ["-m", "verification.patroni", "--rounds", str(rounds), "--defaults"]
    command = [sys.executable, *arguments]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    seen = "; ".join(line for line in ended.stdout.splitlines() if not line.startswith("  "))
    problems = [line.strip() for line in ended.stdout.splitlines() if line.startswith("  ")]
    if ended.returncode and not problems:
        problems = [(ended.stderr.strip().splitlines() or ["no output"])[-1]]
    replay = f"python {' '.join(arguments)}"
    return Line("failovers", "postgres", "-", seen, problems, replay, time.monotonic() - begun_s)


def _ray() -> Line:
    """1,000 runs on a Ray cluster whose nodes are killed: each is counted once."""
    command = [sys.executable, "-m", "verification.ray_node_kills"]
    begun_s = time.monotonic()
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    replay, seconds = "python -m verification.ray_node_kills", time.monotonic() - begun_s
    try:
        found = json.loads(ended.stdout.strip().splitlines()[-1])
    except (ValueError, IndexError):
        last = (ended.stderr.strip().splitlines() or ["no output"])[-1]
        return Line("ray", "sqlite", "-", "-", [f"it ended with an error: {last}"], replay, seconds)
    return Line("ray", "sqlite", "-", found["seen"], found["problems"], replay, seconds)


def _dependencies() -> Line:
    begun_s = time.monotonic()
    found = dependencies.audit(online=True)
    seen = "; ".join(found.checked)
    if found.unchecked:
        seen += f"; not checked: {len(found.unchecked)}, such as {found.unchecked[0]}"
    seconds = time.monotonic() - begun_s
    command = "python -m tools.dependencies --online"
    return Line("dependencies", "-", "-", seen, found.problems, command, seconds)


OWN: Mapping[str, Job] = {
    "wire": _wire,
    "tests": _left_out,
    "traces": _traces,
    "mutants": _caught,
    "unit-tests-of-mutants": _unseen_by_unit_tests,
    "dependencies": _dependencies,
    "ray": _ray,
}


# ---- the results page ------------------------------------------------------------------------

HEAD = """\
# Fault-injection results

`./dev faults` writes this page. Each row is the last run of one part: its seed, what it observed
and its result. [How detent is tested](testing.md) explains the parts. A row stays until its part
runs again, so each row has its own time and versions.

| part | store | seed | observed | result | seconds | time | versions |
|---|---|---|---|---|---|---|---|
"""


def versions() -> str:
    """Of everything that a result may depend on."""
    return ", ".join(
        (
            f"detent {metadata.version('detent')} at {_commit()}",
            f"Python {platform.python_version()}",
            f"SQLite {apsw.sqlite_lib_version()}",
            f"PostgreSQL {find_binaries()[0].version}",
            f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        )
    )


def _commit() -> str:
    found = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return found.stdout.strip() or "an unknown commit"


def enter(lines: Sequence[Line], path: Path = RESULTS_PAGE) -> None:
    """Put lines in the place of those about the same, and keep the rest."""
    rows = _rows(path.read_text("utf-8")) if path.exists() else {}
    when = datetime.now(UTC).strftime("%Y-%m-%d %H:%M")
    version = versions()
    for line in together(lines):
        rows[line.part, line.store] = line.row(when, version)
    order = sorted(rows, key=lambda key: (PARTS.index(key[0]), key[1]))
    path.write_text(HEAD + "".join(f"{rows[key]}\n" for key in order), "utf-8")


def together(lines: Sequence[Line]) -> list[Line]:
    """One line for each part on each store, also if it was cut into several runs."""
    groups: dict[tuple[str, str], list[Line]] = {}
    for line in lines:
        groups.setdefault((line.part, line.store), []).append(line)
    return [each[0] if len(each) == 1 else _sum(each) for each in groups.values()]


def _sum(lines: Sequence[Line]) -> Line:
    counts: Counter[str] = Counter()
    for line in lines:
        counts.update(line.counts)
    seeds = sorted({line.seed for line in lines if line.seed != "-"}, key=int)
    return replace(
        lines[0],
        seed=f"{', '.join(seeds)} and on" if seeds else "-",
        seen=f"{len(lines)} runs: {_counted(counts)}",
        problems=[problem for line in lines for problem in line.problems],
        seconds=sum(line.seconds for line in lines),
    )


def _counted(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in counts.items())


def _rows(text: str) -> dict[tuple[str, str], str]:
    found = {}
    for line in text.removeprefix(HEAD).splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) > 3 and cells[1] in PARTS:
            found[cells[1], cells[2]] = line
    return found


# ---- the command -----------------------------------------------------------------------------


@click.command()
@click.option("--only", multiple=True, type=click.Choice(PARTS), help="A part alone; repeatable.")
@click.option("--seed", default=1, show_default=True)
@click.option("--minutes", default=5.0, show_default=True, help="Of the chaos run, on each store.")
@click.option("--steps", default=1_000_000, show_default=True, help="Of the simulation.")
@click.option(
    "--share",
    type=click.FloatRange(0, 1_000, min_open=True),
    default=1.0,
    show_default=True,
    help="The share of the full size of the counted parts; 10 runs ten times as much.",
)
@click.option("--lanes", default=2, show_default=True, help="How many parts at a time.")
@click.option(
    "--quick", is_flag=True, help="A little of everything, and no entry on the results page."
)
def main(
    only: tuple[str, ...],
    seed: int,
    minutes: float,
    steps: int,
    share: float,
    lanes: int,
    quick: bool,
) -> None:
    """Run all fault injection of this repository, and write the results page."""
    size = Size(seed, minutes, 4_000 if quick else steps, quick, share)
    lines: list[Line] = []
    writing = threading.Lock()

    def go(job: Job) -> None:
        line = job()
        with writing:
            lines.append(line)
            _tell(line)
            if not quick:
                enter(lines)

    with ThreadPoolExecutor(lanes) as pool:
        for each in [pool.submit(go, job) for job in jobs(only, size)]:
            each.result()
    sys.exit(1 if any(line.problems for line in lines) else 0)


def _tell(line: Line) -> None:
    verdict = "FAILED" if line.problems else "passed"
    click.echo(f"{line.part} on {line.store}: {verdict} after {line.seconds:.0f} s: {line.seen}")
    for problem in line.problems[:20]:
        click.echo(f"  {problem}")
    if line.problems:
        click.echo(f"  replay: {line.replay}")


if __name__ == "__main__":
    main()
