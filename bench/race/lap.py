"""One entrant over the whole course, once: the processes that it runs and the figures of it.

One process enqueues, another one works; they share nothing but the store. What does not end in
time or ends badly raises `Missing` with the last thing it said.
"""

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from bench.jobs import directory
from bench.peers import ROOT
from bench.race.entrants import Entrant
from bench.race.environments import NODE, Missing, command, home
from bench.race.stores import store

SCRIPTS = Path(__file__).with_name("scripts")
WITHIN_S = 300


class Size(NamedTuple):
    """How much there is to do."""

    jobs: int = 2_000
    singles: int = 500
    pick_ups: int = 200
    workflows: int = 200


def once(entrant: Entrant, size: Size) -> dict[str, float]:
    """The figures of one run, by the name of the benchmark; what an entrant cannot do is left out.

    Everything happens in one store: jobs are enqueued and drained, then others are sent one by one
    to a worker that has nothing else to do, then workflows are run.
    """
    with directory() as place, store(entrant.store, place) as url:
        every = size.singles + size.jobs
        sent = _say(entrant, "enqueue", url, place, size.jobs, size.singles)
        worked = _say(entrant, "drain", url, place, every)
        figures = throughput(size, sent, worked["drain_s"])
        figures |= latency(_pick_up(entrant, url, place, size.pick_ups))
        if entrant.workflows:
            _say(entrant, "flows", url, place, size.workflows)
            flown = _say(entrant, "flow", url, place, size.workflows)
            figures["workflows"] = size.workflows / flown["drain_s"]
        return figures


def throughput(size: Size, sent: dict[str, Any], drain_s: float) -> dict[str, float]:
    """End to end is one job's share of enqueuing, in bulk where there is a way, and of draining."""
    single = size.singles / sent["single_s"]
    bulk = size.jobs / sent["bulk_s"] if sent["bulk_s"] else None
    drain = (size.singles + size.jobs) / drain_s
    figures = {
        "enqueue": single,
        "drain": drain,
        "end-to-end": 1 / (1 / (bulk or single) + 1 / drain),
    }
    return figures if bulk is None else {**figures, "bulk": bulk}


def latency(ms: list[float]) -> dict[str, float]:
    return {
        "pick-up p50": statistics.median(ms),
        "pick-up p99": statistics.quantiles(ms, n=100)[98],
    }


def _pick_up(entrant: Entrant, url: str, place: Path, count: int) -> list[float]:
    """The worker first, and a sender that begins when the worker has shown that it is there."""
    with _started(entrant, "pick-up", url, place, count) as worker:
        _say(entrant, "send", url, place, count)
        found: list[float] = _answer(worker)["ms"]
        return found


def _say(
    entrant: Entrant, act: str, url: str, place: Path, count: int, singles: int = 0
) -> dict[str, Any]:
    """Have a process do one act, and hear what it says."""
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
        said, complaint = process.communicate(timeout=WITHIN_S)
    except subprocess.TimeoutExpired:
        raise Missing(f"not finished within {WITHIN_S} s") from None
    lines = said.strip().splitlines()
    if process.returncode or not lines:
        last = complaint.strip().splitlines() or [f"exit code {process.returncode}"]
        raise Missing(last[-1][:300])
    answer: dict[str, Any] = json.loads(lines[-1])
    return answer
