"""Retention: deletes ended work whose retention time is over, and data that nothing refers to.

The time is counted from the entry into the final state. Work is deleted by commands, which leave a
tombstone; then expired idempotency keys, output of runs, blobs without evidence, drafts of comments
on deleted tasks, and checkpoints of graphs that deleted jobs ran are deleted.
`run_directories` deletes files.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from detent import thresholds
from detent.engine import CommandRequest, CommandResult
from detent.kernel.commands import Actor, Command, DeleteJob, DeleteTask
from detent.kernel.entities import Run
from detent.kernel.predicates import ENDED_JOB
from detent.kernel.retention import DAY_US, JOB_ENDINGS, Ending, Retention, is_over
from detent.kernel.task_lifecycle import Phase, state_names
from detent.operations import graph_rows
from detent.operations.context import Core
from detent.operations.task_states import ending_of
from detent.store.port import ReadTransaction, WriteTransaction
from detent.store.types import Query

MAX_ROWS = 200
#: The maximum number of batches in one pass, for each final state.
ROUNDS = 10
MAX_KEYS = 10_000
MAX_OUTPUTS = 500
MAX_BLOBS = 1_000
#: The minimum age of a blob without evidence. A blob is written before the event that refers to it.
BLOB_GRACE_US = DAY_US
#: The row with the positions at which the last pass over work, output and blobs ended.
CURSORS = "retention_cursors"
ACTOR = Actor("keeper")
#: Tables with rows of single people about tasks: drafts, seen files, snoozed tasks.
REVIEWERS_TABLES = ("review_drafts", "viewed_files", "snoozes")


class RetentionCounts(NamedTuple):
    """The numbers of deleted items, or of items that would be deleted; `bytes` of the blobs."""

    work: int = 0
    keys: int = 0
    outputs: int = 0
    blobs: int = 0
    bytes: int = 0


class Expired(NamedTuple):
    """Expired work of one final state: the query that finds it, and the command that deletes it."""

    name: str
    query: Query
    delete: Callable[..., Command]


#: By the name of expired work: the row at which the last pass ended.
Positions = Mapping[str, Sequence[Any]]


class _RolledBack(Exception):
    """Rolls back a transaction that only counted."""


def run(core: Core, retention: Retention | None = None) -> int:
    """One bounded pass. The kernel refuses to delete work that other work depends on."""
    wanted = retention or thresholds.retention(core.settings)
    cursors = _cursors(core)
    work, after_work = delete_expired_work(core, wanted, cursors.get("work", {}))
    keys = delete_expired_keys(core)
    outputs, after_output = delete_expired_outputs(core, wanted, cursors.get("outputs", ""))
    blobs, _, after_blob = delete_unused_blobs(core, cursors.get("blobs", ""))
    ended = {"work": after_work, "outputs": after_output, "blobs": after_blob}
    if ended != {"work": {}, "outputs": "", "blobs": "", **cursors}:
        core.engine.transaction(lambda tx: tx.put_rows("system_state", {CURSORS: ended}))
    beside = delete_rows_of_reviewers(core) + graph_rows.delete_threads_of_deleted_jobs(core)
    return sum((work, keys, outputs, blobs, beside))


def _cursors(core: Core) -> Mapping[str, Any]:
    with core.store.read() as view:
        return dict(view.rows("system_state").get(CURSORS) or {})


def run_all(core: Core, *, dry_run: bool = False) -> RetentionCounts:
    """Delete everything whose retention time is over; with `dry_run`, only count it."""
    wanted = thresholds.retention(core.settings)
    work, _ = delete_expired_work(core, wanted, {}, rounds=1_000_000, dry_run=dry_run)
    keys = delete_expired_keys(core, dry_run=dry_run)
    while not dry_run and (more := delete_expired_keys(core)):
        keys += more
    outputs = blobs = size = 0
    after = ""
    while True:
        count, after = delete_expired_outputs(core, wanted, after, dry_run=dry_run)
        outputs += count
        if not after:
            break
    while True:
        count, removed, after = delete_unused_blobs(core, after, dry_run=dry_run)
        blobs, size = blobs + count, size + removed
        if not after:
            return RetentionCounts(work, keys, outputs, blobs, size)


# ---- work ------------------------------------------------------------------------------------


def delete_expired_work(
    core: Core,
    retention: Retention,
    after: Positions,
    *,
    rounds: int | None = None,
    dry_run: bool = False,
) -> tuple[int, Positions]:
    """Delete root tasks with their subtasks, and jobs without a task, whose time is over.

    Returns the number, and the positions to continue from: what is refused stays at the start of
    its query, and must not keep the keeper from what is behind it.
    """
    with core.store.read() as view:
        expired = list(_expired(view, retention))
        if dry_run:
            return sum(sum(view.count_by(each.query, "state").values()) for each in expired), {}
    gone, ended = 0, {}
    for each in expired:
        at = after.get(each.name)
        query = each.query if at is None else each.query._replace(after=(at[0], at[1]))
        deleted, last = _forget(core, query, each.delete, rounds or ROUNDS)
        gone += deleted
        if last is not None:
            ended[each.name] = last
    return gone, ended


def _forget(
    core: Core, query: Query, delete: Callable[..., Command], rounds: int
) -> tuple[int, Sequence[Any] | None]:
    """Delete the rows of a query, oldest first; refused ones are skipped.

    Returns the number, and the last row if there may be more.
    """
    gone = 0
    for _ in range(rounds):
        with core.store.read() as view:
            rows = view.page(query)
        asks = [CommandRequest(delete(row["id"], "retention"), ACTOR) for row in rows]
        results = core.engine.execute(asks, bulk=True) if asks else []
        gone += sum(1 for each in results if isinstance(each, CommandResult))
        if len(rows) < MAX_ROWS:
            return gone, None
        query = query._replace(after=(rows[-1][query.order], rows[-1]["id"]))
    return gone, query.after


def _expired(view: ReadTransaction, retention: Retention) -> Iterator[Expired]:
    """The expired work of each final state."""
    before = {how: ("<", view.now() - retention.days(how) * DAY_US) for how in Ending}
    for state, how in JOB_ENDINGS.items():
        # Created before, too: an index has that time.
        old = {"state_at": before[how], "created_at": before[how]}
        alone = {"state": state, **old, "task_id": None, "parent_job_id": None}
        query = Query("jobs", alone, "created_at", limit=MAX_ROWS)
        yield Expired(f"job {state}", query, DeleteJob)
    lifecycles = view.lifecycles()
    endings = {state.name: state.ending for each in lifecycles.values() for state in each.states}
    for name, ending in endings.items():
        if ending is not None:
            roots = {"state": name, "state_at": before[ending], "parent_id": None}
            query = Query("tasks", roots, "state_at", limit=MAX_ROWS)
            yield Expired(f"task {name}", query, DeleteTask)
    for state in state_names(lifecycles, lambda each: each.phase is Phase.BLOCKED):
        failed = {"state": state, "retries_left": 0, "state_at": before[Ending.FAILED]}
        query = Query("tasks", failed, "state_at", limit=MAX_ROWS)
        yield Expired(f"blocked task {state}", query, DeleteTask)


# ---- unreferenced data -----------------------------------------------------------------------


def delete_expired_keys(core: Core, *, dry_run: bool = False) -> int:
    """Delete expired idempotency keys, without notifying waiters; returns their number."""
    counts: list[int] = []

    def forget(tx: WriteTransaction) -> None:
        counts.append(tx.delete_expired_keys(tx.now(), MAX_KEYS))
        if dry_run:
            raise _RolledBack

    with suppress(_RolledBack):
        core.engine.transaction(forget)
    return counts[0]


def delete_expired_outputs(
    core: Core, retention: Retention, after: str, *, dry_run: bool = False
) -> tuple[int, str]:
    """Delete output of deleted runs and of runs whose time is over.

    Returns the number, and the position to continue from, which is empty at the end.
    """
    outputs = core.store.outputs
    if outputs is None:
        return 0, ""
    run_ids = outputs.runs(after, MAX_OUTPUTS)
    with core.store.read() as view:
        runs = {run.id: run for run in view.runs(run_ids)}
        live, now = live_runs(view, runs.values()), view.now()
    days = retention.output_days
    old = [
        each
        for each in run_ids
        if each not in runs or is_over(runs[each].ended_at, days, now, task_live=each in live)
    ]
    if old and not dry_run:
        outputs.remove(old)
    return len(old), run_ids[-1] if len(run_ids) == MAX_OUTPUTS else ""


def delete_unused_blobs(core: Core, after: str, *, dry_run: bool = False) -> tuple[int, int, str]:
    """Delete blobs without evidence; returns their number, their bytes, and where to continue.

    A pass that begins with the first blob also deletes incomplete ones of killed processes.
    """
    blobs = core.store.blobs
    with core.store.read() as view:
        before = view.now() - BLOB_GRACE_US
        digests = blobs.old(before, after, MAX_BLOBS)
        unused = set(digests) - view.used_blobs(digests)
    if dry_run:
        sizes = [blobs.size(each) or 0 for each in unused]
    else:
        sizes = [each.size for each in blobs.remove(unused, before)] if unused else []
    if not after:
        sizes += blobs.remove_incomplete(before, dry_run=dry_run)
    return len(sizes), sum(sizes), digests[-1] if len(digests) == MAX_BLOBS else ""


def delete_rows_of_reviewers(core: Core) -> int:
    """Delete what people kept beside the log about tasks that are deleted; returns the number.

    The name of each of these rows begins with the id of its task and a slash.
    """
    with core.store.read() as view:
        rows = {table: view.row_names(table) for table in REVIEWERS_TABLES}
        named = {name.partition("/")[0] for names in rows.values() for name in names}
        gone = named - {task.id for task, _ in view.tasks(named)} if named else set()
    old = {
        table: dict.fromkeys(name for name in names if name.partition("/")[0] in gone)
        for table, names in rows.items()
    }

    def forget(tx: WriteTransaction) -> None:
        for table, names in old.items():
            tx.put_rows(table, names)

    if gone:
        core.engine.transaction(forget)
    return sum(map(len, old.values()))


def live_runs(view: ReadTransaction, runs: Collection[Run]) -> set[str]:
    """The runs whose task has not ended, or whose job has not ended if there is no task."""
    jobs = {job.id: job for job, _ in view.jobs({run.job_id for run in runs})}
    tasks = {
        task.id: task for task, _ in view.tasks({j.task_id for j in jobs.values() if j.task_id})
    }
    live = set()
    for job in jobs.values():
        task = tasks.get(job.task_id or "")
        if job.state not in ENDED_JOB if task is None else ending_of(view, task) is None:
            live.add(job.id)
    return {run.id for run in runs if run.job_id in live}
