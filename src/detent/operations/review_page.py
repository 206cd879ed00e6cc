"""The review of a task: what was asked, what it cost, its diff, and what changed between rounds."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, cast

from detent import views
from detent.errors import Invalid
from detent.kernel.entities import Task
from detent.kernel.variants import chosen_of
from detent.operations import schemas
from detent.operations.comment_threads import folded
from detent.operations.context import Core
from detent.operations.queries import result_of
from detent.operations.registry import Caller, Scope, operation
from detent.operations.review_check import check_of
from detent.operations.review_diffs import (
    MAX_DIFF_BYTES,
    MAX_EVIDENCE,
    TaskDiff,
    TaskRuns,
    chosen_diff,
    chosen_file,
    diffs_of,
    events_of,
    read_diff,
    runs_of,
)
from detent.operations.review_rows import changed_file, diff_file, hunks_of, images_in, runs_shown
from detent.operations.variant_facts import duration_us, runs_of_task, tests_in
from detent.review.diff_comparison import FilePair, changed_files, compared, paired_files
from detent.review.unified_diff import Diff
from detent.store.port import ReadTransaction, WriteTransaction
from detent.store.types import LoggedEvent, Query

#: The maximum number of files that a reviewer can mark in one task.
MAX_VIEWED = 10_000
CRITERIA = "acceptance_criteria"
VIEWED = "viewed_files"


class Stored(NamedTuple):
    """What the store has about the review of a task."""

    task: Task
    version: int
    runs: TaskRuns
    events: Sequence[LoggedEvent]
    diffs: Sequence[TaskDiff]
    #: By path, the fingerprint of the file that the caller has viewed.
    viewed: Mapping[str, str]


def _stored(core: Core, caller: Caller, task_id: str) -> Stored:
    task, version = core.task(caller, task_id)
    with core.store.read() as view:
        events = events_of(view, task)
        runs = runs_of(view, task, events)
        name = _row_name(task_id, caller)
        viewed = view.rows_under(VIEWED, name).get(name, {})
        return Stored(task, version, runs, events, diffs_of(view, runs), viewed)


def _row_name(task_id: str, caller: Caller) -> str:
    return f"{task_id}/{caller.name}"


# ---- the review ------------------------------------------------------------------------------


@operation(Scope.READ, "GET", "/api/tasks/{task_id}/review")
def review(core: Core, caller: Caller, *, task_id: str) -> schemas.Review:
    """Show what a reviewer of a task needs: the request, the cost, the diff and its files."""
    stored = _stored(core, caller, task_id)
    task, runs = stored.task, stored.runs
    with core.store.read() as view:
        (row,) = view.page(Query("tasks", {"id": task_id}))
        lifecycle = view.lifecycles()[task.lifecycle]
        shown = stored.diffs[-1] if stored.diffs else None
        last = _last_round(runs)
        worked = [*_runs_of_chosen(view, task), *runs.rows]
        evidence = _evidence(view, last if shown is None else {*last, shown.run_id})
        check = check_of(view, task)
    tests = tests_in(core.store.blobs, (each for each in evidence if each["run_id"] in last))
    own_limit = task.options.get("max_rounds")
    diff = None if shown is None or shown.size > MAX_DIFF_BYTES else read_diff(core, shown)
    return {
        "task_id": task_id,
        "title": row["title"],
        "intent": task.intent,
        "state": task.state,
        "version": stored.version,
        "lifecycle": task.lifecycle,
        "asked": _asked(task, row["payload"]),
        "rounds": task.rounds,
        "rounds_limit": lifecycle.rounds.limit if own_limit is None else own_limit,
        "cost_usd": sum(run["cost"] for run in worked) / 1_000_000,
        "tokens_in": sum(run["tokens_in"] for run in worked),
        "tokens_out": sum(run["tokens_out"] for run in worked),
        "duration_ms": sum(map(duration_us, worked)) // 1_000,
        "tests": [cast(schemas.Evidence, views.shown(each)) for each in tests.evidence],
        "test_counts": {"passed": tests.passed, "failed": tests.failed},
        "check": check,
        "result": result_of(core, caller, task_id),
        "diff": None if shown is None else _diff(shown, diff, evidence),
        "earlier": _earlier(stored.diffs),
        "viewed": [] if diff is None else _viewed(diff, stored.viewed),
        "open_comments": sum(each.open for each in folded(stored.events)),
    }


def _runs_of_chosen(view: ReadTransaction, task: Task) -> Sequence[Mapping[str, Any]]:
    """The runs of the variant that was chosen: the task continues their work."""
    chosen = chosen_of(task.options)
    found = [each for each, _ in view.tasks([chosen["task_id"]])] if chosen is not None else []
    return runs_of_task(view, found[0]) if found else ()


def _asked(task: Task, payload: Any) -> schemas.Asked:
    found = payload if isinstance(payload, Mapping) else {}
    return {
        "payload": payload,
        "acceptance_criteria": task.options.get(CRITERIA, found.get(CRITERIA)),
    }


def _last_round(runs: TaskRuns) -> set[str]:
    last = max(runs.rounds.values(), default=0)
    return {name for name, number in runs.rounds.items() if number == last}


def _evidence(view: ReadTransaction, run_ids: Collection[str]) -> Sequence[Mapping[str, Any]]:
    query = Query("evidence", {"run_id": sorted(run_ids)}, "at", limit=MAX_EVIDENCE)
    return view.page(query) if run_ids else ()


def _diff(
    shown: TaskDiff, diff: Diff | None, evidence: Iterable[Mapping[str, Any]]
) -> schemas.ReviewedDiff:
    images = images_in(shown.run_id, evidence)
    return {
        "sha256": shown.sha256,
        "run_id": shown.run_id,
        "size": shown.size,
        "at": views.utc(shown.at),
        "download": shown.download,
        "too_large": diff is None,
        "files": [] if diff is None else [diff_file(each, images) for each in diff.files],
    }


def _earlier(diffs: Sequence[TaskDiff]) -> list[schemas.EarlierDiff]:
    """The last diff of each round before that of the diff under review."""
    last = {each.round: each for each in diffs}
    rounds = sorted(last)[:-1]
    return [
        {
            "round": number,
            "run_id": last[number].run_id,
            "sha256": last[number].sha256,
            "at": views.utc(last[number].at),
        }
        for number in rounds
    ]


# ---- files -----------------------------------------------------------------------------------


@operation(Scope.READ, "GET", "/api/tasks/{task_id}/review/file")
def review_file(
    core: Core, caller: Caller, *, task_id: str, path: str, diff: str | None = None
) -> schemas.ReviewFile:
    """Show the lines of one file of a task's diff."""
    stored = _stored(core, caller, task_id)
    chosen = chosen_diff(task_id, stored.diffs, diff)
    file = chosen_file(read_diff(core, chosen), path)
    hunks, cut = hunks_of(file)
    return {
        "diff": chosen.sha256,
        "path": file.path,
        "old_path": file.old_path,
        "hunks": hunks,
        "truncated": cut or file.truncated,
    }


@operation(Scope.READ, "GET", "/api/tasks/{task_id}/review/between")
def review_between(
    core: Core, caller: Caller, *, task_id: str, since: str, path: str | None = None
) -> schemas.ReviewBetween:
    """Show what changed from an earlier diff of a task to the one under review."""
    stored = _stored(core, caller, task_id)
    earlier, now = (
        chosen_diff(task_id, stored.diffs, since),
        chosen_diff(task_id, stored.diffs, None),
    )
    old, new = read_diff(core, earlier), read_diff(core, now)
    found: schemas.ReviewBetween = {
        "since": earlier.sha256,
        "diff": now.sha256,
        "path": path,
        "old_path": None,
        "hunks": [],
        "truncated": False,
        "base_changed": False,
        "files": [],
    }
    if path is None:
        return {**found, "files": [changed_file(each) for each in changed_files(old, new)]}
    pair = _pair(old, new, path)
    comparison = compared(pair)
    hunks, cut = runs_shown(comparison.runs)
    truncated = cut or any(each is not None and each.truncated for each in pair)
    return {
        **found,
        "old_path": pair.old_path,
        "hunks": hunks,
        "truncated": truncated,
        "base_changed": comparison.base_changed,
    }


def _pair(old: Diff, new: Diff, path: str) -> FilePair:
    """The file with this path in both diffs; the path may be its earlier one."""
    for pair in paired_files(old, new):
        if path in (pair.path, pair.old_path):
            return pair
    chosen_file(new, path)
    raise AssertionError("every file of a diff is in a pair")


# ---- viewed files ----------------------------------------------------------------------------


@operation(Scope.REVIEW, "PUT", "/api/tasks/{task_id}/review/viewed")
def mark_viewed(
    core: Core, caller: Caller, *, task_id: str, diff: str, path: str, viewed: bool = True
) -> schemas.Viewed:
    """Mark a file of a diff as viewed by the caller, until the file changes; or remove the mark."""
    stored = _stored(core, caller, task_id)
    parsed = read_diff(core, chosen_diff(task_id, stored.diffs, diff))
    file = chosen_file(parsed, path)
    name = _row_name(task_id, caller)

    def write(tx: WriteTransaction) -> Mapping[str, str]:
        marks = {**tx.rows_for_update(VIEWED, name).get(name, {}), path: file.fingerprint}
        if not viewed:
            del marks[path]
        if len(marks) > MAX_VIEWED:
            raise Invalid(
                f"At most {MAX_VIEWED:,} files of a task can be marked as viewed.", field="path"
            )
        tx.put_rows(VIEWED, {name: marks or None})
        return marks

    return {"diff": diff, "viewed": _viewed(parsed, core.engine.transaction(write))}


def _viewed(diff: Diff, marks: Mapping[str, str]) -> list[str]:
    """The files that are as they were when the caller marked them."""
    found = ((path, diff.file(path)) for path in marks)
    return [path for path, file in found if file and file.fingerprint == marks[path]]
