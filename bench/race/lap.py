"""One measurement of one entrant: the processes that it runs, and its figures.

One process enqueues, another one works; they share nothing but the store. What does not end in
time or ends badly raises `Missing` with its last line of output.
"""

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from bench import ROOT
from bench.peers.environments import NODE, Missing, command, home
from bench.peers.stores import store
from bench.race.entrants import BARE, Entrant
from bench.workloads import jobs, jobs_postgres
from bench.workloads.jobs import directory

SCRIPTS = Path(__file__).with_name("scripts")
WITHIN_S = 300


class Size(NamedTuple):
    """How much there is to do."""

    jobs: int = 12_000
    singles: int = 200
    pick_ups: int = 100
    workflows: int = 2_000

    def of(self, entrant: Entrant) -> "Size":
        """What this one does of it."""
        jobs, workflows = (
            max(1, round(whole * entrant.share)) for whole in (self.jobs, self.workflows)
        )
        return self._replace(jobs=jobs, workflows=workflows)


def once(entrant: Entrant, whole: Size) -> dict[str, float]:
    """The figures of one run, by the name of the benchmark; what an entrant cannot do is left out.

    Everything happens in one store: jobs are enqueued and drained, then others are sent one by one
    to a worker that has nothing else to do, then workflows are run.
    """
    size = whole.of(entrant)
    if entrant.script == BARE:
        return {"end-to-end": bare_rows(entrant.store, size.jobs)}
    with directory() as place, store(entrant.store, place) as url:
        sent = run_act(entrant, "enqueue", url, place, size.jobs, size.singles)
        worked = run_act(entrant, "drain", url, place, sent["enqueued"])
        figures = throughput(size, sent, worked["drain_s"])
        figures |= latency(_pick_up(entrant, url, place, size.pick_ups))
        if entrant.workflows:
            run_act(entrant, "flows", url, place, size.workflows)
            flown = run_act(entrant, "flow", url, place, size.workflows)
            figures["workflows"] = size.workflows / flown["drain_s"]
        return figures


def throughput(size: Size, sent: dict[str, Any], drain_s: float) -> dict[str, float]:
    """End to end is one job's share of enqueuing, the quickest way there is, and of draining."""
    single = size.singles / sent["single_s"]
    together = sent["together"] / sent["together_s"] if sent["together_s"] else None
    bulk = size.jobs / sent["bulk_s"] if sent["bulk_s"] else None
    drain = sent["enqueued"] / drain_s
    quickest = max(rate for rate in (single, together, bulk) if rate is not None)
    figures = {
        "enqueue": single,
        "enqueue together": together,
        "bulk": bulk,
        "drain": drain,
        "end-to-end": 1 / (1 / quickest + 1 / drain),
    }
    return {name: figure for name, figure in figures.items() if figure is not None}


#: The rows of how many jobs are written in one transaction: what detent itself does under load.
ROWS_IN_BATCH = 1_000


def bare_rows(kind: str, count: int) -> float:
    """Jobs per second of the rows alone, submitted, claimed and completed."""
    replay = jobs.bare if kind == "sqlite" else jobs_postgres.bare
    return replay(count, _written(kind, count))


@cache
def _written(kind: str, count: int) -> Any:
    """What detent writes for this many jobs; recorded once."""
    return (jobs if kind == "sqlite" else jobs_postgres).written(count, ROWS_IN_BATCH)


def latency(ms: list[float]) -> dict[str, float]:
    return {
        "pick-up p50": statistics.median(ms),
        "pick-up p99": statistics.quantiles(ms, n=100)[98],
    }


def _pick_up(entrant: Entrant, url: str, place: Path, count: int) -> list[float]:
    """The worker first, and a sender that begins when the worker has shown that it is there."""
    with _started(entrant, "pick-up", url, place, count) as worker:
        run_act(entrant, "send", url, place, count)
        found: list[float] = _answer(worker)["ms"]
        return found


def run_act(
    entrant: Entrant, act: str, url: str, place: Path, count: int, singles: int = 0
) -> dict[str, Any]:
    """Have a process do one act; returns what it prints."""
    with _started(entrant, act, url, place, count, singles) as process:
        return _answer(process)


@contextmanager
def _started(
    entrant: Entrant, act: str, url: str, place: Path, count: int, singles: int = 0
) -> "Iterator[subprocess.Popen[str]]":
    script = SCRIPTS / entrant.script
    environment = entrant.environment
    call = [sys.executable, str(script)] if environment is None else command(environment, script)
    arguments = [act, url, str(place), str(count), str(singles), entrant.variant]
    variables = {**os.environ, "PYTHONPATH": str(ROOT)}
    if environment == NODE:
        variables["RACE_HOME"] = str(home(NODE))
    try:
        process = subprocess.Popen(
            [*call, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=variables,
            cwd=place,
        )
    except OSError as error:
        raise Missing(f"cannot be started: {error}") from error
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def _answer(process: "subprocess.Popen[str]") -> dict[str, Any]:
    try:
        reported, complaint = process.communicate(timeout=WITHIN_S)
    except subprocess.TimeoutExpired:
        raise Missing(f"not finished within {WITHIN_S} s") from None
    lines = reported.strip().splitlines()
    if process.returncode or not lines:
        last = complaint.strip().splitlines() or [f"exit code {process.returncode}"]
        raise Missing(last[-1][:300])
    answer: dict[str, Any] = json.loads(lines[-1])
    return answer
