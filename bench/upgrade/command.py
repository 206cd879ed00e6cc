"""`python -m bench upgrade`: a rolling upgrade to a simulated next release under load.

Gateways, keepers and workers of the wheel of this release run on PostgreSQL while a client submits
jobs at a steady rate. The next release migrates the schema and replaces every process, one by one.
Each acknowledged job must be completed once, `detent verify` of both releases must find no
difference, and no submission may wait longer than a second for its acknowledgement.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import psycopg

from bench.upgrade.next_release import make_next_release
from detent import Client
from detent.errors import Unavailable
from tests.e2e.installation import wait_until
from tests.plugins.wheel import environment
from tests.ports import free_port
from tools.package import build, uv
from verification.postgres_server import Server

#: The connections of the client; the gateways take turns.
CONNECTIONS = 8
MAX_WAIT_S = 1.0
STOP_S = 60.0
APP = """
from detent import App

app = App()


@app.intent("nothing")
def nothing() -> None:
    pass
"""


class Program(NamedTuple):
    """detent of one release: the directory of its Python, and that of its wheel if it differs."""

    bin_dir: Path
    packages: Path | None = None

    def command(self, *arguments: str) -> list[str]:
        return [str(self.bin_dir / "python"), "-m", "detent", *arguments]

    @property
    def variables(self) -> Mapping[str, str]:
        return {} if self.packages is None else {"PYTHONPATH": str(self.packages)}


def next_program(bin_dir: Path, wheel: Path, place: Path) -> Program:
    """The next release, in front of this one in an environment that has its dependencies."""
    packages = place / "next"
    made = make_next_release(wheel, place)
    uv("pip", "install", "--offline", "--no-deps", "--target", str(packages), str(made))
    return Program(bin_dir, packages)


class Gateway(NamedTuple):
    """Where a gateway listens; its successor has the same address and data."""

    url: str
    token: str


class Outcome(NamedTuple):
    """What a client noticed of the upgrade."""

    acknowledged: int
    per_second: float
    #: Submissions that a gateway refused or left without a response, and the most attempts of one.
    refused: int
    most_refusals: int
    #: From the first attempt to the acknowledgement.
    longest_wait_s: float


# ---- the client --------------------------------------------------------------------------------


class Load:
    """Submits jobs at a steady rate; a gateway that does not answer is left for the other one."""

    def __init__(self, gateways: Sequence[Gateway], rate: float) -> None:
        self._gateways, self._rate = gateways, rate
        self._lock, self._over = threading.Lock(), threading.Event()
        self.acknowledged: list[str] = []
        self.waits_s: list[float] = []
        self._refusals: list[int] = []
        self._failed: list[BaseException] = []
        self._begun = time.monotonic()
        self._threads = [
            threading.Thread(target=self._submit_all, args=(number,))
            for number in range(CONNECTIONS)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def wait_for_more(self, count: int) -> None:
        """Wait until this many more submissions were acknowledged."""
        wanted = len(self.acknowledged) + count
        wait_until(lambda: self._failed or len(self.acknowledged) >= wanted, "more submissions")

    def stop(self) -> Outcome:
        self._over.set()
        for thread in self._threads:
            thread.join()
        if self._failed:
            raise self._failed[0]
        took_s = time.monotonic() - self._begun
        count, refused = len(self.acknowledged), [each for each in self._refusals if each]
        most = max(refused, default=0)
        return Outcome(count, count / took_s, len(refused), most, max(self.waits_s))

    def _submit_all(self, number: int) -> None:
        try:
            with ExitStack() as stack:
                clients = [
                    stack.enter_context(Client(each.url, each.token, retries=0, timeout_s=5.0))
                    for each in self._gateways
                ]
                turn = number
                while not self._over.wait(self._begun + turn / self._rate - time.monotonic()):
                    self._submit(clients, f"load-{turn}", turn)
                    turn += CONNECTIONS
        except BaseException as error:
            self._failed.append(error)

    def _submit(self, clients: Sequence[Client], key: str, turn: int) -> None:
        begun, refusals = time.monotonic(), 0
        while True:
            try:
                made = clients[(turn + refusals) % len(clients)].submit("nothing", key=key).id
                break
            except Unavailable:
                refusals += 1
                if time.monotonic() > begun + STOP_S:
                    raise
        with self._lock:
            self.acknowledged.append(made)
            self.waits_s.append(time.monotonic() - begun)
            self._refusals.append(refusals)


# ---- the installation --------------------------------------------------------------------------


class Installation:
    """The processes of both releases on one database."""

    def __init__(self, url: str, place: Path) -> None:
        self.url, self.place = url, place
        (place / "work.py").write_text(APP)

    def run(self, program: Program, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """A command of one of the releases."""
        return subprocess.run(
            program.command(*arguments),
            cwd=self.place,
            env=self._environment(program, "console"),
            capture_output=True,
            text=True,
            check=False,
        )

    @contextmanager
    def started(
        self, program: Program, name: str, *arguments: str, **variables: str
    ) -> Iterator[Callable[[], None]]:
        """A process that is ready; what is given stops it."""
        log = self.place / f"{name}-{len(list(self.place.glob('*.log')))}.log"
        with log.open("wb") as opened:
            process = subprocess.Popen(
                program.command(*arguments),
                cwd=self.place,
                env={**self._environment(program, name), **variables},
                stdout=opened,
                stderr=opened,
            )

        def is_ready() -> bool:
            if process.poll() is not None:
                raise RuntimeError(f"{name} has ended:\n{log.read_text()}")
            return "Ready" in log.read_text()

        def stop() -> None:
            process.terminate()
            if process.wait(STOP_S):
                raise RuntimeError(f"{name} ended with an error:\n{log.read_text()}")

        try:
            wait_until(is_ready, f"{name} is ready")
            yield stop
        finally:
            process.kill()
            process.wait()

    def _environment(self, program: Program, name: str) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.place),
            "DETENT_STORE_URL": self.url,
            "DETENT_STORE_DATA_DIR": str(self.place / name),
            **program.variables,
        }

    def count(self, query: str) -> int:
        with psycopg.connect(self.url, autocommit=True) as connection:
            (row,) = connection.execute(query.encode()).fetchall()
        return int(row[0])


class Processes:
    """The processes by role, each of which is replaced by one of the next release."""

    def __init__(self, made: Installation, stack: ExitStack) -> None:
        self.made, self._stack = made, stack
        self._stops: dict[str, Callable[[], None]] = {}

    def start(self, program: Program, name: str, *arguments: str, **variables: str) -> None:
        self._stops[name] = self._stack.enter_context(
            self.made.started(program, name, *arguments, **variables)
        )

    def stop(self, name: str) -> None:
        self._stops.pop(name)()

    def gateway(self, program: Program, name: str, port: int) -> Gateway:
        self.start(program, name, "serve", "--port", str(port))
        url = f"http://127.0.0.1:{port}"
        wait_until(lambda: _is_ready(url), f"{url} is ready")
        return Gateway(url, (self.made.place / name / "token").read_text("ascii").strip())

    def worker(self, program: Program, name: str) -> None:
        self.start(program, name, "worker", "--app", "work:app", DETENT_WORKER_NAME=name)

    def keeper(self, program: Program, name: str) -> None:
        self.start(program, name, "keeper")

    def drain(self, program: Program, name: str) -> None:
        """Stop a worker that has finished its jobs."""
        _checked(self.made.run(program, "workers", "drain", name))
        held = f"SELECT count(*) FROM leases WHERE worker = '{name}'"
        wait_until(lambda: self.made.count(held) == 0, f"{name} has no job")
        self.stop(name)


def _is_ready(url: str) -> bool:
    try:
        return httpx2.get(f"{url}/ready", timeout=2).status_code == 200
    except httpx2.HTTPError:
        return False


def _checked(done: "subprocess.CompletedProcess[str]") -> str:
    if done.returncode:
        raise RuntimeError(f"{done.args[2:]} failed: {done.stdout}{done.stderr}")
    return done.stdout


# ---- the upgrade -------------------------------------------------------------------------------


def upgrade(
    made: Installation, old: Program, new: Program, rate: float, pause: int, workers: int
) -> Outcome:
    """Replace every process under load; after each step, `pause` submissions are acknowledged."""
    ports = [free_port(), free_port()]
    names = [f"worker-{number}" for number in range(workers)]
    with ExitStack() as stack:
        processes = Processes(made, stack)
        gateways = [
            processes.gateway(old, f"gateway-{number}", port) for number, port in enumerate(ports)
        ]
        processes.keeper(old, "keeper")
        for name in names:
            processes.worker(old, name)
        load = Load(gateways, rate)
        stack.callback(load.stop)
        load.start()
        load.wait_for_more(pause)
        _checked(made.run(new, "db", "upgrade"))
        load.wait_for_more(pause)
        _check_unfinished(made, new)
        processes.keeper(new, "next-keeper")
        processes.stop("keeper")
        for number, port in enumerate(ports):
            processes.stop(f"gateway-{number}")
            processes.gateway(new, f"gateway-{number}", port)
            load.wait_for_more(pause)
        for name in names:
            processes.worker(new, f"next-{name}")
            processes.drain(old, name)
            load.wait_for_more(pause)
        outcome = load.stop()
        _check_jobs(made, load.acknowledged)
    _check_programs(made, old, new)
    return outcome


def _check_unfinished(made: Installation, new: Program) -> None:
    """The upgrade cannot be finished while processes of this release run."""
    done = made.run(new, "db", "upgrade", "--finish")
    if done.returncode == 0 or "cannot be finished: it is in use by" not in done.stderr:
        raise RuntimeError(f"the upgrade was finished too early: {done.stdout}{done.stderr}")


def _check_jobs(made: Installation, acknowledged: Sequence[str]) -> None:
    """Each acknowledged job was completed once, and there are no others."""
    completed = "SELECT count(*) FROM jobs WHERE state = 'completed'"
    completions = "SELECT count(*) FROM events WHERE name = 'job_completed'"
    count = len(set(acknowledged))
    wait_until(lambda: made.count(completed) >= count, f"{count} jobs are completed")
    # Events have positions, and are listed, shortly after their commit.
    wait_until(lambda: made.count(completions) >= count, f"{count} completions are in the log")
    found = {
        "acknowledged": len(acknowledged),
        "jobs": made.count("SELECT count(*) FROM jobs"),
        "completed": made.count(completed),
        "succeeded runs": made.count("SELECT count(*) FROM runs WHERE state = 'succeeded'"),
        "completions": made.count(completions),
    }
    if set(found.values()) != {count}:
        raise RuntimeError(f"not every job was completed once: {found}")


def _check_programs(made: Installation, old: Program, new: Program) -> None:
    """Both releases find no difference; then the upgrade is finished, and the old one refuses."""
    for program in (old, new):
        _checked(made.run(program, "verify"))
    _checked(made.run(new, "db", "upgrade", "--finish"))
    log = made.count("SELECT count(*) FROM events")
    for arguments in (["worker", "--app", "work:app"], ["verify"]):
        done = made.run(old, *arguments)
        if done.returncode == 0 or "which cannot use it" not in done.stderr:
            raise RuntimeError(f"the old release does not refuse: {done.stdout}{done.stderr}")
    _checked(made.run(new, "verify"))
    if made.count("SELECT count(*) FROM events") != log:
        raise RuntimeError("the old release has written events")


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="bench upgrade", description=__doc__)
    parser.add_argument("--rate", type=float, default=200.0, help="submissions per second")
    parser.add_argument("--pause", type=int, default=1_000, help="submissions after each step")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result there too")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="detent-upgrade-") as directory:
        outcome = _measured(Path(directory), options.rate, options.pause)
    document: dict[str, Any] = {"rate": options.rate, **outcome._asdict()}
    print(json.dumps(document, indent=2))
    if options.json is not None:
        options.json.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    if outcome.longest_wait_s > MAX_WAIT_S:
        print(f"a submission waited longer than {MAX_WAIT_S} s", file=sys.stderr)
        return 1
    return 0


def _measured(place: Path, rate: float, pause: int) -> Outcome:
    for name in ("wheel", "environment", "pg", "processes"):
        (place / name).mkdir()
    wheel = build("wheel", place / "wheel")
    old = Program(environment(place / "environment", wheel, ("postgres",)))
    new = next_program(old.bin_dir, wheel, place)
    with Server.start(place / "pg") as server:
        made = Installation(server.create_database("upgrade"), place / "processes")
        return upgrade(made, old, new, rate, pause, workers=2)
