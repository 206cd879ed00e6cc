"""The diff that a request is about: refused if it is not the one under review."""

from collections.abc import Sequence

from detent.errors import Invalid, NotFound, Refused, TooLarge
from detent.kernel.commands.review_commands import ReviewedDiff
from detent.kernel.entities import Task
from detent.operations.context import Core
from detent.operations.registry import Caller
from detent.operations.review_diffs import TaskDiff, diffs_of, events_of, read_diff, runs_of
from detent.review.diff_comparison import changed_files
from detent.review.unified_diff import Diff
from detent.store.port import ReadTransaction


def diffs_of_task(view: ReadTransaction, task: Task) -> Sequence[TaskDiff]:
    """The diffs of a task, oldest first; the last one is under review."""
    return diffs_of(view, runs_of(view, task, events_of(view, task)))


def content_of(core: Core, diffs: Sequence[TaskDiff], sha256: str) -> Diff | None:
    """The parsed diff with this SHA-256; None if it is unknown, deleted or too large."""
    found = next((each for each in diffs if each.sha256 == sha256), None)
    if found is None:
        return None
    try:
        return read_diff(core, found)
    except (NotFound, TooLarge):
        return None


def diff_under_review(core: Core, caller: Caller, task_id: str, named: str) -> TaskDiff:
    """The diff under review, if it is the one that a request names."""
    task, _ = core.task(caller, task_id)
    with core.store.read() as view:
        diffs = diffs_of_task(view, task)
    return _checked(core, task_id, diffs, named)


def reviewed_diff(core: Core, caller: Caller, task_id: str, named: str) -> ReviewedDiff:
    """The diff that a verdict names, with the version of the job that it was read at."""
    task, _ = core.task(caller, task_id)
    job_id = task.job_id or ""
    with core.store.read() as view:
        diffs = diffs_of_task(view, task)
        job_version = view.version_of(job_id)
    found = _checked(core, task_id, diffs, named)
    return ReviewedDiff(found.sha256, job_id, job_version)


def _checked(core: Core, task_id: str, diffs: Sequence[TaskDiff], named: str) -> TaskDiff:
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
    files = _differing(content_of(core, diffs, named), content_of(core, diffs, current.sha256))
    raise Refused(
        f"Task {task_id} has another diff now: {named} was named, the diff under review is "
        f"{current.sha256}. Files that differ: {', '.join(files) or 'none'}.",
        code="diff_changed",
        details={"reviewed": named, "current": current.sha256, "files": files},
    )


def _differing(before: Diff | None, now: Diff | None) -> list[str]:
    """The paths of the files that differ; all of them, if one diff cannot be read any more."""
    if before is None or now is None:
        known = [each.path for diff in (before, now) if diff is not None for each in diff.files]
        return sorted(set(known))
    return sorted(pair.path for pair in changed_files(before, now))
