"""The declared options of an intent (task type): of an app's decorator, or of `[intents.NAME]`."""

import inspect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from detent.errors import Invalid
from detent.kernel import document_fields
from detent.kernel.budget import budget_from, on_exceeded_from
from detent.kernel.plan import LONGEST_NAME, LONGEST_TIME_MS, MAX_STEPS, validate
from detent.kernel.plan_progress import plan_from
from detent.kernel.retry import policy_from
from detent.submission.offered_intents import DESCRIPTION, TOOL, check_offer
from detent.submission.options import (
    OPTIONS,
    evidence_types,
    fields_of,
)
from detent.submission.workspace_options import WorkspaceMode, check_workspace

#: The intent whose jobs bring their own plan. Every app has it.
PLAN = "plan"
#: The options that have the names and values that they have in a submission.
AS_SUBMITTED = (
    *("providers", "switch_provider", "workspace_per"),
    *("max_rounds", "on_accept", "target_branch", "push_remote"),
    *("acceptance_criteria", "checker", "checker_may_accept", "variants", "choose"),
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
    #: The budget of tasks that are submitted without one.
    max_budget_usd: float | None = None
    #: What the intent does, and how it is offered to other agents; None: it is not.
    description: str | None = None
    tool: str | None = None


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
    **submitted: Any,
) -> Declared:
    """The options of an intent, checked at registration: a mistake raises Invalid at import.

    `submitted` has options of `AS_SUBMITTED`.
    """
    where = f"intent {name}"
    options: dict[str, Any] = {
        "retry": _tabled(retry),
        "queue_timeout_ms": _ms(queue_timeout_s, f"{where}: queue_timeout_s"),
        "job_timeout_ms": _ms(job_timeout_s, f"{where}: job_timeout_s"),
        "capabilities_required": _listed(capabilities_required),
        "label_selector": _tabled(label_selector),
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
        **submitted,
    }
    kept = {key: value for key, value in options.items() if not _is_unset(value)}
    kept |= {key: value for key, value in submitted.items() if key == "switch_provider"}
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


#: The options that are not stored with the jobs of an intent: the budget of its tasks, and how it
#: is offered to other agents.
APART = ("max_budget_usd", DESCRIPTION, TOOL)
#: The names of all options of an intent.
OPTION_NAMES = (*list(inspect.signature(declare).parameters)[1:-1], *AS_SUBMITTED, *APART)


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
    apart = {each: options[each] for each in APART if each in options}
    check_offer(name, apart.get(TOOL), apart.get(DESCRIPTION))
    if apart.get("max_budget_usd") is not None:
        budget_from(apart["max_budget_usd"], f"intent {name}: max_budget_usd")
    rest = {each: value for each, value in options.items() if each not in apart}
    return replace(declare(name, **rest), **apart)


def _check(options: Mapping[str, Any], name: str, where: str) -> None:
    policy_from(options.get("retry", {}), where=f"{where}: retry")
    if "on_budget_exceeded" in options:
        on_exceeded_from(options["on_budget_exceeded"], f"{where}: on_budget_exceeded")
    if "workspace" in options:
        document_fields.choice(options["workspace"], f"{where}: workspace", WorkspaceMode)
    for each in AS_SUBMITTED:
        if each in options:
            OPTIONS[each].check(options[each], f"{where}: {each}")
    check_workspace(options, where)
    if options.get("checker") == name:
        raise document_fields.wrong(f"{where}: checker", "another intent", name)
    document = plan_from(options, name)
    if document is not None:
        validate(document, f"{where}: plan")


def _is_unset(value: Any) -> bool:
    """Whether an option has its default. 0, which equals False, is a value of its own."""
    return value is None or value is False or value in ({}, [])


def _listed(given: Any) -> Any:
    """A list. A value of another kind is returned as it is, and refused later as not a list."""
    return given if isinstance(given, str) or not isinstance(given, Iterable) else list(given)


def _tabled(given: Any) -> Any:
    """A table. A value of another kind is returned as it is, and refused later as not a table."""
    return dict(given) if isinstance(given, Mapping) else given


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
