"""One step of a plan: what starts it, and what a critic's word on its run does to it."""

from typing import Any, cast

from detent.errors import Refused
from detent.kernel import events as e
from detent.kernel.critic import asks_for_plan, decision_from, default_decision, next_state
from detent.kernel.draft import Draft
from detent.kernel.plan import PlanStep, frontier
from detent.kernel.resources import candidates, choose
from detent.kernel.retry import FailureClass, policy_from
from detent.kernel.state import Job, Resource, Run, Step
from detent.kernel.world import CHECKPOINTS, STEPS, WAITS

#: Where a step goes on under a new claim or after a wait, besides the plan's frontier.
TAKEN_UP = frozenset({"retrying", "needs_user", "switching_resource", "running"})
CONFIRM, REFUSE = "confirm", "refuse"


def steps_of(draft: Draft, job_id: str) -> dict[str, Step]:
    return draft.parts_of(STEPS, job_id)


def states_of(draft: Draft, job_id: str) -> dict[str, str]:
    return {name: step.state for name, step in steps_of(draft, job_id).items()}


# ---- starting --------------------------------------------------------------------------------


def startable(draft: Draft, job: Job) -> tuple[str, ...]:
    """Steps that could start now if they get their resource, in the order of the plan."""
    if job.plan_version == 0 or job.plan_wanted or job.cancel_reason is not None:
        return ()
    plan, steps = draft.plan(job.id), steps_of(draft, job.id)
    ready = set(frontier(plan, states_of(draft, job.id)))
    ready.update(name for name, step in steps.items() if _goes_on(draft, step))
    return tuple(step.name for step in plan.steps if step.name in ready)


def _goes_on(draft: Draft, step: Step) -> bool:
    if step.state not in TAKEN_UP or step.run_id is not None or step.not_before > draft.now:
        return False
    waits = draft.parts_of(WAITS, step.job_id).values()
    return not any(wait.step == step.name for wait in waits)


def start(draft: Draft, job: Job, name: str) -> str | None:
    """Give a step its resource and a run, whose id is the answer; None if a person refused it."""
    ready = startable(draft, job)
    if name not in ready:
        listed = ", ".join(ready) or "none"
        raise Refused(
            f"step {name} cannot start now; these can: {listed}", code="step_not_startable"
        )
    step = steps_of(draft, job.id)[name]
    resource = acquire(draft, draft.plan(job.id).step(name), step)
    if step.state in ("pending", "waiting_deps", "switching_resource"):
        draft.emit(job.id, e.StepLeased(resource.id), name)
    if step.state != "running":
        draft.emit(job.id, e.StepRunning(resource.id), name)
    if step.state == "needs_user" and _refused(draft, step):
        fail(draft, step, FailureClass.NEEDS_USER.value, "a person did not confirm it", "refused")
        return None
    run_id = f"{job.id}-r{job.runs + 1}"
    attempt = step.retries + step.lost + 1
    draft.emit(
        job.id, e.RunQueued(cast(str, job.worker), job.fence, attempt, name, resource.id), run_id
    )
    draft.emit(job.id, e.RunStarted(), run_id)
    return run_id


def acquire(draft: Draft, planned: PlanStep, step: Step) -> Resource:
    fitting = candidates(planned, step.avoid, draft.resources.values())
    chosen = choose(fitting, draft.in_use, step.last_resource)
    if chosen is None:
        wanted = ", ".join(planned.capabilities_required) or "its labels"
        raise Refused(f"step {step.name} finds no free resource for {wanted}", code="no_resource")
    return chosen


def can_ever_fit(draft: Draft, planned: PlanStep, step: Step) -> bool:
    return bool(candidates(planned, step.avoid, draft.resources.values()))


def _refused(draft: Draft, step: Step) -> bool:
    """The confirmation was refused, or nobody gave it in time."""
    said = draft.part(CHECKPOINTS, step.job_id, step.wait or "")
    return said is None or said.value["value"] != CONFIRM


# ---- ending ----------------------------------------------------------------------------------


def judge(
    draft: Draft, job: Job, run: Run, answer: str | None, failure: e.RunFailed | None, result: Any
) -> None:
    """The critic's word on a run that has ended decides where its step goes."""
    step = steps_of(draft, job.id)[cast(str, run.step)]
    planned = draft.plan(job.id).step(step.name)
    kind = None if failure is None else FailureClass(failure.error_class)
    error = "the critic did not accept the result" if failure is None else failure.error
    word = answer if answer is not None else default_decision(kind)
    target = next_state(word, step.retries, planned.max_retries)
    if target == "succeeded":
        draft.emit(job.id, e.StepSucceeded(result), step.name)
    elif target == "failed_retryable":
        retry(draft, job, step, kind or FailureClass.ERROR, error)
    elif target == "failed_resource":
        switch(draft, planned, step, error)
    elif target == "needs_user":
        ask(draft, step, error)
    else:
        if asks_for_plan(word, job.replans, has_planner=bool(job.options.get("planner"))):
            draft.emit(job.id, e.ReplanRequested(step.name, error))
        why = str(decision_from(word) or "failed")
        fail(draft, step, (kind or FailureClass.ERROR).value, error, why)


def retry(draft: Draft, job: Job, step: Step, kind: FailureClass, error: str) -> None:
    rule = policy_from(job.options.get("retry", {}), "job").rules[kind]
    draft.emit(job.id, e.StepFailedRetryable(kind.value, error), step.name)
    draft.emit(job.id, e.StepRetrying(draft.now + rule.delay_us(step.retries)), step.name)


def switch(draft: Draft, planned: PlanStep, step: Step, error: str) -> None:
    """Shun the resource that failed, and fail for good when no other one can fit."""
    failed = step.resource or ""
    draft.emit(step.job_id, e.StepFailedResource(failed, error), step.name)
    draft.emit(step.job_id, e.StepSwitchingResource((*step.avoid, failed)), step.name)
    if not can_ever_fit(draft, planned, steps_of(draft, step.job_id)[step.name]):
        fail(
            draft,
            step,
            FailureClass.RESOURCE.value,
            f"no other resource fits: {error}",
            "no_resource",
        )


def ask(draft: Draft, step: Step, text: str) -> None:
    """A person must confirm before the step goes on."""
    wait = f"confirm:{step.name}:{draft.job(step.job_id).runs}"
    detail = {"text": text, "options": [CONFIRM, REFUSE], "step": step.name}
    draft.emit(step.job_id, e.WaitBegun("confirmation", step.name, detail=detail), wait)
    draft.emit(step.job_id, e.StepNeedsUser(wait), step.name)


def fail(draft: Draft, step: Step, error_class: str, error: str, reason: str) -> None:
    draft.emit(step.job_id, e.StepFailedFatal(error_class, error), step.name)
    draft.emit(step.job_id, e.StepFailed(reason), step.name)


def unlease(draft: Draft, step: Step, reason: str) -> None:
    draft.emit(step.job_id, e.StepLeaseTimeout(reason), step.name)
    draft.emit(step.job_id, e.StepPending(step.plan_version, reason), step.name)
