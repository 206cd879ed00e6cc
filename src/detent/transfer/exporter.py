"""Exports a task: its whole tree with history, evidence and output into one archive.

Extends the hash chain first, so that the chain in the manifest covers the history. Changes nothing
else. The history is exported as it is in the log, without further redaction.
"""

import json
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from detent.errors import Broken, NotFound, Refused
from detent.integrity import hash_chain
from detent.store.blobs import CHUNK_BYTES
from detent.store.log_walk import events_of
from detent.store.port import ReadTransaction, Store
from detent.store.types import LoggedEvent, Query
from detent.transfer.archive import (
    EVENTS,
    FORMAT,
    LIFECYCLES,
    TREE,
    VERSION,
    Chain,
    Manifest,
    Writer,
    event_line,
)

#: Reads the output of a run: its id, an offset, and the maximum number of bytes.
ReadOutput = Callable[[str, int, int], bytes]
BATCH = 1_000
#: More than the number of rows in one tree.
ALL = 1_000_000


class Exported(NamedTuple):
    """The content of an archive; `manifest` is the SHA-256 of the manifest, which covers it."""

    task: str
    manifest: str
    tasks: int
    jobs: int
    runs: int
    events: int
    evidence: int
    missing: int
    bytes: int
    chain: Chain


class Tree(NamedTuple):
    """The rows of one tree."""

    tasks: list[dict[str, Any]]
    jobs: list[dict[str, Any]]
    runs: list[dict[str, Any]]
    evidence: list[dict[str, Any]]

    @property
    def streams(self) -> list[str]:
        return [row["id"] for row in (*self.tasks, *self.jobs)]


def export_task(store: Store, task_id: str, path: Path, read_output: ReadOutput) -> Exported:
    """Write the archive of the tree of a task; on an error no file is left."""
    if path.exists():
        raise Refused(
            f"The file {path} already exists.", hint="Use another name, or remove the file."
        )
    hash_chain.extend_chain(store)
    directory = path.absolute().parent
    try:
        with tempfile.TemporaryDirectory(prefix=".export-", dir=directory) as drafts:
            draft = Path(drafts) / "archive"
            made = _write(store, task_id, draft, read_output)
            with draft.open("rb") as file:
                os.fsync(file.fileno())
            draft.rename(path)
    except OSError as error:
        raise Refused(f"{path} cannot be written: {error.strerror}.") from None
    return made


def _write(store: Store, task_id: str, draft: Path, read_output: ReadOutput) -> Exported:
    writer = Writer(draft)
    try:
        with store.read() as view:
            root = _root(view, task_id)
            tree = _tree(view, root)
            block = view.last_chain_block()
            events = _events(view, tree.streams)
            documents = _documents(view, tree)
        chain = Chain(*((0, "") if block is None else (block.to_position, block.chain.hex())))
        writer.add(TREE, [json.dumps(tree._asdict(), indent=1, ensure_ascii=False).encode()])
        writer.add(EVENTS, map(event_line, events))
        if documents:
            writer.add(LIFECYCLES, [json.dumps(documents, indent=1, ensure_ascii=False).encode()])
        missing = _add_evidence(writer, store, tree)
        output = _add_output(writer, tree, read_output)
        counts: dict[str, int] = {}
        for event in events:
            counts[event.stream] = counts.get(event.stream, 0) + 1
        events_chain = hash_chain.chained(hash_chain.START, events).hex()
        known = (FORMAT, VERSION, version("detent"), root, counts, events_chain, chain)
        digest = writer.finish(Manifest(*known, output, missing, writer.members))
    finally:
        writer.close()
    held = (len(tree.tasks), len(tree.jobs), len(tree.runs), len(events), len(tree.evidence))
    return Exported(root, digest, *held, len(missing), writer.size, chain)


def _root(view: ReadTransaction, task_id: str) -> str:
    for task, _ in view.tasks([task_id]):
        return task.root_id
    raise NotFound(f"There is no task {task_id!r}.", code="unknown_task")


def _tree(view: ReadTransaction, root: str) -> Tree:
    tasks = _rows(view, "tasks", "root_id", [root], "created_at")
    ids = [row["id"] for row in tasks]
    jobs = _rows(view, "jobs", "task_id", ids, "created_at")
    runs = _rows(view, "runs", "job_id", [row["id"] for row in jobs], "queued_at")
    evidence = _rows(view, "evidence", "run_id", [row["id"] for row in runs], "at")
    return Tree(tasks, jobs, runs, evidence)


def _documents(view: ReadTransaction, tree: Tree) -> dict[str, Any]:
    """By id, the documents of the installed lifecycles that the tasks have or had before."""
    names = {row["lifecycle"].partition("@")[0] for row in tree.tasks}
    rows = view.rows("lifecycles")
    return {name: rows[name]["document"] for name in rows if name.partition("@")[0] in names}


def _rows(
    view: ReadTransaction, table: str, column: str, ids: Sequence[str], order: str
) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for at in range(0, len(ids), BATCH):
        query = Query(table, {column: list(ids[at : at + BATCH])}, order, limit=ALL)
        found += [{key: row[key] for key in row if key != "nonce"} for row in view.page(query)]
    return found


def _events(view: ReadTransaction, streams: Sequence[str]) -> list[LoggedEvent]:
    """The events of all streams, in the order of the log."""
    return sorted(event for stream in streams for event in events_of(view, stream))


def _add_evidence(writer: Writer, store: Store, tree: Tree) -> list[str]:
    """Add every blob once; returns the digests of blobs that do not exist any more."""
    missing = []
    for digest in dict.fromkeys(row["sha256"] for row in tree.evidence):
        try:
            pieces = store.blobs.read(digest)
        except NotFound:
            missing.append(digest)
            continue
        if writer.add(f"evidence/{digest}", pieces).sha256 != digest:
            raise Broken(f"The blob {digest} is damaged: its content does not match its digest.")
    return missing


def _add_output(writer: Writer, tree: Tree, read_output: ReadOutput) -> dict[str, str]:
    found: dict[str, str] = {}
    for row in tree.runs:
        with tempfile.TemporaryFile() as file:
            digest = _copied(row["id"], file, read_output)
            if file.tell():
                found[row["id"]] = digest
                if f"output/{digest}" not in writer.members:
                    file.seek(0)
                    writer.add(f"output/{digest}", _pieces(file))
    return found


def _copied(run_id: str, file: BinaryIO, read_output: ReadOutput) -> str:
    digest = sha256()
    while piece := read_output(run_id, file.tell(), CHUNK_BYTES):
        digest.update(piece)
        file.write(piece)
    return digest.hexdigest()


def _pieces(file: BinaryIO) -> Iterator[bytes]:
    while piece := file.read(CHUNK_BYTES):
        yield piece
