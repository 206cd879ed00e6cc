"""Broken variants of plans, resources and budgets: one omission each."""

from collections import Counter
from typing import Any
from unittest.mock import patch

from detent.engine import changeset, due_timers, loader
from detent.kernel import (
    budget_reservation,
    critic,
    plan,
    plan_progress,
    plan_steps,
    provider_health,
)
from detent.kernel import commands as c
from detent.kernel import events as e
from detent.kernel.decide import HANDLERS, edit, plans, worker_reports
from detent.kernel.draft import Draft
from detent.kernel.entities import Resource, Step
from detent.kernel.entity_store import EntityStore
from detent.kernel.evolve.table import CHANGES
from detent.kernel.resource_matching import candidates
from detent.kernel.world import World
from detent.store.port import ReadTransaction
from verification.mutant import Patches
from verification.simulation.mutants_unseen import unfenced

# ---- resources -------------------------------------------------------------------------------


def resources_are_counted_too_early() -> Patches:
    """How much of each resource is in use is what the transaction before has found."""
    take, before = loader._load_plans, Counter[str]()

    def take_and_forget(tx: ReadTransaction, world: World, *rest: Any) -> None:
        take(tx, world, *rest)
        now = dict(world.usage)
        world.usage.update(before)
        before.update({name: used - before[name] for name, used in now.items()})

    yield patch.object(loader, "_load_plans", take_and_forget)


def lost_step_keeps_its_resource() -> Patches:
    """A step whose worker was lost is tried again and still holds what it held."""
    change = CHANGES[e.StepFailedRetryable]

    def kept(step: Step, event: Any, at: int, state: str) -> Any:
        after = change(step, event, at, state)
        lost = event.error_class == "lost" and step.last_resource != "local"
        return after._replace(resource=step.last_resource) if lost else after

    yield patch.dict(CHANGES, {e.StepFailedRetryable: kept})


def hold_never_ends() -> Patches:
    """Steps that sleep too long with a resource are never looked for."""
    yield patch.object(due_timers, "_ended_holds", lambda *_: [])


def switch_goes_back() -> Patches:
    """The resource that has failed a step is not kept in mind."""
    forgets = {e.StepSwitchingResource: lambda step, *_: step}
    yield patch.dict(CHANGES, forgets)


# ---- providers -------------------------------------------------------------------------------


def breaker_never_closes() -> Patches:
    """A service that answers again stays half-open."""
    yield patch.object(provider_health, "closed", lambda health: health)


def half_open_breaker_admits_all() -> Patches:
    """After 30 minutes every step may try the service."""
    yield patch.object(EntityStore, "users_of", lambda *_: 0)


def switch_ignores_the_intent() -> Patches:
    """A step changes its provider at a rate limit although its intent forbids it."""

    def fitting(draft: Draft, planned: plan.PlanStep, step: Step) -> tuple[Resource, ...]:
        return candidates(planned, step.avoid, draft.known_resources())

    yield patch.object(plan_steps, "fitting_resources", fitting)


def limited_provider_is_used() -> Patches:
    """A provider is used although its rate limit holds."""
    state_of = provider_health.state_of

    def limit_is_over(resource: Resource, now: int) -> provider_health.State:
        health = resource.health._replace(limited_until=0)
        return state_of(resource._replace(health=health), now)

    yield patch.object(provider_health, "state_of", limit_is_over)


# ---- plans -----------------------------------------------------------------------------------


def only_the_first_need_counts() -> Patches:
    """A step starts when the first of those that it needs has ended."""
    still_open = plan._open

    def first(step: plan.PlanStep, states: Any, lost: Any) -> tuple[str, ...]:
        return tuple(each for each in still_open(step, states, lost) if each in step.needs[:1])

    yield patch.object(plan, "_open", first)


def new_plan_forgets_what_is_done() -> Patches:
    """No finished step is carried over into the next plan."""
    yield patch.object(plan_progress, "carry_over", lambda *_: ())


def critic_retries_without_limit() -> Patches:
    """However often a step was tried, a critic may have it tried once more."""
    yield patch.object(plan_steps, "retries_left", lambda *_: 1)


def sleeping_step_is_taken_up() -> Patches:
    """A step goes on although what it waits for has not come."""

    def goes_on(_: World, step: Step, now: int) -> bool:
        taken_up = step.state in plan_steps.CONTINUING and step.run_id is None
        return taken_up and step.not_before <= now

    yield patch.object(plan_steps, "_can_continue", goes_on)


def start_is_not_fenced() -> Patches:
    """A former holder of a job may start a step of it."""
    yield from unfenced(c.StartStep)


def finished_plan_is_not_ended() -> Patches:
    """A new plan whose steps are all done does not end."""
    yield patch.object(
        plan_progress, "plan_has_ended", _unless_it_is_new(plan_progress.plan_has_ended)
    )


def _unless_it_is_new(is_over: Any) -> Any:
    return lambda draft, record: (
        not isinstance(record.event, e.PlanGenerated) and is_over(draft, record)
    )


# ---- money -----------------------------------------------------------------------------------


def parents_are_not_charged() -> Patches:
    """What a run has cost is charged to its own task alone."""
    charge = worker_reports.charge_run

    def charge_one(draft: Draft, command: c.ChargeRun) -> str:
        with patch.object(Draft, "ancestors", lambda *_: []):
            return charge(draft, command)

    assert isinstance(HANDLERS, dict)
    yield patch.dict(HANDLERS, {c.ChargeRun: charge_one})


def claim_ignores_budget() -> Patches:
    """A job is started although its budget is spent."""
    yield patch.object(worker_reports, "lacks_funds", lambda *_: False)


def step_ignores_budget() -> Patches:
    """A claim finds money, and every step starts, whatever the others have spent since."""
    yield patch.object(plans, "short_of", lambda *_: None)


def raised_budget_wakes_no_job() -> Patches:
    """More money is recorded, and the jobs that wait for it are not notified."""
    yield patch.object(edit, "_let_go_on", lambda *_: None)


def run_over_budget_stops_late() -> Patches:
    """A run may spend twice its budget before it is stopped."""

    def over(draft: Draft, task: Any) -> bool:
        line = (task, *draft.ancestors(task))
        return any(each.budget is not None and each.spent > 2 * each.budget for each in line)

    yield patch.object(worker_reports, "over_budget", over)


def budget_ignores_new_subtasks() -> Patches:
    """What was promised to those at work is promised to later runs too."""
    yield patch.object(budget_reservation, "_unspent_reservation", lambda *_: 0)


# ---- workers ---------------------------------------------------------------------------------


def claim_ignores_what_steps_need() -> Patches:
    """A plan is in the lane of its job's intent, whatever its next steps need."""
    yield patch.object(changeset, "lane_of", lambda _, job: job.intent)


def unknown_critic_accepts() -> Patches:
    """A decision that is none of the five, as of a critic that is not there, accepts."""

    def accepts(answer: object, left: int) -> str:
        known = critic.decision_from(answer) is not None
        return critic.next_state(answer if known else "accept", left)

    yield patch.object(plan_steps, "next_state", accepts)


PLANS = (
    *(resources_are_counted_too_early, lost_step_keeps_its_resource, hold_never_ends),
    *(switch_goes_back, only_the_first_need_counts, new_plan_forgets_what_is_done),
    *(critic_retries_without_limit, sleeping_step_is_taken_up, start_is_not_fenced),
    *(finished_plan_is_not_ended, parents_are_not_charged, claim_ignores_budget),
    *(step_ignores_budget, raised_budget_wakes_no_job, run_over_budget_stops_late),
    *(breaker_never_closes, half_open_breaker_admits_all, switch_ignores_the_intent),
    limited_provider_is_used,
    *(budget_ignores_new_subtasks, claim_ignores_what_steps_need, unknown_critic_accepts),
)
