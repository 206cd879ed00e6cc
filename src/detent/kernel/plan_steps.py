"""One step of a plan: what starts it, and what a critic's word on its run does to it."""

from typing import Any, cast

from detent.errors import Refused
from detent.kernel import events as e
from detent.kernel.critic import asks_for_plan, decision_from, default_decision, next_state
from detent.kernel.derived_ids import run_of_job
from detent.kernel.draft import Draft
from detent.kernel.entities import Job, Resource, Run, Step
from detent.kernel.plan import DEFAULT_MAX_RETRIES, PlanStep, frontier
from detent.kernel.resource_matching import candidates, choose
from detent.kernel.retry import MAX_RETRIES, Again, FailureClass, policy_from, verdict
from detent.kernel.world import CHECKPOINTS, STEPS, WAITS, World

#: Where a step goes on under a new claim or after a wait, besides the plan's frontier.
TAKEN_UP = frozenset({"retrying", "needs_user", "switching_resource", "running"})
#: Where a step has not begun, or is over.
AT_AN_END = frozenset({"pending", "waiting_deps", "succeeded", "failed"})
CONFIRM, REFUSE = "confirm", "refuse"


def steps_of(world: World, job_id: str) -> dict[str, Step]:
    return world.parts_of(STEPS, job_id)


def states_of(world: World, job_id: str) -> dict[str, str]:
    return {name: step.state for name, step in steps_of(world, job_id).items()}


# ---- starting --------------------------------------------------------------------------------


def startable(world: World, job: Job, now: int) -> tuple[str, ...]:
    """Steps that could start now if they get their resource, in the order of the plan."""
    if job.plan_version == 0 or job.cancel_reason is not None:
        return ()
    plan, steps = world.plan(job.id), steps_of(world, job.id)
    ready = {name for name, step in steps.items() if _goes_on(world, step, now)}
    if not job.plan_wanted:
        ready.update(frontier(plan, states_of(world, job.id)))
    return tuple(step.name for step in plan.steps if step.name in ready)


def _goes_on(world: World, step: Step, now: int) -> bool:
    if step.state not in TAKEN_UP or step.run_id is not None or step.not_before > now:
        return False
    waits = world.parts_of(WAITS, step.job_id).values()
    return not any(wait.step == step.name for wait in waits)


def planner_is_due(world: World, job: Job) -> bool:
    """A first plan is wanted, or a next one and nothing of the last one is still going on."""
    if job.plan_version == 0:
        return bool(job.options.get("planner"))
    begun = (step.state not in AT_AN_END for step in steps_of(world, job.id).values())
    return job.plan_wanted and not any(begun)


def start(draft: Draft, job: Job, name: str) -> str | None:
    """Give a step its resource and a run, whose id is the answer; None if a person refused it."""
    ready = startable(draft, job, draft.now)
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
    refusal = _refusal(draft, step) if step.state == "needs_user" else None
    if refusal is not None:
        fail(draft, step, FailureClass.NEEDS_USER.value, f"a person's word: {refusal}", refusal)
        return None
    return _begin_run(draft, job, step, resource)


def _begin_run(draft: Draft, job: Job, step: Step, resource: Resource) -> str:
    run_id = run_of_job(job.id, job.runs + 1)
    attempt = step.retries + step.lost + 1
    queued = e.RunQueued(cast(str, job.worker), job.fence, attempt, step.name, resource.id)
    draft.emit(job.id, queued, run_id)
    draft.emit(job.id, e.RunStarted(), run_id)
    return run_id


def acquire(draft: Draft, planned: PlanStep, step: Step) -> Resource:
    chosen = available(draft, planned, step)
    if chosen is None:
        wanted = ", ".join(planned.capabilities_required) or "its labels"
        raise Refused(f"step {step.name} finds no free resource for {wanted}", code="no_resource")
    return chosen


def available(draft: Draft, planned: PlanStep, step: Step) -> Resource | None:
    """The resource that the step would get now: the one that it still holds before any other."""
    fitting = candidates(planned, step.avoid, draft.resources.values())
    held = next((each for each in fitting if each.id == step.resource), None)
    return held or choose(fitting, draft.in_use, step.last_resource)


def can_ever_fit(draft: Draft, planned: PlanStep, step: Step) -> bool:
    return bool(candidates(planned, step.avoid, draft.resources.values()))


def _refusal(draft: Draft, step: Step) -> str | None:
    """`refused` or `expired`; None if a person has confirmed."""
    said = draft.part(CHECKPOINTS, step.job_id, step.wait or "")
    if said is not None and said.value["value"] == CONFIRM:
        return None
    return "expired" if said is not None and said.value["outcome"] == "expired" else "refused"


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
    target = next_state(word, retries_left(planned, step, kind))
    if target == "succeeded":
        draft.emit(job.id, e.StepSucceeded(result), step.name)
    elif target == "failed_retryable":
        reset_at = None if failure is None else failure.reset_at
        retry(draft, job, step, kind or FailureClass.ERROR, error, reset_at)
    elif target == "failed_resource":
        switch(draft, planned, step, error)
    elif target == "needs_user":
        ask(draft, job, step, error)
    else:
        ask_for_plan(draft, job, step, word, error)
        why = str(decision_from(word) or "failed")
        fail(draft, step, (kind or FailureClass.ERROR).value, error, why)


def ask_for_plan(draft: Draft, job: Job, step: Step, word: object, error: str) -> None:
    """A new plan version, if the critic asks for one, there is a planner, and none is wanted."""
    has_planner = bool(job.options.get("planner")) and not job.plan_wanted
    if asks_for_plan(word, job.replans, has_planner=has_planner):
        draft.emit(job.id, e.ReplanRequested(step.name, error))


def retries_left(planned: PlanStep, step: Step, kind: FailureClass | None) -> int:
    """How often the step may still be tried again; a rate limit uses none of it up.

    By its `max_retries`, else by its retry policy, else by the default of plans.
    """
    if kind is FailureClass.RATE_LIMIT:
        return 1
    if planned.max_retries is not None or planned.retry is None:
        most = DEFAULT_MAX_RETRIES if planned.max_retries is None else planned.max_retries
        return most - step.retries
    policy = policy_from(planned.retry, "job")
    allowed = policy.rules[kind or FailureClass.ERROR].retries
    limits = (allowed, None if policy.max_attempts is None else policy.max_attempts - 1)
    return min((each for each in limits if each is not None), default=MAX_RETRIES) - step.retries


def retry(
    draft: Draft, job: Job, step: Step, kind: FailureClass, error: str, reset_at: int | None = None
) -> None:
    draft.emit(job.id, e.StepFailedRetryable(kind.value, error), step.name)
    planned = draft.plan(job.id).step(step.name)
    due_at = _due_at(job, planned, step, kind, draft.now, reset_at)
    draft.emit(job.id, e.StepRetrying(due_at), step.name)


def _due_at(
    job: Job, planned: PlanStep, step: Step, kind: FailureClass, now: int, reset_at: int | None
) -> int:
    """By the table of delays; a critic may retry more often than the table would."""
    given = job.options.get("retry", {}) if planned.retry is None else planned.retry
    policy = policy_from(given, "job")
    if kind is not FailureClass.RATE_LIMIT:
        return now + policy.rules[kind].delay_us(step.retries)
    return cast(Again, verdict(policy, kind, {}, 0, now, reset_at)).not_before


def switch(draft: Draft, planned: PlanStep, step: Step, error: str) -> None:
    """Shun the resource that failed, and fail for good when no other one can fit."""
    failed = step.resource or ""
    draft.emit(step.job_id, e.StepFailedResource(failed, error), step.name)
    draft.emit(step.job_id, e.StepSwitchingResource((*step.avoid, failed)), step.name)
    if not can_ever_fit(draft, planned, steps_of(draft, step.job_id)[step.name]):
        what = f"no other resource fits: {error}"
        fail(draft, step, FailureClass.RESOURCE.value, what, "no_resource")


def ask(draft: Draft, job: Job, step: Step, text: str) -> None:
    """A person must confirm before the step goes on."""
    wait = f"confirm:{step.name}:{job.runs}"
    detail = {"text": text, "options": [CONFIRM, REFUSE], "step": step.name}
    limit_ms = job.options.get("confirm_timeout_ms")
    due_at = None if limit_ms is None else draft.now + limit_ms * 1_000
    begun = e.WaitBegun("confirmation", step.name, due_at=due_at, detail=detail)
    draft.emit(step.job_id, begun, wait)
    draft.emit(step.job_id, e.StepNeedsUser(wait), step.name)


def fail(draft: Draft, step: Step, error_class: str, error: str, reason: str) -> None:
    draft.emit(step.job_id, e.StepFailedFatal(error_class, error), step.name)
    draft.emit(step.job_id, e.StepFailed(reason), step.name)


def unlease(draft: Draft, step: Step, reason: str) -> None:
    draft.emit(step.job_id, e.StepLeaseTimeout(reason), step.name)
    draft.emit(step.job_id, e.StepPending(step.plan_version, reason), step.name)
