"""Imports an archive: a task tree with its whole history, with the same ids.

This is the only way for events of another installation into the log. Everything is checked before
anything is stored. Evidence and output are stored first. The events, their rows and an event that
records the origin follow in one transaction, by the code that writes all rows: after a crash before
it, the archive can be imported again.
"""

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from detent.engine import Engine
from detent.engine.changeset import ChangeSet
from detent.errors import NotFound, Refused
from detent.integrity import hash_chain
from detent.integrity.audit import Folded
from detent.kernel import events as e
from detent.kernel.commands import Actor
from detent.kernel.predicates import ENDED_JOB
from detent.kernel.world import World
from detent.store.codec import read_record
from detent.store.port import ReadTransaction, WriteTransaction
from detent.store.types import LoggedEvent
from detent.transfer.archive import Archive, opened

#: Stores the output of a run: its id, the offset, the bytes.
WriteOutput = Callable[[str, int, bytes], None]


class Imported(NamedTuple):
    """What was imported."""

    task: str
    manifest: str
    tasks: int
    jobs: int
    events: int
    evidence: int


def import_archive(engine: Engine, path: Path, actor: Actor, write_output: WriteOutput) -> Imported:
    """Import the tree of an archive; refused as a whole if anything is wrong with it."""
    with opened(path) as archive:
        events = archive.events()
        folded = archive.fold(events)
        records = [read_record(logged) for logged in events]
        _require_ended(folded)
        with engine.store.read() as view:
            _require_new(view, archive, events)
            _require_lifecycles(view, archive, records)
        blobs = _keep_blobs(engine, archive)
        for run_id, digest in archive.manifest.output.items():
            offset = 0
            for piece in archive.read(f"output/{digest}"):
                write_output(run_id, offset, piece)
                offset += len(piece)

        def append(tx: WriteTransaction) -> bool:
            _require_new(tx, archive, events)
            _require_lifecycles(tx, archive, records)
            _append(tx, archive, records, actor)
            return True

        _with_own_chain_blocks(engine, append)
        counts = (len(folded.world.tasks), len(folded.world.jobs), len(events), blobs)
        return Imported(archive.manifest.task, archive.digest, *counts)


def _with_own_chain_blocks(engine: Engine, append: Callable[[WriteTransaction], bool]) -> None:
    """Append in separate chain blocks and accept them: imported events keep their old times."""
    hash_chain.extend_chain(engine.store)
    with engine.store.read() as view:
        last = view.last_chain_block()
    engine.transaction(append)
    hash_chain.accept(engine.store, after=last.to_position if last else 0)


def _require_ended(folded: Folded) -> None:
    """Refuse work that has not ended: it would be executed in two installations."""
    live = [job for job in folded.jobs() if job.state not in ENDED_JOB]
    if live:
        raise Refused(
            f"Job {live[0].id} is {live[0].state} in the archive. It would be executed twice.",
            hint="Export the task again after it has ended, or cancel it first.",
        )
    tasks = {task.id: task for task in folded.tasks()}
    for task in tasks.values():
        outside = [each for each in task.depends_on if each not in tasks]
        if task.open_dependencies and outside:
            raise Refused(f"Task {task.id} depends on {outside[0]}, which is not in the archive.")


def _require_new(view: ReadTransaction, archive: Archive, events: list[LoggedEvent]) -> None:
    streams = list(archive.manifest.streams)
    for task, _ in view.tasks(streams):
        raise Refused(f"Task {task.id} already exists.", code="task_exists")
    for job, _ in view.jobs(streams):
        raise Refused(f"Job {job.id} already exists.", code="job_exists")
    for stream in streams:
        if view.events(0, 1, stream=stream):
            raise Refused(
                f"{stream} existed before and was deleted. Its id cannot be used again.",
                code="task_exists",
            )
    if any(not 0 < event.at <= view.now() for event in events):
        raise Refused(
            "The history contains times in the future.",
            hint="Check the clocks of both machines.",
        )


def _require_lifecycles(view: ReadTransaction, archive: Archive, records: list[e.Record]) -> None:
    """Refuse a task whose lifecycle is not installed here, or is another one here."""
    here, there = dict(view.lifecycles()), archive.lifecycles()
    known = {name: each for name, each in here.items() if there.get(name, each) == each}
    for record in records:
        if isinstance(record.event, e.TaskCreated | e.TaskMigrated):
            wanted = record.event.lifecycle
            if wanted not in known:
                raise NotFound(
                    f"The task {record.stream} has the lifecycle {wanted}, which is not installed, "
                    "or with other content.",
                    code="unknown_lifecycle",
                    hint="Install its document first: `detent lifecycle install FILE`.",
                    known=known,
                )


def _keep_blobs(engine: Engine, archive: Archive) -> int:
    names = [name for name in archive.manifest.members if name.startswith("evidence/")]
    for name in names:
        with tempfile.TemporaryFile() as file:
            _fill(file, archive.read(name))
            kept = engine.store.blobs.put(file)
        if name != f"evidence/{kept.sha256}":
            raise Refused(f"{name} was changed while it was read.", code="bad_archive")
    return len(names)


def _fill(file: BinaryIO, pieces: Iterator[bytes]) -> None:
    for piece in pieces:
        file.write(piece)


def _append(tx: WriteTransaction, archive: Archive, records: list[e.Record], actor: Actor) -> None:
    change_set = ChangeSet(World(lifecycles=tx.lifecycles()), 0, tx.now())
    for record in records:
        change_set.replay(record)
    chain = archive.manifest.chain
    mark = e.TaskImported(archive.digest, chain.position, chain.value)
    root = archive.manifest.task
    change_set.replay(e.Record(root, None, mark, tx.now(), actor.name))
    changes = change_set.rows()
    tx.save(changes._replace(queue=(), leases=(), unqueued=()))
