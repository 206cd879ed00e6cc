"""What is measured on several machines: throughput by workers, a restart, and a failover.

Runs on the machine of the database. A scene that loses what was acknowledged fails; the rest is
figures.
"""

import json
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import psycopg

from bench import ROOT
from bench.machines.installation import Installation, until
from bench.machines.pooler import Pooler
from bench.workloads.worker import submit
from detent.integrity.verify import verify
from detent.operations.context import Core
from detent.service import open_core
from detent.settings import Loaded, Settings
from verification.network import Machine

SAMPLE_S = 0.02
#: How long the costs of idle processes are measured.
IDLE_S = 2.0
#: When, of all that is submitted, the database goes away.
TURN = 0.35
#: The name under which we ourselves are connected.
OURS = "bench"
#: Whose connection each one is, by address; ours not.
CONNECTIONS = f"""
SELECT host(client_addr) FROM pg_stat_activity
WHERE datname = current_database() AND backend_type = 'client backend'
  AND application_name <> '{OURS}'
"""


class Size(NamedTuple):
    """How much there is to do."""

    #: Jobs that do nothing, and jobs that wait for another service, for each number of workers.
    nothing: int = 3_000
    sleep: int = 2_400
    #: Submissions of a client while the database restarts or fails over, and how many a second.
    submissions: int = 800
    rate: int = 100


# ---- throughput ------------------------------------------------------------------------------


def throughput(
    made: Installation, machines: list[Machine], size: Size, pooler: Pooler | None
) -> list[dict[str, Any]]:
    """Jobs per second and the most connections, with one worker, two, and as many as there are."""
    found = []
    counts = sorted({1, min(2, len(machines)), len(machines)})
    with core_of(made.console) as core:
        for count in counts:
            for machine in machines[made.workers : count]:
                made.worker(machine)
            idle = _idle_cores(made, pooler)
            for intent in ("nothing", "sleep"):
                jobs, cpu_s = getattr(size, intent), _cpu_s()
                with connections(made, pooler) as most:
                    rate = drained(made, core, intent, jobs)
                cost = (_cpu_s() - cpu_s) / jobs - idle / rate
                row = {"workers": count, "work": intent, "jobs_per_s": rate}
                found.append({**row, "cpu_us_per_job": cost * 1e6, "idle_cores": idle, **most})
    return found


def _cpu_s() -> float:
    """The CPU time of this process and of all that it has started: server, pooler and detent.

    The time of a process that has ended is in that of its parent.
    """
    ours, total = psutil.Process(), 0.0
    for each in (ours, *ours.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):
            total += sum(each.cpu_times()[:4])
    return total


def _idle_cores(made: Installation, pooler: Pooler | None) -> float:
    """The CPU time per second of all processes without jobs, and of the measurement itself."""
    begun, cpu_s = time.perf_counter(), _cpu_s()
    with connections(made, pooler):
        until(lambda: made.completed() >= 0 and time.perf_counter() > begun + IDLE_S, "it is idle")
    return (_cpu_s() - cpu_s) / (time.perf_counter() - begun)


def drained(made: Installation, core: Core, intent: str, count: int) -> float:
    before = made.completed()
    begun = time.perf_counter()
    submit(core, intent, count)
    until(lambda: made.completed() >= before + count, f"{count} jobs {intent} are completed")
    return count / (time.perf_counter() - begun)


@contextmanager
def core_of(url: str) -> Iterator[Core]:
    """A core on a store, with a data directory that is removed with it."""
    with tempfile.TemporaryDirectory(prefix="detent-bench-") as directory:
        settings = Settings(store_url=url, store_data_dir=directory)
        with open_core(Loaded(settings, {}, {}, None)) as core:
            yield core


@contextmanager
def connections(made: Installation, pooler: Pooler | None) -> Iterator[dict[str, Any]]:
    """The most connections at a time: to the server, by machine, and to the pooler."""
    most: dict[str, Any] = {"server_connections": 0, "by_machine": {}}
    over = threading.Event()

    def look() -> None:
        with psycopg.connect(made.console, autocommit=True) as connection:
            name = connection.info.dbname
            while not over.wait(SAMPLE_S):
                seen = Counter(connection.execute(CONNECTIONS.encode()).fetchall())
                _raise(most, "server_connections", seen.total())
                for (address,), count in seen.items():
                    if machine := made.name_of(str(address)):
                        _raise(most["by_machine"], machine, count)
                if pooler is not None:
                    _raise(most, "pooler_connections", pooler.clients(name))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield most
    finally:
        over.set()
        thread.join()


def _raise(most: dict[str, Any], name: str, count: int) -> None:
    most[name] = max(count, most.get(name, 0))


# ---- the database goes away ------------------------------------------------------------------


def interrupted(
    made: Installation, client: Machine, size: Size, name: str, interrupt: Callable[[], None]
) -> dict[str, Any]:
    """A client submits all the while; its acknowledged submissions are compared with the store."""
    order = {
        "gateways": made.gateways,
        "count": size.submissions,
        "rate": size.rate,
        "name": name,
    }
    command = client.command([sys.executable, "-m", "bench.machines.submitter", json.dumps(order)])
    acknowledged: list[tuple[float, str]] = []
    before = set(_states(made))
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        away_s = None
        for line in process.stdout:
            at_s, job_id = json.loads(line)
            acknowledged.append((at_s, job_id))
            if away_s is None and len(acknowledged) >= TURN * size.submissions:
                begun = time.perf_counter()
                interrupt()
                away_s = time.perf_counter() - begun
        if process.wait() or away_s is None:
            raise RuntimeError(f"{name}: the client gave up after {len(acknowledged)} submissions")
    return {
        **_outcome(made, [job for _, job in acknowledged], before),
        **_gap(acknowledged),
        "database_away_s": away_s,
    }


def _gap(acknowledged: list[tuple[float, str]]) -> dict[str, float]:
    """The longest time in which nothing was acknowledged."""
    times = sorted(at_s for at_s, _ in acknowledged)
    return {"longest_gap_s": max(after - before for before, after in pairwise(times))}


def _states(made: Installation) -> dict[str, str]:
    """The state of every job."""
    with psycopg.connect(made.console, autocommit=True) as connection:
        rows = connection.execute("SELECT id, state FROM jobs").fetchall()
    found: dict[str, str] = dict(rows)
    return found


def _outcome(made: Installation, acknowledged: list[str], before: set[str]) -> dict[str, Any]:
    """Everything acknowledged is done, nothing is there twice, and rows and log agree."""
    wanted = set(acknowledged)
    waiting = f"{len(wanted)} acknowledged jobs are completed"
    until(lambda: made.completed() >= len(before | wanted), waiting)
    states = _states(made)
    lost = [each for each in wanted if states.get(each) != "completed"]
    with core_of(made.console) as core:
        differences = len(verify(core.store).differences)
    return {
        "acknowledged": len(wanted),
        "lost": len(lost),
        "made_twice": len(states.keys() - before - wanted),
        "differences": differences,
    }


def place_for(parent: Path, name: str) -> Path:
    place = parent / name
    place.mkdir()
    return place
