"""Plan steps: start them with a resource, and apply the critic's decision about their runs."""

from collections.abc import Iterable
from typing import Any, cast

from detent.errors import Refused
from detent.kernel import events as e
from detent.kernel.critic import decision_from, default_decision, next_state, requests_plan
from detent.kernel.derived_ids import run_of_job
from detent.kernel.draft import Draft
from detent.kernel.entities import Job, Resource, Run, Step
from detent.kernel.plan import DEFAULT_MAX_RETRIES, PlanStep, frontier, is_whole_job
from detent.kernel.provider_health import is_usable, usable_from
from detent.kernel.resource_matching import candidates, choose
from detent.kernel.retry import (
    MAX_RETRIES,
    PLAIN,
    Again,
    FailureClass,
    RetryPolicy,
    policy_from,
    verdict,
)
from detent.kernel.world import CHECKPOINTS, STEPS, WAITS, World

#: States of a step that continues under a new claim or after a wait.
CONTINUING = frozenset({"retrying", "needs_user", "switching_resource", "running"})
#: States of a step that has not begun or has ended.
NOT_LIVE = frozenset({"pending", "waiting_deps", "succeeded", "failed"})
CONFIRM, REFUSE = "confirm", "refuse"


def steps_of(world: World, job_id: str) -> dict[str, Step]:
    return world.parts_of(STEPS, job_id)


def states_of(world: World, job_id: str) -> dict[str, str]:
    return {name: step.state for name, step in steps_of(world, job_id).items()}


# ---- starting --------------------------------------------------------------------------------


def startable(world: World, job: Job, now: int) -> tuple[str, ...]:
    """Return the steps that could start now with a resource, in the order of the plan."""
    if job.plan_version == 0 or job.cancel_reason is not None:
        return ()
    plan, steps = world.plan(job.id), steps_of(world, job.id)
    ready = {name for name, step in steps.items() if _can_continue(world, step, now)}
    if not job.plan_wanted:
        ready.update(frontier(plan, states_of(world, job.id)))
    return tuple(step.name for step in plan.steps if step.name in ready)


def _can_continue(world: World, step: Step, now: int) -> bool:
    if step.state not in CONTINUING or step.run_id is not None:
        return False
    if step.not_before > now and not _limit_was_ended(world, step, now):
        return False
    waits = world.parts_of(WAITS, step.job_id).values()
    return not any(wait.step == step.name for wait in waits)


def _limit_was_ended(world: World, step: Step, now: int) -> bool:
    """Whether a step that waits for a reset could have a provider now: a person ended a limit."""
    planned = world.plan(step.job_id).step(step.name)
    if step.error_class != FailureClass.RATE_LIMIT or not planned.providers:
        return False
    return _choose(world, now, planned, step, fitting_resources(world, planned, step)) is not None


def planner_is_due(world: World, job: Job) -> bool:
    """Whether a first plan is needed, or the next one and no step of the last one is live."""
    if job.plan_version == 0:
        return bool(job.options.get("planner"))
    begun = (step.state not in NOT_LIVE for step in steps_of(world, job.id).values())
    return job.plan_wanted and not any(begun)


def start(draft: Draft, job: Job, name: str) -> str | None:
    """Start a step with a resource; return the id of its run, None if a person refused it."""
    ready = startable(draft, job, draft.now)
    if name not in ready:
        listed = ", ".join(ready) or "none"
        raise Refused(
            f"Step {name} cannot start now. Steps that can: {listed}.", code="step_not_startable"
        )
    step = steps_of(draft, job.id)[name]
    resource = acquire(draft, draft.plan(job.id).step(name), step)
    if step.state in ("pending", "waiting_deps", "switching_resource"):
        draft.emit(job.id, e.StepLeased(resource.id), name)
    if step.state != "running":
        draft.emit(job.id, e.StepRunning(resource.id), name)
    refusal = _refusal(draft, step) if step.state == "needs_user" else None
    if refusal is not None:
        error = "the confirmation expired" if refusal == "expired" else "a person refused"
        fail(draft, step, FailureClass.NEEDS_USER.value, error, refusal)
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
        names = planned.providers or planned.capabilities_required
        wanted = ", ".join(names) or "its labels"
        message = f"There is no free resource for step {step.name}, which needs {wanted}."
        raise Refused(message, code="no_resource")
    return chosen


def available(draft: Draft, planned: PlanStep, step: Step) -> Resource | None:
    """Return the resource that the step would get now, preferably the one that it holds."""
    fitting = fitting_resources(draft, planned, step)
    held = next((each for each in fitting if each.id == step.resource), None)
    return held or _choose(draft, draft.now, planned, step, fitting)


def fitting_resources(world: World, planned: PlanStep, step: Step) -> tuple[Resource, ...]:
    """Return the resources that fit; the provider that it had last if it may not change it."""
    fitting = candidates(planned, step.avoid, world.known_resources())
    if planned.providers and not planned.switch_provider and step.last_resource is not None:
        return tuple(each for each in fitting if each.id == step.last_resource)
    return fitting


def _choose(
    world: World, now: int, planned: PlanStep, step: Step, fitting: Iterable[Resource]
) -> Resource | None:
    """Return the first provider that can be used, or the best resource of other steps."""
    usable = [each for each in fitting if is_usable(each, now, world.users_of(each.service))]
    if planned.providers:
        return next((each for each in usable if world.in_use(each.id) < each.capacity), None)
    return choose(usable, world.in_use, step.last_resource)


def usable_at(draft: Draft, planned: PlanStep, step: Step) -> int | None:
    """Return when the first rate limit or open breaker of its resources ends, if that is known."""
    times = [usable_from(each, draft.now) for each in fitting_resources(draft, planned, step)]
    return min((at for at in times if at is not None), default=None)


def can_ever_fit(draft: Draft, planned: PlanStep, step: Step) -> bool:
    return bool(fitting_resources(draft, planned, step))


def _refusal(draft: Draft, step: Step) -> str | None:
    """Return `refused` or `expired`; None if a person has confirmed."""
    outcome = draft.part(CHECKPOINTS, step.job_id, step.wait or "")
    if outcome is not None and outcome.value["value"] == CONFIRM:
        return None
    return "expired" if outcome is not None and outcome.value["outcome"] == "expired" else "refused"


# ---- ending ----------------------------------------------------------------------------------


def apply_decision(
    draft: Draft, job: Job, run: Run, given: str | None, failure: e.RunFailed | None, result: Any
) -> None:
    """Move a step by the critic's decision about its ended run."""
    step = steps_of(draft, job.id)[cast(str, run.step)]
    planned = draft.plan(job.id).step(step.name)
    kind = None if failure is None else FailureClass(failure.error_class)
    error = "the critic did not accept the result" if failure is None else failure.error
    decision = given if given is not None else default_decision(kind)
    target = next_state(decision, retries_left(draft, planned, step, kind))
    if target == "succeeded":
        draft.emit(job.id, e.StepSucceeded(result), step.name)
    elif target == "failed_retryable":
        if kind is FailureClass.RATE_LIMIT and planned.providers:
            switch_provider(draft, job, planned, step, error)
        else:
            reset_at = None if failure is None else failure.reset_at
            retry(draft, job, step, kind or FailureClass.ERROR, error, reset_at)
    elif target == "failed_resource":
        switch(draft, planned, step, error)
    elif target == "needs_user":
        ask_for_confirmation(draft, job, step, error)
    else:
        request_plan(draft, job, step, decision, error)
        why = str(decision_from(decision) or "failed")
        fail(draft, step, (kind or FailureClass.ERROR).value, error, why)


def request_plan(draft: Draft, job: Job, step: Step, decision: object, error: str) -> None:
    """Request a new plan version if the critic decides so and there is a planner."""
    has_planner = bool(job.options.get("planner")) and not job.plan_wanted
    if requests_plan(decision, job.replans, has_planner=has_planner):
        draft.emit(job.id, e.ReplanRequested(step.name, error))


def retries_left(draft: Draft, planned: PlanStep, step: Step, kind: FailureClass | None) -> int:
    """Return how often the step may still be retried. A rate limit does not count.

    The limit is its `max_retries`, else its retry policy, else the default of plans.
    """
    if kind is FailureClass.RATE_LIMIT:
        return 1
    if planned.max_retries is not None or planned.retry is None:
        maximum = DEFAULT_MAX_RETRIES if planned.max_retries is None else planned.max_retries
        return maximum - step.retries
    policy = _policy(draft, draft.job(step.job_id), planned)
    allowed = policy.rules[kind or FailureClass.ERROR].retries
    limits = (allowed, None if policy.max_attempts is None else policy.max_attempts - 1)
    return min((each for each in limits if each is not None), default=MAX_RETRIES) - step.retries


def retry(
    draft: Draft, job: Job, step: Step, kind: FailureClass, error: str, reset_at: int | None = None
) -> None:
    draft.emit(job.id, e.StepFailedRetryable(kind.value, error), step.name)
    planned = draft.plan(job.id).step(step.name)
    due_at = _due_at(_policy(draft, job, planned), step, kind, draft.now, reset_at)
    draft.emit(job.id, e.StepRetrying(due_at), step.name)


def _policy(draft: Draft, job: Job, planned: PlanStep) -> RetryPolicy:
    """Return the retry policy of a step: its own, else that of its job.

    A step that is the whole work of its task keeps the defaults of the task's lifecycle.
    """
    given = job.options.get("retry", {}) if planned.retry is None else planned.retry
    task = draft.task_of(job) if planned.retry is not None and is_whole_job(job) else None
    return policy_from(given, PLAIN if task is None else draft.lifecycle(task).policy)


def _due_at(
    policy: RetryPolicy, step: Step, kind: FailureClass, now: int, reset_at: int | None
) -> int:
    """Return when the retry is due. A critic may retry more often than the policy allows."""
    if kind is not FailureClass.RATE_LIMIT:
        return now + policy.rules[kind].delay_us(step.retries)
    return cast(Again, verdict(policy, kind, {}, 0, now, reset_at)).not_before


def switch_provider(draft: Draft, job: Job, planned: PlanStep, step: Step, error: str) -> None:
    """Change to another provider after a rate limit, or wait until the first one is usable.

    The limited provider is not avoided: the step may get it again after the reset.
    """
    limited = step.resource or ""
    others = [each for each in fitting_resources(draft, planned, step) if each.id != limited]
    if _choose(draft, draft.now, planned, step, others) is None:
        reset_at = usable_at(draft, planned, step)
        retry(draft, job, step, FailureClass.RATE_LIMIT, error, reset_at)
        return
    draft.emit(job.id, e.StepFailedResource(limited, error), step.name)
    draft.emit(job.id, e.StepSwitchingResource(step.avoid), step.name)


def switch(draft: Draft, planned: PlanStep, step: Step, error: str) -> None:
    """Avoid the resource that failed, and fail the step if no other one can fit."""
    failed = step.resource or ""
    draft.emit(step.job_id, e.StepFailedResource(failed, error), step.name)
    draft.emit(step.job_id, e.StepSwitchingResource((*step.avoid, failed)), step.name)
    if not can_ever_fit(draft, planned, steps_of(draft, step.job_id)[step.name]):
        what = f"no other resource fits: {error}"
        fail(draft, step, FailureClass.RESOURCE.value, what, "no_resource")


def ask_for_confirmation(draft: Draft, job: Job, step: Step, text: str) -> None:
    """Ask a person to confirm before the step continues."""
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
