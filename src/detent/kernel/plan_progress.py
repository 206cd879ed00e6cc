"""The plan of a job: where it comes from, how its steps are created, and when it has ended."""

from collections.abc import Mapping
from typing import Any, cast

from detent.kernel import events as e
from detent.kernel.derived_ids import run_of_job
from detent.kernel.draft import Draft
from detent.kernel.entities import Job, Step
from detent.kernel.plan import Plan, PlanEnd, carry_over, finished, is_whole_job, validate
from detent.kernel.plan_steps import fail, states_of, steps_of, unlease
from detent.kernel.retry import FailureClass
from detent.kernel.transitions.attempts import fail_job

#: Options that make a job without a plan run as a plan of one step.
ONE_STEP = (
    "capabilities_required",
    "label_selector",
    "avoid",
    "providers",
    "switch_provider",
    "critic",
    "hold_resource_ms",
    "max_retries",
)


def plan_from(options: Mapping[str, Any], intent: str) -> Mapping[str, Any] | None:
    """Return the plan in the options, or a plan of one step if they name resources or a critic."""
    if "plan" in options:
        return cast(Mapping[str, Any], options["plan"])
    if options.get("planner"):
        return None
    asked = {name: options[name] for name in ONE_STEP if name in options}
    if not asked or asked.keys() == {"switch_provider"}:
        return None
    if "providers" in asked:
        asked["retry"] = options.get("retry", {})
    return {"steps": [{"name": intent, "intent": intent, **asked}]}


# ---- couplings: predicates and consequences --------------------------------------------------


def options_have_a_plan(draft: Draft, record: e.Record) -> bool:
    event = cast(e.JobCreated, record.event)
    return bool(event.options) and plan_from(event.options, event.intent) is not None


def record_first_plan(draft: Draft, record: e.Record) -> None:
    event = cast(e.JobCreated, record.event)
    document = plan_from(event.options, event.intent)
    if document is not None:
        record_plan(draft, draft.job(record.stream), document)


def plan_again(draft: Draft, record: e.Record) -> None:
    """Create a new version of a failed plan that a person retries; finished steps are kept."""
    job = draft.job(record.stream)
    record_plan(draft, job, document_of(draft.plan(job.id)))


def has_plan(draft: Draft, record: e.Record) -> bool:
    return draft.job(record.stream).plan_version > 0


def plan_has_ended(draft: Draft, record: e.Record) -> bool:
    job = draft.job(record.stream)
    if job.state != "running" or job.plan_wanted:
        return False
    end = finished(draft.plan(job.id), states_of(draft, job.id))
    return end is PlanEnd.COMPLETED or (end is PlanEnd.FAILED and job.cancel_reason is None)


def all_steps_are_done(draft: Draft, record: e.Record) -> bool:
    """Whether a new plan has only finished steps: no step will end it."""
    return plan_has_ended(draft, record) and draft.job(record.stream).cancel_reason is None


def end_plan(draft: Draft, record: e.Record) -> None:
    """End the job with the results by step; a one-step plan made from options has one result."""
    job = draft.job(record.stream)
    steps = steps_of(draft, job.id)
    failed = _last_failure(steps, record)
    if failed is not None:
        kind = FailureClass(failed.error_class or FailureClass.ERROR)
        fail_job(draft, job, kind, f"step {failed.name} failed: {failed.error}")
        return
    results = {step.name: steps[step.name].result for step in draft.plan(job.id).steps}
    result = results.get(job.intent) if is_whole_job(job) else results
    draft.emit(job.id, e.JobCompleted(result))


def end_empty_plan(draft: Draft, record: e.Record) -> None:
    """End a job whose new plan has nothing left to do; its task is started first."""
    job = draft.job(record.stream)
    task = draft.task_of(job)
    if task is not None and draft.may(task, e.TaskStarted):
        draft.emit(task.id, e.TaskStarted(run_of_job(job.id, job.runs)))  # its last run so far
    end_plan(draft, record)


def _last_failure(steps: Mapping[str, Step], record: e.Record) -> Step | None:
    """Return the failed step whose error the job gets."""
    if isinstance(record.event, e.StepFailed):
        return steps[record.subject or ""]
    failed = [step for step in steps.values() if step.state == "failed"]
    return max(failed, key=lambda step: step.state_at, default=None)


def abandon_steps(draft: Draft, record: e.Record) -> None:
    """Fail the running steps of a cancelled job, and free the leased ones."""
    for step in steps_of(draft, record.stream).values():
        if step.state == "running":
            fail(draft, step, "cancelled", "its job was cancelled", "cancelled")
        elif step.state == "leased":
            unlease(draft, step, "cancelled")


# ---- creating steps --------------------------------------------------------------------------


def record_plan(draft: Draft, job: Job, document: Mapping[str, Any]) -> None:
    """Record a plan version with its steps; finished steps of the last version are kept."""
    record_plan_over(draft, job, document, _carried(draft, job, validate(document)))


def record_plan_over(
    draft: Draft, job: Job, document: Mapping[str, Any], carried: Mapping[str, Any]
) -> None:
    """Record a plan version with its steps; `carried` has the results of finished steps."""
    plan = validate(document)
    version = job.plan_version + 1
    draft.emit(job.id, e.PlanGenerated(version, document, carried))
    new = [step for step in plan.steps if step.name not in carried]
    for step in new:
        draft.emit(job.id, e.StepPending(version), step.name)
    for step in new:
        still = tuple(need for need in step.needs if need not in carried)
        if still:
            draft.emit(job.id, e.StepWaitingDeps(still), step.name)


def _carried(draft: Draft, job: Job, plan: Plan) -> dict[str, Any]:
    if job.plan_version == 0:
        return {}
    known: dict[str, Step] = steps_of(draft, job.id)
    kept = carry_over(draft.plan(job.id), plan, states_of(draft, job.id))
    return {name: known[name].result for name in kept}


def document_of(plan: Plan) -> Mapping[str, Any]:
    """Return the document of a plan, as `validate` reads it."""
    fields = type(plan.steps[0]).__dataclass_fields__
    return {"steps": [{name: getattr(step, name) for name in fields} for step in plan.steps]}
