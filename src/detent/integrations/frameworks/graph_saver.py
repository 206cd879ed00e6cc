"""DetentSaver: a checkpointer for LangGraph that stores the threads of graphs in detent."""

import asyncio
import base64
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from itertools import islice
from typing import Any, NamedTuple
from urllib.parse import unquote

from detent.app.app import App
from detent.app.async_run_context import AsyncRun
from detent.app.fenced_write import fenced_write
from detent.app.run_context import Run
from detent.errors import Invalid, TooLarge
from detent.kernel.predicates import ENDED_JOB
from detent.operations.graph_rows import (
    CHECKPOINT,
    TABLE,
    THREAD,
    VALUE,
    WRITE,
    delete_thread,
    is_thread_of,
    prefix,
    row_name,
)
from detent.optional_package import optional_package
from detent.store.port import ReadTransaction, WriteTransaction

with optional_package("langgraph", "1.2.22", extra="langgraph"):
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import (
        WRITES_IDX_MAP,
        BaseCheckpointSaver,
        ChannelVersions,
        Checkpoint,
        CheckpointMetadata,
        CheckpointTuple,
        get_checkpoint_id,
        get_serializable_checkpoint_metadata,
        writes_sort_key,
    )

#: The largest value of a channel, as it is stored.
MAX_VALUE_BYTES = 16 * 1_048_576
RESUME = "__resume__"
DELTA = "counters_since_delta_snapshot"
_current: ContextVar[Run | AsyncRun | None] = ContextVar("detent_langgraph_run", default=None)


@contextmanager
def fenced_by(run: Run | AsyncRun) -> Iterator[None]:
    """Refuse the writes of checkpointers in this block if the run has lost its lease."""
    token = _current.set(run)
    try:
        yield
    finally:
        _current.reset(token)


class Place(NamedTuple):
    """Where a configuration points: a thread, a namespace in it, and perhaps a checkpoint."""

    thread: str
    namespace: str
    checkpoint: str | None

    @classmethod
    def of(cls, config: RunnableConfig) -> "Place":
        named = config.get("configurable", {})
        if "thread_id" not in named:
            raise Invalid(
                "the configuration has no thread_id.",
                field="thread_id",
                hint="Pass config={'configurable': {'thread_id': …}}.",
            )
        return cls(
            str(named["thread_id"]), named.get("checkpoint_ns", ""), get_checkpoint_id(config)
        )

    def config(self, checkpoint: str) -> RunnableConfig:
        return {
            "configurable": {
                "thread_id": self.thread,
                "checkpoint_ns": self.namespace,
                "checkpoint_id": checkpoint,
            }
        }


class DetentSaver(BaseCheckpointSaver[int]):
    """A checkpointer that stores into the installation of an app: `DetentSaver(app)`.

    Every method is one transaction. Inside `run_graph` it is refused if the run has lost its lease.
    """

    def __init__(self, app: App, **options: Any) -> None:
        super().__init__(**options)
        self._app = app

    # -- reading ---------------------------------------------------------------------------

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """The checkpoint that the configuration names; without an id, the last one."""
        place = Place.of(config)
        with self._app.installation().store.read() as view:
            found = _checkpoints(view, place.thread, place.namespace)
            wanted = place.checkpoint or max(found, default=None)
            if wanted is None or wanted not in found:
                return None
            return self._tuple(view, place, wanted, found[wanted])

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """The checkpoints of a thread, or of all threads, the newest first."""
        with self._app.installation().store.read() as view:
            matching = (
                each for each in _listed(view, config, before) if self._matches(each[2], filter)
            )
            chosen = islice(matching, None if limit is None else max(limit, 0))
            found = [self._tuple(view, *each) for each in chosen]
        yield from found

    def _matches(self, row: Mapping[str, Any], wanted: Mapping[str, Any] | None) -> bool:
        metadata = self._load(row["metadata"])
        return all(metadata.get(key) == value for key, value in (wanted or {}).items())

    def _tuple(
        self, view: ReadTransaction, place: Place, checkpoint: str, row: Mapping[str, Any]
    ) -> CheckpointTuple:
        body: Checkpoint = self._load(row["checkpoint"])
        values: dict[str, Any] = {}
        for channel, version in body["channel_versions"].items():
            under = prefix(VALUE, place.thread, place.namespace, channel, str(version))
            for stored in view.rows_under(TABLE, under).values():
                values[channel] = self._load(stored)
        written = _writes(view, place, checkpoint)
        parent = row["parent"]
        return CheckpointTuple(
            place.config(checkpoint),
            {**body, "channel_values": values},
            self._load(row["metadata"]),
            None if parent is None else place.config(parent),
            [(each["task"], each["channel"], self._load(each["value"])) for each in written],
        )

    def has_ended(self, job_id: str) -> bool:
        """Whether a job has ended, or does not exist."""
        with self._app.installation().store.read() as view:
            return all(job.state in ENDED_JOB for job, _ in view.jobs([job_id]))

    def resumptions(self, thread_id: str) -> int:
        """How many answers the interrupts of a thread have consumed."""
        with self._app.installation().store.read() as view:
            rows = view.rows_under(TABLE, prefix(WRITE, thread_id)).values()
            found = [self._load(row["value"]) for row in rows if row["channel"] == RESUME]
        return sum(len(each) if isinstance(each, list) else 1 for each in found)

    # -- writing ---------------------------------------------------------------------------

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint, and the values of the channels that have changed."""
        place = Place.of(config)
        body = {key: value for key, value in checkpoint.items() if key != "channel_values"}
        values = checkpoint["channel_values"]
        rows: dict[str, Any] = {
            row_name(VALUE, *place[:2], channel, str(version)) + "/": self._dump(values[channel])
            for channel, version in new_versions.items()
            if channel in values
        }
        kept = get_serializable_checkpoint_metadata(config, metadata)
        rows[row_name(CHECKPOINT, *place[:2], checkpoint["id"])] = {
            "checkpoint": self._dump(body),
            "metadata": self._dump(kept),
            "parent": place.checkpoint,
            "run": kept.get("run_id"),
        }

        def work(tx: WriteTransaction) -> None:
            _own(tx, place.thread)
            tx.put_rows(TABLE, rows)

        self._write(work)
        return place.config(checkpoint["id"])

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Store what a task of the graph has written after a checkpoint."""
        place = Place.of(config)
        under = (WRITE, *place[:2], place.checkpoint or "", task_id)
        rows = {
            (row_name(*under, str(index)), index): {
                "task": task_id,
                "path": task_path,
                "index": index,
                "channel": channel,
                "value": self._dump(value),
            }
            for number, (channel, value) in enumerate(writes)
            for index in [WRITES_IDX_MAP.get(channel, number)]
        }

        def work(tx: WriteTransaction) -> None:
            known = tx.rows_under(TABLE, prefix(*under))
            new = {
                name: row for (name, index), row in rows.items() if index < 0 or name not in known
            }
            _own(tx, place.thread)
            tx.put_rows(TABLE, new)

        self._write(work)

    # -- deleting and copying --------------------------------------------------------------

    def delete_thread(self, thread_id: str) -> None:
        """Delete everything of a thread."""
        self._write(partial(delete_thread, thread_id))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Delete the checkpoints that these runs of graphs have made."""
        wanted = set(run_ids)

        def work(tx: WriteTransaction) -> None:
            for name, row in tx.rows_under(TABLE, f"{CHECKPOINT}/").items():
                if row["run"] in wanted:
                    _delete_checkpoint(tx, name)

        self._write(work)

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy everything of a thread to another one."""

        def work(tx: WriteTransaction) -> None:
            _own(tx, target_thread_id)
            for kind in (CHECKPOINT, VALUE, WRITE):
                old, new = prefix(kind, source_thread_id), prefix(kind, target_thread_id)
                found = tx.rows_under(TABLE, old)
                tx.put_rows(TABLE, {new + name[len(old) :]: row for name, row in found.items()})

        self._write(work)

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Delete the checkpoints of threads: all, or all but the last one of each namespace.

        A namespace with delta channels is kept: its checkpoints need their predecessors.
        """
        if strategy not in ("keep_latest", "delete"):
            raise Invalid(
                f"strategy must be keep_latest or delete, not {strategy!r}.",
                field="strategy",
                given=strategy,
                allowed=("keep_latest", "delete"),
            )
        for thread in thread_ids:
            if strategy == "delete":
                self.delete_thread(thread)
            else:
                self._write(partial(self._keep_latest, thread))

    def _keep_latest(self, thread: str, tx: WriteTransaction) -> None:
        found = tx.rows_under(TABLE, prefix(CHECKPOINT, thread))
        latest = {name.rpartition("/")[0]: name for name in sorted(found)}
        for under, last in latest.items():
            if DELTA in self._load(found[last]["metadata"]):
                continue
            for name in found:
                if name != last and name.rpartition("/")[0] == under:
                    _delete_checkpoint(tx, name)
            versions = self._load(found[last]["checkpoint"])["channel_versions"]
            values = VALUE + under[len(CHECKPOINT) :]
            kept = {f"{values}/{row_name(each, str(versions[each]))}/" for each in versions}
            tx.put_rows(TABLE, dict.fromkeys(set(tx.rows_under(TABLE, f"{values}/")) - kept))

    # -- for coroutines --------------------------------------------------------------------

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """As `get_tuple`."""
        return await asyncio.to_thread(self.get_tuple, config)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """As `list`."""
        found = self.list(config, filter=filter, before=before, limit=limit)
        for each in await asyncio.to_thread(lambda: [*found]):
            yield each

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """As `put`."""
        return await asyncio.to_thread(self.put, config, checkpoint, metadata, new_versions)

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """As `put_writes`."""
        await asyncio.to_thread(self.put_writes, config, writes, task_id, task_path)

    async def adelete_thread(self, thread_id: str) -> None:
        """As `delete_thread`."""
        await asyncio.to_thread(self.delete_thread, thread_id)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """As `delete_for_runs`."""
        await asyncio.to_thread(self.delete_for_runs, run_ids)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """As `copy_thread`."""
        await asyncio.to_thread(self.copy_thread, source_thread_id, target_thread_id)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """As `prune`."""
        await asyncio.to_thread(lambda: self.prune(thread_ids, strategy=strategy))

    # -- values ----------------------------------------------------------------------------

    def _write(self, work: Callable[[WriteTransaction], None]) -> None:
        fenced_write(self._app.installation().engine, _current.get(), work)

    def _dump(self, value: Any) -> Sequence[str]:
        """A value as its type and its bytes in base64."""
        try:
            kind, data = self.serde.dumps_typed(value)
        except (TypeError, ValueError) as error:
            raise Invalid(
                f"a value of type {type(value).__name__} cannot be stored: {error}. Use values in "
                "the state of the graph that the serializer of the checkpointer supports.",
                field="state",
                given=type(value).__name__,
            ) from error
        if len(data) > MAX_VALUE_BYTES:
            raise TooLarge(
                f"a value of the graph has {len(data):,} bytes; {MAX_VALUE_BYTES:,} are allowed. "
                "Store large data in a file or as evidence, and put its name into the state.",
                limit=MAX_VALUE_BYTES,
            )
        return [kind, base64.b64encode(data).decode()]

    def _load(self, stored: Sequence[str]) -> Any:
        return self.serde.loads_typed((stored[0], base64.b64decode(stored[1])))


def _checkpoints(view: ReadTransaction, thread: str, namespace: str) -> dict[str, Any]:
    """The checkpoints of a namespace by their ids."""
    under = prefix(CHECKPOINT, thread, namespace)
    rows = view.rows_under(TABLE, under)
    return {unquote(name[len(under) :]): row for name, row in rows.items()}


def _listed(
    view: ReadTransaction, config: RunnableConfig | None, before: RunnableConfig | None
) -> Iterator[tuple[Place, str, Any]]:
    """The checkpoints that the configurations select, the newest of each namespace first."""
    wanted = None if config is None else Place.of(config)
    named = None if config is None else config.get("configurable", {})
    under = f"{CHECKPOINT}/" if wanted is None else prefix(CHECKPOINT, wanted.thread)
    limit = None if before is None else get_checkpoint_id(before)
    for name, row in sorted(view.rows_under(TABLE, under).items(), reverse=True):
        thread, namespace, checkpoint = map(unquote, name.split("/")[1:])
        if named and named.get("checkpoint_ns") not in (None, namespace):
            continue
        if wanted and wanted.checkpoint not in (None, checkpoint):
            continue
        if limit is None or checkpoint < limit:
            yield Place(thread, namespace, None), checkpoint, row


def _writes(view: ReadTransaction, place: Place, checkpoint: str) -> list[Any]:
    """What tasks have written after a checkpoint, in the order in which a graph applies it."""
    rows = view.rows_under(TABLE, prefix(WRITE, place.thread, place.namespace, checkpoint))
    return sorted(
        rows.values(), key=lambda row: writes_sort_key(row["path"], row["task"], row["index"])
    )


def _own(tx: WriteTransaction, thread: str) -> None:
    """Note a new thread, with the job whose run makes it."""
    name, run = row_name(THREAD, thread), _current.get()
    if name not in tx.rows_under(TABLE, name):
        owner = None if run is None or not is_thread_of(run.job_id, thread) else run.job_id
        tx.put_rows(TABLE, {name: {"thread": thread, "job": owner}})


def _delete_checkpoint(tx: WriteTransaction, name: str) -> None:
    """Delete a checkpoint by the name of its row, and what was written after it."""
    written = tx.rows_under(TABLE, f"{WRITE}{name[len(CHECKPOINT) :]}/")
    tx.put_rows(TABLE, {name: None, **dict.fromkeys(written)})
