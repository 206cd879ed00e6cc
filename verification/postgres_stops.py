"""Stops a process that writes to PostgreSQL at random points (SIGSTOP): others must continue.

`python -m verification.postgres_stops URL ROOT` is the process that is stopped. It writes without
a pause until it is killed.
"""

import itertools
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from detent.engine import CommandRequest, Engine
from detent.engine.claims import ClaimRequest
from detent.errors import DetentError, Unavailable
from detent.ids import new_id
from detent.integrity.verify import verify
from detent.kernel import commands as c
from detent.store.postgres import PostgresStore
from verification.postgres_server import Cluster

ACTOR = c.Actor("person:stops")
#: For how long a stopped process may hold rows here, so that a test need not wait for a minute.
HOLD_S = 1.0
#: Within this, another writer has gone on: it has room for a busy machine, and none for the usual
#: minute, after which the server would have ended the stopped session.
GOES_ON_S = 45.0
#: A stop comes at a random moment within this time, in which the process writes several times.
WITHIN_S = 0.02


@dataclass(slots=True)
class Outcome:
    """What was stopped, and what was wrong."""

    stops: int = 0
    slowest_s: float = 0.0
    problems: list[str] = field(default_factory=list)

    def line(self) -> str:
        return f"{self.stops} stops, the others went on within {self.slowest_s:.1f} s"


def run(cluster: Cluster, stops: int, seed: int = 1) -> Outcome:
    """Half of the stops with the usual time for locks, half with a short one.

    In the first half a writer that has nothing in common with the stopped one must go on although
    the stopped one may hold its rows; in the second half one that needs the same rows must.
    """
    outcome, chance = Outcome(), random.Random(seed)
    halves = (("", stops - stops // 2), (f"?max_hold_s={HOLD_S}", stops // 2))
    for number, (options, count) in enumerate(halves):
        name = f"stops_{new_id()}"
        url = cluster.create_database(name)
        try:
            _stop_often(url, options, count, chance, outcome, same_rows=bool(number))
        finally:
            cluster.drop_database(name)
    return outcome


def _stop_often(
    url: str, options: str, count: int, chance: random.Random, outcome: Outcome, *, same_rows: bool
) -> None:
    """The options are for those who write meanwhile; what comes before and after has its time."""
    with _engine(url) as calm, _engine(url + options) as engine:
        root = calm.do(c.SubmitTask(new_id(), "p", "board", "rest", "cli"), ACTOR)
        with _writer(url + options, root) as process:
            for _ in range(count):
                _stop_once(engine, process, chance, outcome, root if same_rows else None)
        outcome.problems += [str(each) for each in verify(calm.store).differences]


@contextmanager
def _engine(url: str) -> Iterator[Engine]:
    store = PostgresStore(url)
    try:
        yield Engine(store)
    finally:
        store.close()


def _stop_once(
    engine: Engine,
    process: "subprocess.Popen[bytes]",
    chance: random.Random,
    outcome: Outcome,
    root: str | None,
) -> None:
    head = _head(engine)
    _until(lambda: _head(engine) > head, "the process writes")
    time.sleep(chance.random() * WITHIN_S)  # not to wait for something: any moment will do
    process.send_signal(signal.SIGSTOP)
    try:
        begun_s = time.monotonic()
        command = _edit(root) if root else c.SubmitJob(new_id(), "p", "rest")
        _until(lambda: _is_done(engine, command), "another writer goes on", GOES_ON_S)
        outcome.stops += 1
        outcome.slowest_s = max(outcome.slowest_s, time.monotonic() - begun_s)
    except TimeoutError as error:
        outcome.problems.append(f"stop {outcome.stops + 1}: {error}")
    finally:
        process.send_signal(signal.SIGCONT)


def _is_done(engine: Engine, command: c.Command) -> bool:
    (result,) = engine.execute([CommandRequest(command, ACTOR)])
    if isinstance(result, DetentError) and not isinstance(result, Unavailable):
        raise result
    return not isinstance(result, Unavailable)


def _head(engine: Engine) -> int:
    with engine.store.read() as view:
        return view.head()


def _until(condition: Callable[[], bool], what: str, within_s: float = 60.0) -> None:
    deadline_s = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"waited {within_s:.0f} s in vain until {what}")


def _edit(root: str) -> c.EditTask:
    """Changes the row of a task, which is locked meanwhile."""
    return c.EditTask(root, {"title": new_id()})


# ---- the process that is stopped --------------------------------------------------------------


@contextmanager
def _writer(url: str, root: str) -> Iterator["subprocess.Popen[bytes]"]:
    command = [sys.executable, "-m", __name__, url, root]
    with subprocess.Popen(command) as process:
        try:
            yield process
        finally:
            process.kill()


def write_without_end(engine: Engine, root: str) -> None:
    """Batches of several sizes that also change one task, claims and their ends."""
    for number in itertools.count():
        jobs = [c.SubmitJob(new_id(), "p", "dig") for _ in range(number % 5 * 8)]
        engine.execute(
            [
                *(CommandRequest(each, ACTOR, fresh=True) for each in jobs),
                CommandRequest(_edit(root), ACTOR),
            ]
        )
        try:
            claimed = engine.claim(ClaimRequest("w", new_id(), 4, intents=["dig"]))
        except DetentError:
            continue
        ends = [c.CompleteRun(each.grant, each.job.run_id or "") for each in claimed]
        engine.execute([CommandRequest(each, ACTOR) for each in ends])


if __name__ == "__main__":
    write_without_end(Engine(PostgresStore(sys.argv[1])), sys.argv[2])
