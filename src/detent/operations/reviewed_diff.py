"""The diffs of a task: the evidence file `changes.diff` of its runs, and the one under review."""

from typing import NamedTuple

from detent.errors import Invalid, NotFound, Refused
from detent.kernel.commands.review_commands import ReviewedDiff
from detent.operations.context import Core
from detent.operations.registry import Caller
from detent.review.unified_diff import Diff, FileDiff, parse_diff
from detent.store.port import ReadTransaction, Store
from detent.store.types import Query

CHANGES = "changes.diff"
MAX_RUNS = 1_000


class StoredDiff(NamedTuple):
    """A diff that a run left as evidence. `at` is when it was recorded, in microseconds."""

    sha256: str
    run_id: str
    size: int
    at: int


def diffs_of(view: ReadTransaction, task_id: str) -> list[StoredDiff]:
    """The diffs of a task's runs, in the order of the runs."""
    jobs = view.page(Query("jobs", {"task_id": task_id}, "created_at", limit=MAX_RUNS))
    if not jobs:
        return []
    of_jobs = {"job_id": [job["id"] for job in jobs]}
    runs = [row["id"] for row in view.page(Query("runs", of_jobs, "queued_at", limit=MAX_RUNS))]
    if not runs:
        return []
    rows = view.page(Query("evidence", {"run_id": runs, "file": CHANGES}, "at", limit=MAX_RUNS))
    found = {
        row["run_id"]: StoredDiff(row["sha256"], row["run_id"], row["size"], row["at"])
        for row in rows
    }
    return [found[run_id] for run_id in runs if run_id in found]


def read_diff(store: Store, sha256: str) -> Diff | None:
    """The parsed diff; None if its content was deleted."""
    try:
        return parse_diff(b"".join(store.blobs.read(sha256)))
    except NotFound:
        return None


# ---- the diff under review -------------------------------------------------------------------


def diff_under_review(core: Core, caller: Caller, task_id: str, named: str) -> StoredDiff:
    """The diff under review, if it is the one that a request names; refused otherwise."""
    core.task(caller, task_id)
    with core.store.read() as view:
        diffs = diffs_of(view, task_id)
    return _checked(core.store, task_id, diffs, named)


def reviewed_diff(core: Core, caller: Caller, task_id: str, named: str | None) -> ReviewedDiff:
    """The diff that a verdict names, with the version of the job that it was read at."""
    task, _ = core.task(caller, task_id)
    job_id = task.job_id or ""
    with core.store.read() as view:
        diffs = diffs_of(view, task_id)
        job_version = view.version_of(job_id)
    found = _checked(core.store, task_id, diffs, named or "")
    return ReviewedDiff(found.sha256, job_id, job_version)


def _checked(store: Store, task_id: str, diffs: list[StoredDiff], named: str) -> StoredDiff:
    if not diffs:
        raise Refused(f"Task {task_id} has no diff to review.", code="no_diff")
    current = diffs[-1]
    if named == current.sha256:
        return current
    if named not in {each.sha256 for each in diffs}:
        raise Invalid(
            f"diff must be the SHA-256 of the diff under review, {current.sha256}, not {named!r}.",
            field="diff",
            given=named,
            allowed=(current.sha256,),
        )
    files = changed_files(read_diff(store, named), read_diff(store, current.sha256))
    raise Refused(
        f"Task {task_id} has another diff now: {named} was named, the diff under review is "
        f"{current.sha256}. Files that differ: {', '.join(files) or 'none'}.",
        code="diff_changed",
        details={"reviewed": named, "current": current.sha256, "files": files},
    )


def changed_files(before: Diff | None, now: Diff | None) -> list[str]:
    """The paths of the files whose changes differ between two diffs; all, if one is deleted."""
    paths = [each.path for diff in (before, now) if diff is not None for each in diff.files]
    if before is None or now is None:
        return sorted(set(paths))
    return sorted(
        path for path in set(paths) if _content(before.file(path)) != _content(now.file(path))
    )


def _content(file: FileDiff | None) -> tuple[object, ...]:
    """What is compared of a file of two diffs."""
    if file is None:
        return ()
    names = (file.status, file.old_path, file.old_mode, file.new_mode, file.new_blob)
    return (*names, [(hunk.before_start, list(hunk.body)) for hunk in file.hunks])
