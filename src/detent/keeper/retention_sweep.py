"""Forgetting: what has ended is deleted when its time is over, counted from entering the state.

Work goes by commands, which leave a tombstone. Then what nothing refers to any more: expired
idempotency keys, output of runs, blobs without evidence. Files are swept by `directories`.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple

from detent.engine import CommandRequest, CommandResult
from detent.kernel.commands import Actor, Command, DeleteJob, DeleteTask
from detent.kernel.entities import Run
from detent.kernel.predicates import ENDED_JOB
from detent.kernel.retention import DAY_US, ENDINGS, Ending, Retention, ending, is_over
from detent.operations import thresholds
from detent.operations.context import Core
from detent.store.port import ReadTransaction, WriteTransaction
from detent.store.types import Query

MAX_ROWS = 200
#: Batches of work in one pass, for each way to end; one more than this waits for the next.
ROUNDS = 10
MAX_KEYS = 10_000
MAX_OUTPUTS = 500
MAX_BLOBS = 1_000
#: A blob is put before the event that names it: so much later that event has come or never will.
BLOB_GRACE_US = DAY_US
#: Where the last pass over output and blobs has ended; the next one goes on from there.
CURSORS = "retention_cursors"
ACTOR = Actor("keeper")


class Gone(NamedTuple):
    """How much went, or would go; `bytes` are those of the blobs."""

    work: int = 0
    keys: int = 0
    outputs: int = 0
    blobs: int = 0
    bytes: int = 0


class _Undone(Exception):
    """Ends a transaction in which something was only counted."""


def run(core: Core, retention: Retention | None = None) -> int:
    """One bounded pass; what something still needs is refused by the kernel and stays."""
    wanted = retention or thresholds.retention(core.settings)
    work = delete_expired_work(core, wanted)
    keys = delete_expired_keys(core)
    cursors = _cursors(core)
    outputs, after_output = delete_expired_outputs(core, wanted, cursors.get("outputs", ""))
    blobs, _, after_blob = delete_unused_blobs(core, cursors.get("blobs", ""))
    ended = {"outputs": after_output, "blobs": after_blob}
    if ended != {"outputs": "", "blobs": "", **cursors}:
        core.engine.transaction(lambda tx: tx.put_rows("system_state", {CURSORS: ended}))
    return sum((work, keys, outputs, blobs))


def _cursors(core: Core) -> Mapping[str, str]:
    with core.store.read() as view:
        return dict(view.rows("system_state").get(CURSORS) or {})


def run_all(core: Core, *, dry_run: bool = False) -> Gone:
    """Everything that may go now, however much it is; with `dry_run` it is only counted."""
    wanted = thresholds.retention(core.settings)
    work = delete_expired_work(core, wanted, rounds=1_000_000, dry_run=dry_run)
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
            return Gone(work, keys, outputs, blobs, size)


# ---- work ------------------------------------------------------------------------------------


def delete_expired_work(
    core: Core, retention: Retention, *, rounds: int = ROUNDS, dry_run: bool = False
) -> int:
    """Tasks with all below them, and jobs alone, whose time is over."""
    with core.store.read() as view:
        expired = list(_expired(view.now(), retention))
        if dry_run:
            return sum(sum(view.count_by(each, "state").values()) for each, _ in expired)
    return sum(_forget(core, query, delete, rounds) for query, delete in expired)


def _forget(core: Core, query: Query, delete: Callable[..., Command], rounds: int) -> int:
    """The oldest first; past those that something still needs to those behind them."""
    gone = 0
    for _ in range(rounds):
        with core.store.read() as view:
            rows = view.page(query)
        asks = [CommandRequest(delete(row["id"], "retention"), ACTOR) for row in rows]
        results = core.engine.execute(asks, bulk=True) if asks else []
        gone += sum(1 for each in results if isinstance(each, CommandResult))
        if len(rows) < MAX_ROWS:
            break
        query = query._replace(after=(rows[-1]["state_at"], rows[-1]["id"]))
    return gone


def _expired(now: int, retention: Retention) -> Iterator[tuple[Query, Callable[..., Command]]]:
    """Where the work stands whose time is over, and the command that deletes it."""
    for (lifecycle, state), how in ENDINGS.items():
        before = ("<", now - retention.days(how) * DAY_US)
        where = {"state": state, "state_at": before}
        if lifecycle == "job":
            alone = {**where, "task_id": None, "parent_job_id": None}
            yield Query("jobs", alone, "state_at", limit=MAX_ROWS), DeleteJob
        else:
            roots = {**where, "lifecycle": lifecycle, "parent_id": None}
            yield Query("tasks", roots, "state_at", limit=MAX_ROWS), DeleteTask
    stuck = ("<", now - retention.days(Ending.FAILED) * DAY_US)
    failed = {"lifecycle": "board", "state": "blocked", "retries_left": 0, "state_at": stuck}
    yield Query("tasks", failed, "state_at", limit=MAX_ROWS), DeleteTask


# ---- what nothing refers to ------------------------------------------------------------------


def delete_expired_keys(core: Core, *, dry_run: bool = False) -> int:
    """Idempotency keys that have expired. Nobody is woken for it."""
    counts: list[int] = []

    def forget(tx: WriteTransaction) -> None:
        counts.append(tx.delete_expired_keys(tx.now(), MAX_KEYS))
        if dry_run:
            raise _Undone

    with suppress(_Undone):
        core.engine.transaction(forget)
    return counts[0]


def delete_expired_outputs(
    core: Core, retention: Retention, after: str, *, dry_run: bool = False
) -> tuple[int, str]:
    """Output of runs whose time is over or that are gone; and where to go on, empty at the end."""
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
    """Blobs that no evidence names: how many, their bytes, and where to go on."""
    blobs = core.store.blobs
    with core.store.read() as view:
        before = view.now() - BLOB_GRACE_US
        digests = blobs.old(before, after, MAX_BLOBS)
        unused = set(digests) - view.used_blobs(digests)
    if dry_run:
        sizes = [blobs.size(each) or 0 for each in unused]
    else:
        sizes = [each.size for each in blobs.remove(unused, before)] if unused else []
    return len(sizes), sum(sizes), digests[-1] if len(digests) == MAX_BLOBS else ""


def live_runs(view: ReadTransaction, runs: Collection[Run]) -> set[str]:
    """Those of these runs whose task has not ended; without a task their job counts."""
    jobs = {job.id: job for job, _ in view.jobs({run.job_id for run in runs})}
    tasks = {
        task.id: task for task, _ in view.tasks({j.task_id for j in jobs.values() if j.task_id})
    }
    live = set()
    for job in jobs.values():
        task = tasks.get(job.task_id or "")
        if task is None:
            is_live = job.state not in ENDED_JOB
        else:
            is_live = ending(task.lifecycle, task.state, task.retries_left) is None
        if is_live:
            live.add(job.id)
    return {run.id for run in runs if run.job_id in live}
