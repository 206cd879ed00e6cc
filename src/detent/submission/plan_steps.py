"""What the steps of a plan name, checked against the known intents before the plan is recorded.

A step's intent must be known and be something a worker can run, its critic must exist, and a step
without a retry policy of its own gets the one of its intent.
"""

from collections.abc import Mapping
from typing import Any

from detent.errors import Invalid
from detent.kernel.plan import PlanStep, validate
from detent.kernel.plan_progress import plan_from
from detent.submission.context import Intents

#: In the row of an intent: every submission must bring a plan.
NEEDS_PLAN = "needs_plan"
#: In the row of an intent: the critics that its steps may name.
CRITICS = "critics"
#: What a step takes over from its intent, unless it has one of these itself.
RETRY_FIELDS = ("retry", "max_retries")


def with_steps(options: dict[str, Any], intent: str, intents: Intents) -> dict[str, Any]:
    """The options of a submission with their plan checked and completed, if there is a plan."""
    document = plan_from(options, intent)
    if document is None:
        return options
    if "plan" not in options:
        check_steps(document, intents, "options")
        return options
    return {**options, "plan": completed(document, intents, "options.plan")}


def completed(document: Mapping[str, Any], intents: Intents, where: str) -> dict[str, Any]:
    """The plan with each step's retry policy, after all its steps were checked."""
    steps = check_steps(document, intents, where)
    rows = zip(document["steps"], steps, strict=True)
    return {**document, "steps": [_with_policy(row, intents[step.intent]) for row, step in rows]}


def check_steps(document: Mapping[str, Any], intents: Intents, where: str) -> tuple[PlanStep, ...]:
    """The steps, if all that they name is known; the error says which name is not."""
    steps = validate(document, where).steps
    for index, step in enumerate(steps):
        _check_intent(step, intents, f"{where}.steps[{index}].intent")
        _check_critic(step, intents[step.intent], f"{where}.steps[{index}].critic")
    return steps


def _with_policy(row: Mapping[str, Any], intent: Mapping[str, Any]) -> Mapping[str, Any]:
    if any(row.get(name) is not None for name in RETRY_FIELDS):
        return row
    return {**row, **{name: intent[name] for name in RETRY_FIELDS if name in intent}}


def _check_intent(step: PlanStep, intents: Intents, where: str) -> None:
    able = sorted(name for name, row in intents.items() if not _is_plan(row))
    row = intents.get(step.intent)
    if row is not None and not _is_plan(row):
        return
    what = "does not exist" if row is None else "is a plan itself, and plans cannot be nested"
    raise Invalid(
        f"{where}: step {step.name!r} needs the intent {step.intent!r}, which {what}. "
        f"Known: {', '.join(able) or 'none'}.",
        code="unknown_intent",
        field=where,
        given=step.intent,
        allowed=able,
    )


def _is_plan(row: Mapping[str, Any]) -> bool:
    """Whether jobs of the intent do nothing but run the steps of a plan."""
    return bool(row.get(NEEDS_PLAN) or row.get("plan") or row.get("planner"))


def _check_critic(step: PlanStep, row: Mapping[str, Any], where: str) -> None:
    """An intent that no worker has registered yet does not say which critics there are."""
    known = row.get(CRITICS)
    if step.critic is None or known is None or step.critic in known:
        return
    listed = ", ".join(known) or "none"
    raise Invalid(
        f"{where}: step {step.name!r} names the critic {step.critic!r}, which does not exist for "
        f"the intent {step.intent!r}. Known: {listed}.",
        field=where,
        given=step.critic,
        allowed=known,
    )
