"""Options of a submission, as one table: what each means, an example, and how it is checked.

Intents set them as defaults, submissions override them. A new option is a new row here.
"""

import string
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from detent.errors import Invalid
from detent.kernel import document_fields
from detent.kernel.budget import on_exceeded_from
from detent.kernel.evidence_types import EvidenceType
from detent.kernel.plan import LONGEST_TIME_MS, Plan, validate
from detent.kernel.plan_progress import plan_from
from detent.kernel.retry import MAX_RETRIES, policy_from
from detent.submission.context import Intents
from detent.submission.plan_steps import NEEDS_PLAN, with_steps

LONGEST_KEY = 200
MAX_ROUNDS = 1_000

Check = Callable[[Any, str], Any]


class WorkspaceMode(StrEnum):
    """Where an agent works."""

    DIRECTORY = "directory"
    WORKTREE = "worktree"


@dataclass(frozen=True, slots=True)
class Option:
    """One option; `check` answers with the value as it is kept."""

    meaning: str
    example: Any
    check: Check


def _time_ms(given: Any, where: str) -> int:
    return document_fields.whole_number(given, where, 1, LONGEST_TIME_MS)


def _name(given: Any, where: str) -> str:
    return document_fields.text(given, where, LONGEST_KEY)


def _names(given: Any, where: str) -> list[str]:
    return list(document_fields.texts(given, where, LONGEST_KEY))


def _flag(given: Any, where: str) -> bool:
    if isinstance(given, bool):
        return given
    raise document_fields.wrong(where, "true or false", given)


def _labels(given: Any, where: str) -> dict[str, str]:
    table = document_fields.table(given, where)
    return {name: _name(value, f"{where}.{name}") for name, value in table.items()}


def evidence_types(given: Any, where: str) -> list[str]:
    """Types of evidence, without which a run does not count as succeeded."""
    if not isinstance(given, list | tuple):
        raise document_fields.wrong(where, "a list of evidence types", given, tuple(EvidenceType))
    return [document_fields.choice(each, where, EvidenceType).value for each in given]


def _rounds(given: Any, where: str) -> int:
    return document_fields.whole_number(given, where, 1, MAX_ROUNDS)


def _retries(given: Any, where: str) -> int:
    return document_fields.whole_number(given, where, 0, MAX_RETRIES)


def _table(given: Any, where: str) -> Any:
    """Looked at as a whole below."""
    return document_fields.table(given, where)


OPTIONS: Mapping[str, Option] = {
    "retry": Option(
        "When a failed attempt is tried again: max_attempts, retries, backoff, delay_ms, "
        "max_delay_ms, and the same by failure class under classes",
        {"max_attempts": 3, "delay_ms": 1_000},
        _table,
    ),
    "plan": Option(
        "Steps in place of a single run", {"steps": [{"name": "a", "intent": "build"}]}, _table
    ),
    "planner": Option("A function makes the plan when the job starts", True, _flag),
    "critic": Option("The critic that judges its steps, by name", "strict", _name),
    "capabilities_required": Option("What its resource must be able to do", ["browser"], _names),
    "label_selector": Option("Labels that its resource must have", {"zone": "eu"}, _labels),
    "avoid": Option("Resources that it must not be given", ["phone-2"], _names),
    "max_retries": Option("How often its step is tried again", 2, _retries),
    "hold_resource_ms": Option("How long it keeps its resource while it waits", 60_000, _time_ms),
    "acquire_timeout_ms": Option(
        "Longest wait of a step for its resource; then the job fails", 600_000, _time_ms
    ),
    "queue_timeout_ms": Option("Longest wait for its first start", 3_600_000, _time_ms),
    "job_timeout_ms": Option("Longest time from queueing to its end", 86_400_000, _time_ms),
    "run_timeout_ms": Option("Longest time of one run", 1_800_000, _time_ms),
    "idle_timeout_ms": Option("Longest time of one run without output", 300_000, _time_ms),
    "confirm_timeout_ms": Option(
        "How long a person has to confirm a step; after that it is refused", 86_400_000, _time_ms
    ),
    "concurrency_key": Option("Jobs with the same key run one at a time", "customer-7", _name),
    "max_rounds": Option("How often its work may be rejected", 3, _rounds),
    "on_budget_exceeded": Option(
        "What happens when it has spent more than it may: stop, or ask a person",
        "ask",
        lambda given, where: on_exceeded_from(given, where).value,
    ),
    "workspace": Option(
        "Where its agent works: a directory of the task's own, or a git worktree",
        "worktree",
        lambda given, where: document_fields.choice(given, where, WorkspaceMode).value,
    ),
    "requires_evidence": Option(
        "Types of evidence without which a run does not count as succeeded",
        ["test_result"],
        evidence_types,
    ),
}


def checked_options(
    defaults: Mapping[str, Any], given: Mapping[str, Any], lifecycle: str = "job"
) -> dict[str, Any]:
    """The intent's options with what the submission overrides, each checked by its row."""
    for name in given:
        if name not in OPTIONS:
            allowed = tuple(sorted(OPTIONS))
            raise Invalid(
                f"options.{name} is not known. Known: {', '.join(allowed)}.",
                field=f"options.{name}",
                given=name,
                allowed=allowed,
            )
    merged = {name: value for name, value in {**defaults, **given}.items() if name in OPTIONS}
    checked = {
        name: OPTIONS[name].check(value, f"options.{name}") for name, value in merged.items()
    }
    if "retry" in checked:
        policy_from(checked["retry"], lifecycle, "options.retry")
    plan_of(checked)
    return checked


def plan_of(options: Mapping[str, Any]) -> Plan | None:
    """The plan that options bring along, validated; None if they bring none."""
    document = plan_from(options, "work")
    if document is None:
        return None
    return validate(document, "options.plan" if "plan" in options else "options")


def options_for(
    intents: Intents, intent: str, given: Mapping[str, Any], lifecycle: str, payload: Any
) -> dict[str, Any]:
    """The options of a submission with this payload, which may be a part of its concurrency key."""
    defaults = intents[intent]
    checked = options_from(defaults, given, lifecycle)
    if defaults.get(NEEDS_PLAN) and "plan" not in checked:
        raise Invalid(
            "options.plan is missing: the intent does no work of its own, only that of a plan's "
            "steps.",
            field="options.plan",
            hint="Give the submission a plan (`detent submit plan --plan FILE`), or name the "
            "intent that is to be done.",
        )
    return with_key(with_steps(checked, intent, intents), defaults, given, payload)


def options_from(
    defaults: Mapping[str, Any], given: Mapping[str, Any], lifecycle: str = "job"
) -> dict[str, Any]:
    """Options over an intent's defaults, all checked; an intent's concurrency key is a template."""
    plain = {name: value for name, value in defaults.items() if name != "concurrency_key"}
    return checked_options(plain, given, lifecycle)


# ---- the concurrency key ---------------------------------------------------------------------


def with_key(
    options: dict[str, Any], defaults: Mapping[str, Any], given: Mapping[str, Any], payload: Any
) -> dict[str, Any]:
    """The options with the intent's concurrency key, filled from the payload.

    A key that the submission itself names is taken as it stands.
    """
    template = defaults.get("concurrency_key_template") or defaults.get("concurrency_key")
    if template is None or "concurrency_key" in given:
        return options
    return {**options, "concurrency_key": filled_key(template, payload)}


def filled_key(template: str, payload: Any) -> str:
    """`customer-{customer}` with the payload's field of that name."""
    given = payload if isinstance(payload, Mapping) else {}
    values = {}
    for name in fields_of(template):
        value = given.get(name)
        if not isinstance(value, str | int | float | bool):
            raise Invalid(
                f"payload.{name} must be a text or a number: the concurrency key {template!r} "
                "needs it.",
                field=f"payload.{name}",
                given=value,
            )
        values[name] = value
    return _name(template.format_map(values), "concurrency_key")


def fields_of(template: str) -> list[str]:
    """The fields of the payload that a template names."""
    try:
        names = [name for _, name, _, _ in string.Formatter().parse(template) if name is not None]
    except ValueError as error:
        raise _template(template, str(error)) from None
    for name in names:
        if not name.isidentifier():
            raise _template(template, f"{{{name}}} names no field of the payload")
    return names


def _template(template: str, why: str) -> Invalid:
    message = f"The concurrency key {template!r} cannot be filled: {why}."
    return Invalid(message, field="concurrency_key", given=template)
