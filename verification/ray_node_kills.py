"""Many runs on a Ray cluster whose nodes are killed: every job completes, and once.

`python -m verification.ray_node_kills` starts a cluster and prints one line of JSON. A job that ran
on a killed node is executed again; only one of its executions may be counted.
"""

import json
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from detent.engine import Engine
from detent.operations.context import Core
from detent.settings import Settings
from detent.store.port import ReadTransaction
from detent.store.store_url import open_store
from detent.store.types import Query
from detent.testing.audit import audit
from detent.worker.runners.ray.ray_connection import RayConnection
from detent.worker.worker import Worker
from verification import ray_work
from verification.ray_cluster import RayCluster

WORKERS_SLOTS = 200
NODE = {"num_cpus": 2}
DEADLINE_S = 3_600.0


@dataclass(slots=True)
class Result:
    """What was observed."""

    runs: int
    kills: int
    #: Executions that began on a node; those above the number of runs were repeated.
    executions: int = 0
    repeated: int = 0
    lost_runs: int = 0
    seconds: float = 0.0
    problems: list[str] = field(default_factory=list)

    def seen(self) -> str:
        counted = "some jobs not counted once" if self.problems else "each job counted once"
        return (
            f"{self.runs:,} jobs, {self.kills} nodes killed, {self.lost_runs} runs lost, "
            f"{self.executions:,} executions, {counted}"
        )


def run(cluster: RayCluster, core: Core, directory: Path, runs: int, kills: int) -> Result:
    """Submit the jobs, kill nodes while they run, and check every job."""
    begun_s = time.monotonic()
    result = Result(runs, kills)
    nodes = [cluster.add_node(**NODE) for _ in range(2)]
    log = directory / "executions"
    with Worker(core, ray_work.app, coroutines=WORKERS_SLOTS):
        handles = [
            ray_work.count.submit(n, log=str(log), seconds=0.05 + (n % 7) / 20) for n in range(runs)
        ]
        for number in range(1, kills + 1):
            _wait(core, number * runs // (kills + 1))
            cluster.kill_node(nodes.pop(0))
            nodes.append(cluster.add_node(**NODE))
        _wait(core, runs)
    for node in nodes:
        cluster.kill_node(node)
    with core.store.read() as view:
        _check(view, [handle.job_id for handle in handles], result)
    executed = Counter(line.split()[0] for line in log.read_text().splitlines())
    result.executions = executed.total()
    result.repeated = sum(1 for count in executed.values() if count > 1)
    result.problems += [
        f"job {handle.job_id} was never executed"
        for handle in handles
        if not executed[handle.job_id]
    ]
    audit(core.store)
    result.seconds = time.monotonic() - begun_s
    return result


def _check(view: ReadTransaction, ids: list[str], result: Result) -> None:
    jobs = {job.id: job for job, _ in view.jobs(ids)}
    for n, job_id in enumerate(ids):
        rows = view.page(Query("runs", {"job_id": job_id}, "queued_at", limit=1_000))
        states = Counter(str(row["state"]) for row in rows)
        result.lost_runs += sum(row["error_class"] == "lost" for row in rows)
        job = jobs[job_id]
        if job.state != "completed" or states["succeeded"] != 1:
            result.problems.append(f"job {job_id} is {job.state}, its runs: {dict(states)}")
        elif job.result[0] != n:
            result.problems.append(f"job {job_id} has the result of another job: {job.result}")


def _wait(core: Core, count: int) -> None:
    """Wait until this many jobs have ended."""
    end_s = time.monotonic() + DEADLINE_S
    while _ended(core) < count:
        if time.monotonic() > end_s:
            raise TimeoutError(f"{_ended(core)} of {count} jobs ended within {DEADLINE_S} s")
        time.sleep(0.1)


def _ended(core: Core) -> int:
    with core.store.read() as view:
        states = view.count_by(Query("jobs", {"intent": "count"}), "state")
    return sum(states.get(state, 0) for state in ("completed", "failed", "cancelled"))


@contextmanager
def installation(directory: Path, cluster: RayCluster) -> Iterator[Core]:
    """A store in the directory whose workers use the cluster."""
    settings = Settings(store_data_dir=str(directory), ray_address=cluster.address)
    store = open_store(settings.url)
    try:
        yield Core(store, Engine(store), settings)
    finally:
        store.close()


@click.command()
@click.option("--runs", default=1_000, show_default=True)
@click.option("--kills", default=10, show_default=True)
def main(runs: int, kills: int) -> None:
    """Run the node-kill test on a cluster of its own."""
    with TemporaryDirectory() as made, RayCluster() as cluster:
        directory = Path(made)
        RayConnection.prefix = cluster.prefix
        with installation(directory, cluster) as core:
            result = run(cluster, core, directory, runs, kills)
    print(json.dumps({"seen": result.seen(), **asdict(result)}))
    sys.exit(bool(result.problems))


if __name__ == "__main__":
    main()
