"""Checks the intents and critics of plan steps before the plan is recorded.

The intent of a step must be known and runnable by a worker, and its critic must exist. A step
without its own retry policy or resource requirements gets those of its intent.
"""

from collections.abc import Mapping
from typing import Any

from detent.errors import Invalid
from detent.kernel.plan import PlanStep, validate
from detent.kernel.plan_progress import plan_from
from detent.submission.context import Intents

#: In the row of an intent: every submission must have a plan.
NEEDS_PLAN = "needs_plan"
#: In the row of an intent: the critics that its steps may use.
CRITICS = "critics"
#: The fields that a step inherits from its intent, unless it has one of them.
RETRY_FIELDS = ("retry", "max_retries")
#: The fields that a step inherits from its intent, each unless the step has it.
RESOURCE_FIELDS = (
    *("capabilities_required", "label_selector", "avoid", "providers", "switch_provider"),
    *("hold_resource_ms", "acquire_timeout_ms"),
)


def with_steps(options: dict[str, Any], intent: str, intents: Intents) -> dict[str, Any]:
    """The options of a submission, with the plan checked and completed, if there is one."""
    document = plan_from(options, intent)
    if document is None:
        return options
    if "plan" not in options:
        check_steps(document, intents, "options")
        return options
    return {**options, "plan": with_inherited_fields(document, intents, "options.plan")}


def with_inherited_fields(
    document: Mapping[str, Any], intents: Intents, where: str
) -> dict[str, Any]:
    """The plan, with what its steps inherit from their intents, after checking all steps."""
    steps = check_steps(document, intents, where)
    rows = zip(document["steps"], steps, strict=True)
    return {
        **document,
        "steps": [_with_fields_of(row, intents[step.intent]) for row, step in rows],
    }


def check_steps(document: Mapping[str, Any], intents: Intents, where: str) -> tuple[PlanStep, ...]:
    """The steps, if their intents and critics are known; the error names the unknown one."""
    steps = validate(document, where).steps
    for index, step in enumerate(steps):
        _check_intent(step, intents, f"{where}.steps[{index}].intent")
        _check_critic(step, intents[step.intent], f"{where}.steps[{index}].critic")
    return steps


def _with_fields_of(row: Mapping[str, Any], intent: Mapping[str, Any]) -> Mapping[str, Any]:
    fields = [each for each in RESOURCE_FIELDS if row.get(each) is None]
    if all(row.get(each) is None for each in RETRY_FIELDS):
        fields += RETRY_FIELDS
    return {**row, **{each: intent[each] for each in fields if each in intent}}


def _check_intent(step: PlanStep, intents: Intents, where: str) -> None:
    able = sorted(name for name, row in intents.items() if not _is_plan(row))
    row = intents.get(step.intent)
    if row is not None and not _is_plan(row):
        return
    what = "does not exist" if row is None else "is a plan itself, and plans cannot be nested"
    raise Invalid(
        f"{where}: step {step.name!r} needs the intent {step.intent!r}, which {what}. "
        f"Known intents: {', '.join(able) or 'none'}.",
        code="unknown_intent",
        field=where,
        given=step.intent,
        allowed=able,
    )


def _is_plan(row: Mapping[str, Any]) -> bool:
    """Whether jobs of the intent only run the steps of a plan."""
    return bool(row.get(NEEDS_PLAN) or row.get("plan") or row.get("planner"))


def _check_critic(step: PlanStep, row: Mapping[str, Any], where: str) -> None:
    """Check the critic of a step, if a worker has registered the critics of its intent."""
    known = row.get(CRITICS)
    if step.critic is None or known is None or step.critic in known:
        return
    listed = ", ".join(known) or "none"
    raise Invalid(
        f"{where}: step {step.name!r} names the critic {step.critic!r}, which does not exist for "
        f"the intent {step.intent!r}. Known critics: {listed}.",
        field=where,
        given=step.critic,
        allowed=known,
    )
