"""The declared options of an intent (task type): of an app's decorator, or of `[intents.NAME]`."""

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from detent.errors import Invalid
from detent.kernel import document_fields
from detent.kernel.budget import on_exceeded_from
from detent.kernel.plan import LONGEST_NAME, LONGEST_TIME_MS, MAX_STEPS, validate
from detent.kernel.plan_progress import plan_from
from detent.kernel.retry import policy_from
from detent.submission.options import (
    OPTIONS,
    WorkspaceMode,
    check_action,
    evidence_types,
    fields_of,
)

#: The intent whose jobs bring their own plan. Every app has it.
PLAN = "plan"
#: The options about reviews, which have the names and values that they have in a submission.
REVIEW = (
    *("max_rounds", "on_accept", "target_branch", "push_remote"),
    *("acceptance_criteria", "checker", "checker_may_accept"),
)
#: How many plan steps of one job run in parallel.
PARALLEL_STEPS = 4


@dataclass(frozen=True, slots=True)
class Declared:
    """The declared options of an intent, checked. `options` are stored with each of its jobs."""

    options: Mapping[str, Any] = field(default_factory=dict)
    run_timeout_ms: int | None = None
    idle_timeout_ms: int | None = None
    concurrency_key: str | None = None
    max_parallel_steps: int = PARALLEL_STEPS


def declare(
    name: str,
    *,
    retry: Mapping[str, Any] | None = None,
    timeout_s: float | None = None,
    idle_timeout_s: float | None = None,
    queue_timeout_s: float | None = None,
    job_timeout_s: float | None = None,
    concurrency_key: str | None = None,
    capabilities_required: Sequence[str] = (),
    label_selector: Mapping[str, str] | None = None,
    avoid: Sequence[str] = (),
    hold_resource_s: float | None = None,
    acquire_timeout_s: float | None = None,
    max_retries: int | None = None,
    max_parallel_steps: int = PARALLEL_STEPS,
    critic: str | None = None,
    planner: bool = False,
    plan: Mapping[str, Any] | None = None,
    requires_evidence: Sequence[str] = (),
    on_budget_exceeded: str | None = None,
    workspace: str | None = None,
    **review: Any,
) -> Declared:
    """The options of an intent, checked at registration: a mistake raises Invalid at import.

    `review` has options of `REVIEW`.
    """
    where = f"intent {name}"
    options: dict[str, Any] = {
        "retry": dict(retry or {}),
        "queue_timeout_ms": _ms(queue_timeout_s, f"{where}: queue_timeout_s"),
        "job_timeout_ms": _ms(job_timeout_s, f"{where}: job_timeout_s"),
        "capabilities_required": _listed(capabilities_required),
        "label_selector": dict(label_selector or {}),
        "avoid": _listed(avoid),
        "hold_resource_ms": _ms(hold_resource_s, f"{where}: hold_resource_s"),
        "acquire_timeout_ms": _ms(acquire_timeout_s, f"{where}: acquire_timeout_s"),
        "max_retries": max_retries,
        "critic": critic,
        "planner": planner,
        "plan": plan,
        "requires_evidence": evidence_types(requires_evidence, f"{where}: requires_evidence"),
        "on_budget_exceeded": on_budget_exceeded,
        "workspace": workspace,
        **review,
    }
    kept = {key: value for key, value in options.items() if value not in (None, False, {}, [])}
    _check(kept, name, where)
    if concurrency_key is not None:
        fields_of(document_fields.text(concurrency_key, f"{where}: concurrency_key", LONGEST_NAME))
    parallel = f"{where}: max_parallel_steps"
    return Declared(
        kept,
        _ms(timeout_s, f"{where}: timeout_s"),
        _ms(idle_timeout_s, f"{where}: idle_timeout_s"),
        concurrency_key,
        document_fields.whole_number(max_parallel_steps, parallel, 1, MAX_STEPS),
    )


#: The names of all options of an intent.
OPTION_NAMES = (*list(inspect.signature(declare).parameters)[1:-1], *REVIEW)


def declared_options(name: str, options: Mapping[str, Any]) -> Declared:
    """The checked options of an intent; Invalid names an unknown option."""
    document_fields.text(name, "intent", LONGEST_NAME)
    unknown = next((each for each in options if each not in OPTION_NAMES), None)
    if unknown is not None:
        raise Invalid(
            f"intent {name}: there is no option {unknown!r}. Known: {', '.join(OPTION_NAMES)}.",
            field=unknown,
            given=unknown,
            allowed=OPTION_NAMES,
        )
    return declare(name, **options)


def _check(options: Mapping[str, Any], name: str, where: str) -> None:
    policy_from(options.get("retry", {}), where=f"{where}: retry")
    if "on_budget_exceeded" in options:
        on_exceeded_from(options["on_budget_exceeded"], f"{where}: on_budget_exceeded")
    if "workspace" in options:
        document_fields.choice(options["workspace"], f"{where}: workspace", WorkspaceMode)
    for each in REVIEW:
        if each in options:
            OPTIONS[each].check(options[each], f"{where}: {each}")
    check_action(options, where)
    if options.get("checker") == name:
        raise document_fields.wrong(f"{where}: checker", "another intent", name)
    document = plan_from(options, name)
    if document is not None:
        validate(document, f"{where}: plan")


def _listed(given: Sequence[str]) -> Sequence[str]:
    """A list. A text is returned as it is, and refused later as not a list."""
    return given if isinstance(given, str) else list(given)


def _ms(seconds: float | None, where: str) -> int | None:
    if seconds is None:
        return None
    max_s = LONGEST_TIME_MS // 1_000
    number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if not number or not 0.001 <= seconds <= max_s:
        raise document_fields.wrong(where, f"a number of seconds from 0.001 to {max_s}", seconds)
    return round(seconds * 1_000)


def registered_already(name: str) -> Invalid:
    """The error for an intent that an app has already."""
    return Invalid(f"intent {name!r} is registered already.", field="intent", given=name)
