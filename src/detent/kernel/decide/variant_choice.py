"""Decides the choice between the variants of a task."""

from detent.errors import Invalid, Refused
from detent.kernel import commands as c
from detent.kernel import events as e
from detent.kernel.decide.guards import not_its_own, same_diff, seen
from detent.kernel.draft import Draft
from detent.kernel.entities import Task, Wait
from detent.kernel.predicates import ENDED_JOB, is_done
from detent.kernel.transitions.waits import end_wait
from detent.kernel.variants import (
    VARIANT,
    chosen_of,
    has_variants,
    is_choice,
    latest_set,
    number_of,
)
from detent.kernel.world import WAITS


def choose_variant(draft: Draft, command: c.ChooseVariant) -> str:
    """Choose a variant that has ended well; return `chosen`, or `repeated` (no change)."""
    task = draft.task(command.task_id)
    not_its_own(draft, task, "choose one of its variants")
    known = chosen_of(task.options)
    variant = _named(draft, task, command.variant)
    if known is not None and known["task_id"] == variant.id:
        return "repeated"
    if known is not None:
        raise Refused(
            f"Variant {known['number']} of task {task.id} was chosen already.",
            code="already_chosen",
            details={"number": known["number"], "task_id": known["task_id"]},
        )
    seen(draft, task, command.seen)
    _may_choose(draft, task, variant)
    same_diff(draft, variant, command.diff)
    draft.emit(task.id, _chosen(variant))
    end_choice(draft, task.id)
    return "chosen"


def _chosen(variant: Task) -> e.VariantChosen:
    job_id, number = variant.options[VARIANT]["job_id"], variant.options[VARIANT]["number"]
    return e.VariantChosen(variant.id, number, job_id, variant.intent, variant.session_id)


def end_choice(draft: Draft, task_id: str) -> None:
    """End the question of a task which variant to choose, if one was chosen and it is open."""
    task = draft.task(task_id)
    chosen = chosen_of(task.options)
    waits: list[Wait] = list(draft.parts_of(WAITS, task.job_id or "").values())
    for wait in filter(is_choice, waits):
        if chosen is not None:
            end_wait(draft, wait, "answered", str(chosen["number"]))


def _may_choose(draft: Draft, task: Task, variant: Task) -> None:
    job = draft.job_of(task)
    if job is None or job.state in ENDED_JOB:
        raise Refused(
            f"Task {task.id} is {task.state}: none of its variants can be chosen now.",
            code="no_variants",
        )
    if not is_done(draft, variant):
        raise Refused(
            f"Variant {number_of(variant)} of task {task.id} is {variant.state}. Only a variant "
            "that has ended well can be chosen.",
            code="variant_not_done",
            details={"variant": variant.id, "state": variant.state},
        )


def _named(draft: Draft, task: Task, given: str) -> Task:
    """Return the variant with this number or task id."""
    found = variants_of(draft, task)
    if not found:
        raise Refused(f"Task {task.id} has no variants to choose from.", code="no_variants")
    for each in found:
        if given in (each.id, str(number_of(each))):
            return each
    numbers = [str(number_of(each)) for each in found]
    raise Invalid(
        f"variant must be the number or the id of a variant of task {task.id}, not "
        f"{given!r:.80}. Its variants: {', '.join(numbers)}.",
        field="variant",
        given=given,
        allowed=tuple(numbers),
    )


def variants_of(draft: Draft, task: Task) -> list[Task]:
    """Return the last variants of the task: those of its present job, or of the choice."""
    subtasks = draft.subtasks(task.id)
    chosen, job = chosen_of(task.options), draft.job_of(task)
    if chosen is not None:
        return latest_set(subtasks, chosen["job_id"])
    return latest_set(subtasks, job.id) if job is not None and has_variants(job) else []
