"""The diff that a comment or a verdict names: refused if another one is under review."""

from collections.abc import Sequence

from detent.errors import Invalid, Refused
from detent.kernel.commands.review_commands import ReviewedDiff
from detent.operations.context import Core
from detent.operations.registry import Caller
from detent.operations.review_diffs import TaskDiff, parsed_diff, task_diffs
from detent.review.diff_comparison import changed_files
from detent.store.port import Store


def diff_under_review(core: Core, caller: Caller, task_id: str, named: str) -> TaskDiff:
    """The diff under review, if it is the one that a request names; refused otherwise."""
    task, _ = core.task(caller, task_id)
    with core.store.read() as view:
        diffs = task_diffs(view, task)
    return _checked(core.store, task_id, diffs, named)


def reviewed_diff(core: Core, caller: Caller, task_id: str, named: str | None) -> ReviewedDiff:
    """The diff that a verdict names, with the version of the job that it was read at."""
    task, _ = core.task(caller, task_id)
    job_id = task.job_id or ""
    with core.store.read() as view:
        diffs = task_diffs(view, task)
        job_version = view.version_of(job_id)
    found = _checked(core.store, task_id, diffs, named or "")
    return ReviewedDiff(found.sha256, job_id, job_version)


def _checked(store: Store, task_id: str, diffs: Sequence[TaskDiff], named: str) -> TaskDiff:
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
    files = _changed(store, named, current.sha256)
    raise Refused(
        f"Task {task_id} has another diff now: {named} was named, the diff under review is "
        f"{current.sha256}. Files that differ: {', '.join(files) or 'none'}.",
        code="diff_changed",
        details={"reviewed": named, "current": current.sha256, "files": files},
    )


def _changed(store: Store, named: str, current: str) -> list[str]:
    """The paths of the files that differ between two diffs; all, if one is deleted."""
    before, now = parsed_diff(store, named), parsed_diff(store, current)
    if before is None or now is None:
        known = [each for each in (before, now) if each is not None]
        return sorted({file.path for diff in known for file in diff.files})
    return sorted(pair.path for pair in changed_files(before, now))
