"""Failovers under load: a leader is killed, cut off or switched over, and nothing may be lost.

Clients submit and complete work on the database and over HTTP during all faults and record every
acknowledgement. A worker on the side of the leader that is cut off holds a job meanwhile.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from verification.network import Machine
from verification.patroni.acknowledgements import WRITES, Acknowledgement, feed_of, read_record
from verification.patroni.cluster import (
    ClusterFailed,
    NoLeader,
    PatroniCluster,
    last_lines,
    patroni_cluster,
)
from verification.patroni.configuration import Timing

ROOT = Path(__file__).resolve().parents[2]
DATABASE = "detent"
GATEWAY_PORT = 5680
#: The load runs for this long before each fault and after the last one.
CALM_S = 0.3
#: Added to Patroni's times: the promotion, and clients that notice a lost server and try again.
NOTICE_S = 30.0
FAULTS = ("kill", "cut", "switchover")
STALE = "stale_fence"


@dataclass(slots=True)
class Outcome:
    """What happened: by fault, for how many seconds nothing was acknowledged."""

    gaps_s: dict[str, list[float]] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    #: The new cluster had no leader, so that no fault was injected.
    without_leader: bool = False
    seconds: float = 0.0

    def line(self) -> str:
        gaps = ", ".join(
            f"{len(each)} × {name} at most {max(each):.1f} s" for name, each in self.gaps_s.items()
        )
        counts = ", ".join(f"{name} {count:,}" for name, count in self.counts.items())
        return f"no acknowledgement during {gaps}; {counts}"


def run(directory: Path, timing: Timing, faults: Sequence[str] = FAULTS) -> Outcome:
    """Start a cluster and an installation, inject the faults, and check what they left."""
    outcome = Outcome()
    begun_s = time.monotonic()
    try:
        _run(directory, timing, faults, outcome)
    except ClusterFailed as error:
        what, _, logs = str(error).partition("\n")
        print(logs, file=sys.stderr)
        outcome.problems.append(f"after {outcome.gaps_s}: {what}")
        outcome.without_leader = isinstance(error, NoLeader) and not outcome.gaps_s
    outcome.seconds = time.monotonic() - begun_s
    return outcome


def _run(directory: Path, timing: Timing, faults: Sequence[str], outcome: Outcome) -> None:
    with patroni_cluster(directory, timing) as cluster:
        cluster.create_database(DATABASE)
        with Load(cluster) as load:
            for fault in faults:
                _inject(fault, load, outcome)
            load.proceed()
            load.stop_clients()
            _check(load, outcome)


class Load:
    """Processes of detent and clients on the machines of a cluster."""

    def __init__(self, cluster: PatroniCluster) -> None:
        self.cluster = cluster
        self.url = cluster.url(DATABASE)
        self._clients: list[subprocess.Popen[str]] = []
        #: Programs that run until they are stopped here, by the path of their log.
        self._lasting: dict[Path, subprocess.Popen[str]] = {}
        self._stack = ExitStack()
        self._records: dict[str, Path] = {}

    def __enter__(self) -> "Load":
        token = self._start_detent()
        here = self.cluster.clients
        address = f"http://{here.address}:{GATEWAY_PORT}"
        self.client(here, "http", [address, token], "http")
        self.client(here, "engine", [self.url], "engine")
        self.proceed()
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def client(self, machine: Machine, role: str, given: Sequence[str], name: str) -> None:
        """Start a client on a machine that writes a record until it is stopped."""
        self._records[name] = self.cluster.directory / f"{name}.jsonl"
        arguments = [*_client(role), *given, str(self._records[name])]
        self._clients.append(self.start(machine, arguments, f"client-{name}"))

    def holder(self, machine: Machine) -> "subprocess.Popen[str]":
        """Start a client that holds one job, and reports it when it reads a line."""
        command, pipe = [*_client("holder"), self.url], subprocess.PIPE
        with self._log("client-holder").open("a") as log:
            process = self._spawn(machine, command, stdin=pipe, stdout=pipe, stderr=log)
        self._clients.append(process)
        return process

    def start(self, machine: Machine, command: Sequence[str], name: str) -> "subprocess.Popen[str]":
        """Start a program that is to run until it is stopped; its output goes to its log."""
        with self._log(name).open("a") as log:
            process = self._spawn(machine, command, stdout=log, stderr=log)
        self._lasting[self._log(name)] = process
        return process

    def _spawn(
        self, machine: Machine, command: Sequence[str], **streams: Any
    ) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            machine.command(command),
            text=True,
            cwd=self.cluster.directory,
            env=self.environment,
            **streams,
        )
        self._stack.callback(process.wait)
        self._stack.callback(process.kill)
        return process

    def _log(self, name: str) -> Path:
        return self.cluster.directory / f"{name}.log"

    def until(self, holds: Callable[[], bool], what: str) -> None:
        """Wait for a condition; fail as soon as a program that is to run has ended."""

        def holds_while_running() -> bool:
            for log, process in self._lasting.items():
                if process.poll() is not None:
                    ended = f"{log.stem} ended with {process.returncode}"
                    raise ClusterFailed(f"{ended}\n{last_lines(log)}")
            return holds()

        self.cluster.until(holds_while_running, what)

    @property
    def environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "DETENT_STORE_URL": self.url,
            "DETENT_STORE_DATA_DIR": str(self.cluster.directory / "installation"),
            "DETENT_WORKER_LEASE_MS": "4000",
            "DETENT_WORKER_HEARTBEAT_MS": "1000",
            "DETENT_GATEWAY_PUBLIC": "true",
            "DETENT_GATEWAY_HOST": self.cluster.clients.address,
        }

    def detent(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """Run a command of detent to its end."""
        command = self.cluster.clients.command([_detent(), *arguments])
        return subprocess.run(
            command, capture_output=True, text=True, env=self.environment, check=False
        )

    def _start_detent(self) -> str:
        """`detent up`, once it is ready; returns the token of its owner."""
        arguments = [_detent(), "up", "--app", "verification.patroni.work:app"]
        self.start(self.cluster.clients, arguments, "detent-up")
        self.until(lambda: "Ready" in self._log("detent-up").read_text("utf-8"), "detent is ready")
        token = self.cluster.directory / "installation" / "token"
        return token.read_text("ascii").strip()

    def record(self, name: str) -> list[Acknowledgement]:
        return read_record(self._records[name])

    def is_completed(self, job_id: str) -> bool:
        found = [each for name in self._records for each in self.record(name)]
        return any(each.kind == "completed" and each.id == job_id for each in found)

    def proceed(self) -> None:
        """Wait until every client on the side of the clients has been acknowledged again."""
        since_s = time.monotonic()
        for name, kinds in (("http", ("task",)), ("engine", ("submitted", "completed"))):
            for kind in kinds:
                self.until(
                    lambda name=name, kind=kind: any(  # type: ignore[misc]
                        each.kind == kind and each.began > since_s + CALM_S
                        for each in self.record(name)
                    ),
                    f"{name} {kind} is acknowledged",
                )

    def acknowledged_s(self) -> list[float]:
        """The times of all acknowledgements of writes on the side of the clients."""
        found = [*self.record("http"), *self.record("engine")]
        return sorted(each.at for each in found if each.kind in WRITES)

    def stop_clients(self) -> None:
        for process in self._clients:
            process.kill()
            process.wait()

    @property
    def records(self) -> list[str]:
        """The files of all records, those of the feed too."""
        paths = [path for each in self._records.values() for path in (each, feed_of(each))]
        return [str(path) for path in paths if path.exists()]


def _client(role: str) -> list[str]:
    return [sys.executable, "-m", "verification.patroni.client", role]


def _detent() -> str:
    return str(Path(sys.executable).with_name("detent"))


# ---- the faults --------------------------------------------------------------------------------


def _inject(fault: str, load: Load, outcome: Outcome) -> None:
    """One fault, until all machines are in use again."""
    cluster = load.cluster
    begun_s = time.monotonic()
    if fault == "cut":
        _cut(load, outcome, len(outcome.gaps_s.get(fault, ())))
    else:
        lost = cluster.kill_leader() if fault == "kill" else cluster.switch_over()
        cluster.leader(other_than=lost)
        load.proceed()
        cluster.repair(lost)
    gap_s = longest_gap(load.acknowledged_s(), begun_s)
    outcome.gaps_s.setdefault(fault, []).append(gap_s)
    if gap_s > cluster.timing.ttl + cluster.timing.loop_wait + NOTICE_S:
        outcome.problems.append(f"{fault}: no acknowledgement for {gap_s:.1f} s")


def _cut(load: Load, outcome: Outcome, number: int) -> None:
    """Cut off the leader with clients on its side: one that writes, and one that holds a job."""
    cluster = load.cluster
    leader = cluster.leader()
    name = f"inside{number}"
    load.client(leader.machine, "engine", [load.url], name)
    holder = load.holder(leader.machine)
    held = _line_of(holder)
    load.until(lambda: bool(load.record(name)), "the client inside is acknowledged")
    cluster.cut_leader()
    cut_s = time.monotonic()
    cluster.leader(other_than=leader)
    load.proceed()
    connected_s = time.monotonic()
    cluster.repair(leader)
    outcome.problems += _acknowledged_inside(load.record(name), cut_s, connected_s)
    load.until(lambda: load.is_completed(held), "another worker has the held job")
    assert holder.stdin is not None
    holder.stdin.write("report\n")
    holder.stdin.flush()
    if (code := _line_of(holder)) != STALE:
        outcome.problems.append(f"the report of a stale worker was answered with {code!r}")


def _line_of(holder: "subprocess.Popen[str]") -> str:
    """The next line that the holder prints."""
    assert holder.stdout is not None
    line = holder.stdout.readline()
    if not line:
        raise ClusterFailed(f"the client that holds a job ended with {holder.wait()}")
    return line.strip()


def _acknowledged_inside(
    record: Sequence[Acknowledgement], cut_s: float, connected_s: float
) -> Iterator[str]:
    """Writes that a leader that was cut off has acknowledged."""
    for each in record:
        if each.kind in WRITES and cut_s < each.began and each.at < connected_s:
            yield f"a leader that was cut off acknowledged {each.kind} {each.id}"


def longest_gap(times_s: Sequence[float], since_s: float) -> float:
    """The longest time between two acknowledgements, from the last one before a moment on."""
    before = [each for each in times_s if each <= since_s]
    counted = [*before[-1:], *(each for each in times_s if each > since_s)]
    return max((b - a for a, b in pairwise(counted)), default=0.0)


# ---- the checks --------------------------------------------------------------------------------


def _check(load: Load, outcome: Outcome) -> None:
    compared = load.cluster.run(
        [
            *("env", f"PYTHONPATH={ROOT}", sys.executable),
            *("-m", "verification.patroni.acknowledgements", load.url, *load.records),
        ]
    )
    found = json.loads(compared.splitlines()[-1])
    outcome.counts = found["counts"]
    outcome.problems += found["problems"]
    verified = load.detent("verify")
    if verified.returncode:
        outcome.problems.append(f"detent verify: {verified.stdout}{verified.stderr}")
