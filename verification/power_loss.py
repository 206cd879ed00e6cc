"""What a disk keeps when the power goes: every write and sync of a SQLite store, and images of it.

A shim between SQLite and the file system records the writes. An image is a state in which a disk
may be found: all that was synced, and any part of what was not. Whatever was acknowledged before
must be in every image. That a file which was created stays in its directory is taken for granted.
"""

import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, NamedTuple
from unittest.mock import patch

import apsw

from detent.engine import CommandRequest, Engine
from detent.engine.claims import ClaimRequest
from detent.errors import DetentError
from detent.ids import new_id
from detent.kernel import commands as c
from detent.store.sqlite import SqliteStore, connection
from detent.testing.audit import audit

SECTOR = 512
#: The shim, and the file system below it.
NAME, SYSTEM = "detent-power", "unix"
#: Small, so that the log is moved into the database file again and again while it is recorded.
CHECKPOINT_PAGES = 12
STATES = "SELECT id, state FROM jobs"
CREATED = "SELECT count(*) FROM events WHERE name = 'job_created'"


class Operation(NamedTuple):
    """Something that reached the disk, or a moment at which that was acknowledged."""

    kind: str
    file: str
    offset: int = 0
    data: bytes = b""


Watch = Callable[[Operation], None]


# ---- the shim --------------------------------------------------------------------------------


class _File(apsw.VFSFile):
    def __init__(self, name: Any, flags: list[int], watch: Watch) -> None:
        path = name if isinstance(name, str) or name is None else name.filename()
        self._name = "wal" if path and path.endswith("-wal") else "db"
        self._kept = path is not None
        self._watch = watch
        super().__init__(SYSTEM, name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802 - SQLite's name
        if self._kept:
            self._watch(Operation("write", self._name, offset, bytes(data)))
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:  # noqa: N802
        super().xSync(flags)
        if self._kept:
            self._watch(Operation("sync", self._name))

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        if self._kept:
            self._watch(Operation("truncate", self._name, newsize))
        super().xTruncate(newsize)


class _Shim(apsw.VFS):
    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        super().__init__(NAME, SYSTEM, makedefault=True)

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
        return _File(name, flags, self._watch)


@contextmanager
def watched(watch: Watch) -> Iterator[None]:
    """Every SQLite file that is opened inside is seen by `watch`, which may raise in its place."""
    shim = _Shim(watch)
    try:
        yield
    finally:
        shim.unregister()


# ---- recording -------------------------------------------------------------------------------


def record(path: Path, jobs: int, synchronous: str | None = None) -> list[Operation]:
    """The operations of a store at work; an `ack` names what was acknowledged just before it."""
    trace: list[Operation] = []
    pragmas = (
        *connection.PRAGMAS,
        f"wal_autocheckpoint = {CHECKPOINT_PAGES}",
        *([] if synchronous is None else [f"synchronous = {synchronous}"]),
    )
    with patch.object(connection, "PRAGMAS", pragmas), watched(trace.append):
        store = SqliteStore(path)
        try:
            for said in work(Engine(store), jobs):
                trace.append(Operation("ack", said))
        finally:
            store.close()
    # Closing moves the log and removes it; no power is lost in there.
    last = max(at for at, each in enumerate(trace) if each.kind == "ack")
    return trace[: last + 1]


def work(engine: Engine, jobs: int) -> Iterator[str]:
    """Jobs submitted, and some of them done: what was acknowledged, as `state id`."""
    for number in range(jobs):
        job_id = new_id()
        engine.do(c.SubmitJob(job_id, "default", "work"), c.Actor("client"), fresh=True)
        yield f"queued {job_id}"
        if number % 3 == 0:
            for claimed in engine.claim(ClaimRequest("w", f"n{number}", 1)):
                end = c.CompleteRun(claimed.grant, claimed.job.run_id or "")
                engine.do(end, c.Actor("worker:w"))
                yield f"completed {claimed.job.id}"


# ---- images ----------------------------------------------------------------------------------


@dataclass(slots=True)
class Disk:
    """One file: what was synced, and what was written since."""

    durable: bytearray = field(default_factory=bytearray)
    pending: list[Operation] = field(default_factory=list)

    def take(self, operation: Operation) -> None:
        if operation.kind == "sync":
            for each in self.pending:
                _apply(self.durable, each)
            self.pending.clear()
        else:
            self.pending.append(operation)

    def image(self, kept: Sequence[Operation]) -> bytes:
        content = bytearray(self.durable)
        for each in kept:
            _apply(content, each)
        return bytes(content)


def _apply(content: bytearray, operation: Operation) -> None:
    at, data = operation.offset, operation.data
    if operation.kind == "truncate":
        del content[at:]
        return
    if len(content) < at:
        content.extend(bytes(at - len(content)))
    content[at : at + len(data)] = data


def _survivors(pending: Sequence[Operation], rng: Random) -> list[Operation]:
    """Which of the unsynced writes the disk has kept: none, all, the first ones, any, or parts."""
    way = rng.randrange(5)
    if way == 0 or not pending:
        return []
    if way == 1:
        return list(pending)
    if way == 2:
        return list(pending[: rng.randrange(len(pending) + 1)])
    kept = [each for each in pending if rng.random() < 0.5]
    return kept if way == 3 else [_torn(each, rng) for each in kept]


def _torn(operation: Operation, rng: Random) -> Operation:
    """Only some sectors at the front of a write."""
    if operation.kind != "write" or len(operation.data) <= SECTOR:
        return operation
    sectors = rng.randrange(1, len(operation.data) // SECTOR + 1)
    return operation._replace(data=operation.data[: sectors * SECTOR])


@dataclass(slots=True)
class Result:
    """How many images were checked, and what was missing or broken in them."""

    images: int = 0
    #: Acknowledged commits that images had to hold, summed up: none would prove nothing.
    held: int = 0
    problems: list[str] = field(default_factory=list)


def try_images(trace: Sequence[Operation], where: Path, images: int, seed: int = 1) -> Result:
    """Lose power at random moments, and check what is there after the restart."""
    rng = Random(seed)
    moments = sorted(rng.randrange(1, len(trace) + 1) for _ in range(images))
    disks = {"db": Disk(), "wal": Disk()}
    acknowledged: dict[str, str] = {}
    result = Result()
    at = 0
    for number, moment in enumerate(moments):
        for operation in trace[at:moment]:
            if operation.kind == "ack":
                state, _, job_id = operation.file.partition(" ")
                acknowledged[job_id] = state
            else:
                disks[operation.file].take(operation)
        at = moment
        path = where / "image.db"
        for name, suffix in (("db", ""), ("wal", "-wal")):
            content = disks[name].image(_survivors(disks[name].pending, rng))
            path.with_name(path.name + suffix).write_bytes(content)
        path.with_name(path.name + "-shm").unlink(missing_ok=True)
        _check_image(path, acknowledged, number, moment, result)
    return result


def _check_image(
    path: Path, acknowledged: dict[str, str], number: int, moment: int, result: Result
) -> None:
    result.images += 1
    result.held += len(acknowledged)
    where = f"image {number}, after operation {moment}"
    try:
        found, flaws = _contents(path)
    except apsw.Error as error:
        if acknowledged:
            result.problems.append(f"P1: {where}: {error}")
        return
    result.problems += [f"P1: {where}: {each}" for each in flaws]
    for job_id, state in acknowledged.items():
        if found.get(job_id) not in (state, "completed", "running"):
            result.problems.append(f"P1: {where}: {job_id} was {state}, is {found.get(job_id)}")
            break
        if state == "completed" and found.get(job_id) != state:
            result.problems.append(f"P1: {where}: {job_id} was completed, is {found[job_id]}")
            break


def _contents(path: Path) -> tuple[dict[str, str], list[str]]:
    """The states of jobs, and what is wrong with the file or between its log and its rows."""
    file = apsw.Connection(str(path))
    file.create_scalar_function("sqlar_uncompress", _uncompress, 2)
    try:
        flaws = [text for (text,) in file.execute("PRAGMA quick_check") if text != "ok"]
        if not file.execute("SELECT 1 FROM sqlite_schema WHERE name = 'jobs'").fetchall():
            return {}, flaws
        states = {str(each): str(state) for each, state in file.execute(STATES)}
        created = file.execute(CREATED).get
        if created != len(states):
            flaws.append(f"{created} jobs in the log, {len(states)} rows")
        return states, flaws
    finally:
        file.close()


def _uncompress(*values: Any) -> bytes:
    return zlib.decompress(values[0])


def audit_image(path: Path) -> None:
    """Open what is there as a store does, and hold every row against the log."""
    store = SqliteStore(path)
    try:
        audit(store)
    finally:
        store.close()


# ---- a disk that fails -----------------------------------------------------------------------

FAULTS: dict[str, tuple[str, Callable[[], apsw.Error]]] = {
    "disk full": ("write", lambda: apsw.FullError("injected: the disk is full")),
    "failed write": ("write", lambda: apsw.IOError("injected: a write failed")),
    "failed sync": ("sync", lambda: apsw.IOError("injected: a sync failed")),
}


class Failing:
    """Raises on some operations of one kind: from the nth on, a number of times."""

    def __init__(self, fault: str, nth: int, times: int) -> None:
        self.kind, self.error = FAULTS[fault]
        self.nth, self.times, self.seen, self.raised = nth, times, 0, 0
        self.armed = False

    def __call__(self, operation: Operation) -> None:
        if not self.armed or operation.kind != self.kind:
            return
        self.seen += 1
        if self.seen >= self.nth and self.raised < self.times:
            self.raised += 1
            raise self.error()


def try_fault(path: Path, fault: str, nth: int, times: int = 1) -> tuple[int, list[str]]:
    """Work on a disk that fails in the middle: how often it failed, and what went wrong by that.

    P16: nothing is acknowledged that is not there, nothing is half done, and it heals by itself.
    """
    failing = Failing(fault, nth, times)
    found: list[str] = []
    with watched(failing):
        store = SqliteStore(path)
        try:
            engine = Engine(store)
            failing.armed = True
            acknowledged = _submit(engine, 6, found)
            failing.armed = False
            if len(_submit(engine, 1, found)) != 1:
                found.append("P16: it does not heal when the disk is well again")
            with store.read() as view:
                there = {job.id for job, _ in view.jobs(acknowledged)}
            found += [
                f"P16: {each} was acknowledged and is gone" for each in {*acknowledged} - there
            ]
            audit(store)
        finally:
            store.close()
    return failing.raised, found


def _submit(engine: Engine, count: int, found: list[str]) -> list[str]:
    """Jobs that were acknowledged; a refusal must be one that says when to try again."""
    acknowledged = []
    for _ in range(count):
        job_id = new_id()
        command = c.SubmitJob(job_id, "default", "work")
        result = engine.execute([CommandRequest(command, c.Actor("client"), fresh=True)])[0]
        if not isinstance(result, DetentError):
            acknowledged.append(job_id)
        elif result.code != "unavailable":
            found.append(f"P16: a failing disk is reported as {result.code}: {result}")
    return acknowledged
