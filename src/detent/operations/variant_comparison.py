"""Best of N: compares the variants of a task, and chooses one of them."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from detent import views
from detent.errors import NotFound
from detent.kernel import commands as c
from detent.kernel.commands.review_commands import ReviewedDiff
from detent.kernel.entities import Job
from detent.kernel.predicates import ENDED_JOB
from detent.kernel.variants import VARIANTS, chooser_of, chosen_of, intents_of, number_of
from detent.operations import schemas
from detent.operations.context import Core
from detent.operations.registry import Caller, Scope, operation
from detent.operations.review_diffs import MAX_DIFF_BYTES, TaskDiff, read_diff
from detent.operations.reviewed_diff import diffs_of_task, reviewed_diff
from detent.operations.tasks import carry_out, judge_diff
from detent.operations.variant_facts import (
    VariantFacts,
    duration_us,
    facts_of,
    subtasks_of,
    variants_in,
)
from detent.store.types import Query


@operation(Scope.READ, "GET", "/api/tasks/{task_id}/variants")
def variants(core: Core, caller: Caller, *, task_id: str) -> schemas.Variants:
    """Compare the variants of a task: state, diff, tests, cost, and the checker's verdict."""
    task, version = core.task(caller, task_id)
    with core.store.read() as view:
        (row,) = view.page(Query("tasks", {"id": task_id}, limit=1))
        facts = facts_of(view, core.store.blobs, task, subtasks_of(view, task))
        diffs = {each.task.id: diffs_of_task(view, each.task) for each in facts}
        job = next((job for job, _ in view.jobs([task.job_id])), None) if task.job_id else None
    chosen = chosen_of(task.options)
    open_choice = chosen is None and job is not None and job.state not in ENDED_JOB
    return {
        "task_id": task_id,
        "title": row["title"],
        "state": task.state,
        "lifecycle": task.lifecycle,
        "version": version,
        "wanted": len(intents_of(task.options, task.intent)) if VARIANTS in task.options else 0,
        "choose": chooser_of(task.options).value,
        "chosen": None if chosen is None else chosen["number"],
        "waits_for_choice": open_choice and VARIANTS in task.blocked_detail,
        "budget_usd": None if task.budget is None else task.budget / 1_000_000,
        "cost_usd": task.spent / 1_000_000,
        "variants": [
            _variant(core, each, diffs[each.task.id], chosen, open_choice=open_choice)
            for each in facts
        ],
    }


def _variant(
    core: Core,
    each: VariantFacts,
    diffs: Sequence[TaskDiff],
    chosen: Mapping[str, Any] | None,
    *,
    open_choice: bool,
) -> schemas.Variant:
    task = each.task
    return {
        "number": each.number,
        "task_id": task.id,
        "intent": task.intent,
        "state": task.state,
        "error": _error(each.job),
        "live": not each.done and not each.failed,
        "choosable": open_choice and each.done,
        "chosen": chosen is not None and chosen["task_id"] == task.id,
        "passes": each.passes,
        "diff": _diff(core, diffs[-1]) if diffs else None,
        "tests": {
            "evidence": [cast(schemas.Evidence, views.shown(row)) for row in each.tests.evidence],
            "passed": each.tests.passed,
            "failed": each.tests.failed,
        },
        "check": _check(each),
        "cost_usd": task.spent / 1_000_000,
        "tokens_in": sum(row["tokens_in"] for row in each.runs),
        "tokens_out": sum(row["tokens_out"] for row in each.runs),
        "duration_ms": sum(map(duration_us, each.runs)) // 1_000,
    }


def _error(job: Job | None) -> str | None:
    return None if job is None or job.state == "completed" else job.error


def _diff(core: Core, found: TaskDiff) -> schemas.VariantDiff:
    try:
        files = None if found.size > MAX_DIFF_BYTES else read_diff(core, found).files
    except NotFound:
        files = None
    return {
        "sha256": found.sha256,
        "run_id": found.run_id,
        "size": found.size,
        "files": None if files is None else len(files),
        "added": None if files is None else sum(each.added for each in files),
        "removed": None if files is None else sum(each.removed for each in files),
    }


def _check(each: VariantFacts) -> schemas.VariantCheck | None:
    if each.check is None:
        return None
    task = each.check.task
    return {
        "task_id": task.id,
        "checker": task.intent,
        "state": task.state,
        "accept": each.check.accept,
        "cost_usd": task.spent / 1_000_000,
    }


# ---- choosing --------------------------------------------------------------------------------


@operation(Scope.REVIEW, "POST", "/api/tasks/{task_id}/choose")
def choose_variant(
    core: Core,
    caller: Caller,
    *,
    task_id: str,
    variant: int | str,
    seen: int | None = None,
    diff: str | None = None,
) -> schemas.Moved:
    """Choose one of the variants of a task, by number or id; the others are cancelled."""
    named = str(variant)

    def order(reviewed: ReviewedDiff | None) -> c.TaskCommand:
        return c.ChooseVariant(task_id, named, seen, reviewed)

    if diff is None:
        return carry_out(core, caller, order(None))
    shown = diff
    return judge_diff(core, caller, lambda: _reviewed(core, caller, task_id, named, shown), order)


def _reviewed(
    core: Core, caller: Caller, task_id: str, named: str, diff: str
) -> ReviewedDiff | None:
    """The diff of the variant that is named; None if there is none: the choice is refused then."""
    task, _ = core.task(caller, task_id)
    with core.store.read() as view:
        found = variants_in(task, subtasks_of(view, task))
    for each in found:
        if named in (each.id, str(number_of(each))):
            return reviewed_diff(core, caller, each.id, diff)
    return None
