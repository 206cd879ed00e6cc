"""The options of a submission as one table: the meaning, an example and the check of each.

Intents set defaults, submissions override them. A new option is a new row of the table.
"""

import re
import string
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from detent.errors import Invalid
from detent.kernel import document_fields
from detent.kernel.acceptance import OnAccept, action_of
from detent.kernel.budget import on_exceeded_from
from detent.kernel.evidence_types import EvidenceType
from detent.kernel.plan import LONGEST_TIME_MS, Plan, validate
from detent.kernel.plan_progress import plan_from
from detent.kernel.retry import MAX_RETRIES, PLAIN, RetryPolicy, policy_from
from detent.kernel.task_lifecycle import TaskLifecycle
from detent.kernel.variants import (
    CHOOSE,
    MAX_VARIANTS,
    MIN_VARIANTS,
    VARIANTS,
    Chooser,
    intents_of,
)
from detent.submission.context import Intents
from detent.submission.plan_checks import NEEDS_PLAN, with_steps
from detent.submission.workspace_options import WorkspaceMode, WorkspacePer, check_workspace

LONGEST_KEY = 200
#: A branch as `git check-ref-format` allows it, without what a command line could misread.
BRANCH = re.compile(r"(?!.*(\.\.|//|@\{|\.lock(/|$)|/\.))[\w][\w./@+-]*(?<![./])")
REMOTE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
MAX_ROUNDS = 1_000
MAX_CRITERIA, LONGEST_CRITERION = 50, 1_000

Check = Callable[[Any, str], Any]


@dataclass(frozen=True, slots=True)
class Option:
    """One option; `check` returns the value to store, or raises Invalid."""

    meaning: str
    example: Any
    check: Check


def _time_ms(given: Any, where: str) -> int:
    return document_fields.whole_number(given, where, 1, LONGEST_TIME_MS)


def _name(given: Any, where: str) -> str:
    return document_fields.text(given, where, LONGEST_KEY)


def _names(given: Any, where: str) -> list[str]:
    return list(document_fields.texts(given, where, LONGEST_KEY))


def _labels(given: Any, where: str) -> dict[str, str]:
    table = document_fields.table(given, where)
    return {name: _name(value, f"{where}.{name}") for name, value in table.items()}


def evidence_types(given: Any, where: str) -> list[str]:
    """Types of evidence that a run must add to succeed."""
    if not isinstance(given, list | tuple):
        raise document_fields.wrong(where, "a list of evidence types", given, tuple(EvidenceType))
    return [document_fields.choice(each, where, EvidenceType).value for each in given]


def _rounds(given: Any, where: str) -> int:
    return document_fields.whole_number(given, where, 1, MAX_ROUNDS)


def _retries(given: Any, where: str) -> int:
    return document_fields.whole_number(given, where, 0, MAX_RETRIES)


def _branch(given: Any, where: str) -> str:
    if not isinstance(given, str) or len(given) > LONGEST_KEY or not BRANCH.fullmatch(given):
        raise document_fields.wrong(where, "the name of a branch, such as main", given)
    return given


def _remote(given: Any, where: str) -> str:
    if not isinstance(given, str) or len(given) > LONGEST_KEY or not REMOTE.fullmatch(given):
        wanted = "the name of a remote of the repository, such as origin"
        raise document_fields.wrong(where, wanted, given)
    return given


def _criteria(given: Any, where: str) -> list[str]:
    if not isinstance(given, list | tuple) or len(given) > MAX_CRITERIA:
        raise document_fields.wrong(where, f"a list of at most {MAX_CRITERIA} strings", given)
    return list(document_fields.texts(given, where, LONGEST_CRITERION))


def _variants(given: Any, where: str) -> int | list[str]:
    """How many variants, or the intent of each: the same intent may be named several times."""
    if isinstance(given, list | tuple) and MIN_VARIANTS <= len(given) <= MAX_VARIANTS:
        return [_name(each, f"{where}[{index}]") for index, each in enumerate(given)]
    if isinstance(given, int) and not isinstance(given, bool):
        return document_fields.whole_number(given, where, MIN_VARIANTS, MAX_VARIANTS)
    wanted = f"a whole number in {MIN_VARIANTS}..{MAX_VARIANTS}, or a list of as many intents"
    raise document_fields.wrong(where, wanted, given)


def _table(given: Any, where: str) -> Any:
    """A table, which `checked_options` checks further."""
    return document_fields.table(given, where)


OPTIONS: Mapping[str, Option] = {
    "retry": Option(
        "The retry policy: max_attempts, retries, backoff, delay_ms, max_delay_ms, and the same by "
        "failure class under classes",
        {"max_attempts": 3, "delay_ms": 1_000},
        _table,
    ),
    "plan": Option(
        "A plan: steps instead of a single run",
        {"steps": [{"name": "a", "intent": "build"}]},
        _table,
    ),
    "planner": Option(
        "Whether a function creates the plan when the job starts", True, document_fields.flag
    ),
    "critic": Option("The name of the critic that judges its steps", "strict", _name),
    "capabilities_required": Option(
        "The capabilities that its resource must have", ["browser"], _names
    ),
    "label_selector": Option("The labels that its resource must have", {"zone": "eu"}, _labels),
    "avoid": Option("Resources that it must not get", ["phone-2"], _names),
    "providers": Option(
        "The providers of which its agent uses one, in order of preference",
        ["anthropic-team", "anthropic-backup"],
        _names,
    ),
    "switch_provider": Option(
        "Whether it changes to another provider at a rate limit instead of waiting (default true)",
        False,
        document_fields.flag,
    ),
    "max_retries": Option("The maximum number of retries of its step", 2, _retries),
    "hold_resource_ms": Option("How long it holds its resource while it waits", 60_000, _time_ms),
    "acquire_timeout_ms": Option(
        "The maximum wait of a step for its resource; then the job fails", 600_000, _time_ms
    ),
    "queue_timeout_ms": Option(
        "The maximum time from queueing to the first start", 3_600_000, _time_ms
    ),
    "job_timeout_ms": Option("The maximum time from queueing to the end", 86_400_000, _time_ms),
    "run_timeout_ms": Option("The maximum duration of one run", 1_800_000, _time_ms),
    "idle_timeout_ms": Option("The maximum time of one run without output", 300_000, _time_ms),
    "confirm_timeout_ms": Option(
        "How long a person may take to confirm a step; then it is refused", 86_400_000, _time_ms
    ),
    "concurrency_key": Option("Jobs with the same key run one at a time", "customer-7", _name),
    "max_rounds": Option("The maximum number of rejections by reviewers", 3, _rounds),
    "on_budget_exceeded": Option(
        "What happens when the budget is exceeded: stop, or ask a person",
        "ask",
        lambda given, where: on_exceeded_from(given, where).value,
    ),
    "workspace": Option(
        "The workspace of its agent: a directory for the task, a git worktree, or a clone of the "
        "repository",
        "worktree",
        lambda given, where: document_fields.choice(given, where, WorkspaceMode).value,
    ),
    "workspace_per": Option(
        "How long a worktree or clone is used: for the task, or until an attempt fails; the next "
        "attempt then starts in a new one",
        "attempt",
        lambda given, where: document_fields.choice(given, where, WorkspacePer).value,
    ),
    "on_accept": Option(
        "What happens to the branch of its workspace before an acceptance counts: nothing, merge "
        "into target_branch, or push to push_remote",
        "merge",
        lambda given, where: document_fields.choice(given, where, OnAccept).value,
    ),
    "target_branch": Option(
        "The branch that on_accept merges into (default: the branch that the workspace started "
        "from) or pushes to (default: the branch of the workspace)",
        "main",
        _branch,
    ),
    "push_remote": Option(
        "The remote of the repository that on_accept pushes to (default: origin)",
        "origin",
        _remote,
    ),
    "acceptance_criteria": Option(
        "What the work must fulfil; the agent, the checker and the reviewer see it",
        ["The tests pass.", "No public function changes."],
        _criteria,
    ),
    "checker": Option(
        "The intent that checks the work before a person reviews it", "checkWork", _name
    ),
    "checker_may_accept": Option(
        "Whether the checker may accept the work instead of a person; only the intent allows it",
        False,
        document_fields.flag,
    ),
    "variants": Option(
        "Best of N: how many variants of the work run, isolated from each other, or a list with "
        "the intent of each",
        3,
        _variants,
    ),
    "choose": Option(
        "Who chooses one of the variants: a person, or the policy first_passing or "
        "cheapest_passing",
        "cheapest_passing",
        lambda given, where: document_fields.choice(given, where, Chooser).value,
    ),
    "requires_evidence": Option(
        "The types of evidence that a run must add to succeed",
        ["test_result"],
        evidence_types,
    ),
}


def checked_options(
    defaults: Mapping[str, Any], given: Mapping[str, Any], policy: RetryPolicy = PLAIN
) -> dict[str, Any]:
    """The intent's options, overridden by the submission's, each checked by its row."""
    for name in given:
        if name not in OPTIONS:
            allowed = tuple(sorted(OPTIONS))
            raise Invalid(
                f"options.{name} is not a known option. Known options: {', '.join(allowed)}.",
                field=f"options.{name}",
                given=name,
                allowed=allowed,
            )
    merged = {name: value for name, value in {**defaults, **given}.items() if name in OPTIONS}
    checked = {
        name: OPTIONS[name].check(value, f"options.{name}") for name, value in merged.items()
    }
    if "retry" in checked:
        policy_from(checked["retry"], policy, "options.retry")
    plan_of(checked)
    return checked


def check_checker(
    options: Mapping[str, Any], given: Mapping[str, Any], intent: str, intents: Intents
) -> None:
    """Refuse a checker that is unknown, that is the intent itself, or that a submission trusts.

    Only the declaration of an intent, which an operator writes, lets a checker accept.
    """
    declared = intents.get(intent, {})
    trusted = bool(declared.get("checker_may_accept"))
    if given.get("checker_may_accept") is True and not trusted:
        raise _unfit_checker("checker_may_accept", True, f"only the intent {intent} can allow it")
    checker = options.get("checker")
    if checker is None:
        return
    if trusted and checker != declared.get("checker"):
        why = f"the intent {intent} lets only its own checker accept"
        raise _unfit_checker("checker", checker, why)
    if checker == intent:
        raise _unfit_checker("checker", checker, "no intent checks its own work")
    if checker not in intents:
        known = ", ".join(sorted(each for each in intents if each != intent))
        raise _unfit_checker("checker", checker, f"there is no such intent. Known: {known}")


def check_variants(
    options: Mapping[str, Any], given: Mapping[str, Any], intent: str, intents: Intents
) -> None:
    """Refuse variants of an unknown intent or of the checker, and variants of a plan."""
    if VARIANTS not in options:
        if CHOOSE in given:
            field = f"options.{CHOOSE}"
            message = f"{field} needs options.{VARIANTS}: without variants there is no choice."
            raise Invalid(message, field=field, given=given[CHOOSE])
        return
    for each in dict.fromkeys(intents_of(options, intent)):
        if each not in intents:
            known = ", ".join(sorted(intents))
            raise _unfit_variants(each, f"there is no intent {each!r}. Known: {known}")
        if each == options.get("checker"):
            raise _unfit_variants(each, f"{each!r} checks the work, so it cannot do the work")
        own = options if each == intent else intents[each]
        if own.get("planner") or plan_from(own, each) is not None or intents[each].get(NEEDS_PLAN):
            raise _unfit_variants(each, f"the intent {each!r} has a plan")


def _unfit_variants(given: Any, why: str) -> Invalid:
    field = f"options.{VARIANTS}"
    return Invalid(f"{field} cannot be used: {why}.", field=field, given=given)


def _unfit_checker(name: str, given: Any, why: str) -> Invalid:
    field = f"options.{name}"
    return Invalid(f"{field} cannot be {given!r}: {why}.", field=field, given=given)


def for_lifecycle(
    options: dict[str, Any], given: Mapping[str, Any], lifecycle: TaskLifecycle | None
) -> dict[str, Any]:
    """The options without an action that the intent declares and the lifecycle cannot carry out.

    Only tasks whose lifecycle has `task_accepting` are accepted with an action. One that the
    submission itself asks for is refused. A job without a task has no variants.
    """
    if lifecycle is None:
        options = _without_variants(options, given)
    if lifecycle is not None and "task_accepting" in lifecycle.targets:
        return options
    action = action_of(options)
    if action is not None and "on_accept" in given:
        what = "a job" if lifecycle is None else f"a task of the lifecycle {lifecycle.name}"
        raise Invalid(
            f"options.on_accept is {action}, but {what} is not accepted with an action.",
            field="options.on_accept",
            given=action.value,
            hint="Use the lifecycle review, or one whose table has task_accepting.",
        )
    return {name: value for name, value in options.items() if name != "on_accept"}


def _without_variants(options: dict[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    if VARIANTS in given:
        raise Invalid(
            f"options.{VARIANTS} needs a task, and this is a job without one.",
            field=f"options.{VARIANTS}",
            given=given[VARIANTS],
            hint="Submit a task instead of a job.",
        )
    return {name: value for name, value in options.items() if name not in (VARIANTS, CHOOSE)}


def plan_of(options: Mapping[str, Any]) -> Plan | None:
    """The validated plan of the options; None without a plan."""
    document = plan_from(options, "work")
    if document is None:
        return None
    return validate(document, "options.plan" if "plan" in options else "options")


def options_for(
    intents: Intents, intent: str, given: Mapping[str, Any], policy: RetryPolicy, payload: Any
) -> dict[str, Any]:
    """The options of a submission. The payload may fill the intent's concurrency key."""
    defaults = intents[intent]
    checked = options_from(defaults, given, policy)
    check_workspace(checked, "options")
    check_checker(checked, given, intent, intents)
    check_variants(checked, given, intent, intents)
    if defaults.get(NEEDS_PLAN) and "plan" not in checked:
        raise Invalid(
            f"options.plan is missing: every submission of the intent {intent} needs a plan.",
            field="options.plan",
            hint="Submit it with a plan (`detent submit plan --plan FILE`) or name another intent.",
        )
    return with_concurrency_key(with_steps(checked, intent, intents), defaults, given, payload)


def options_from(
    defaults: Mapping[str, Any], given: Mapping[str, Any], policy: RetryPolicy = PLAIN
) -> dict[str, Any]:
    """The checked options without the intent's concurrency key, which is a template."""
    plain = {name: value for name, value in defaults.items() if name != "concurrency_key"}
    return checked_options(plain, given, policy)


# ---- the concurrency key ---------------------------------------------------------------------


def with_concurrency_key(
    options: dict[str, Any], defaults: Mapping[str, Any], given: Mapping[str, Any], payload: Any
) -> dict[str, Any]:
    """The options with the intent's concurrency key, filled from the payload.

    A key that the submission itself gives is used unchanged.
    """
    template = defaults.get("concurrency_key_template") or defaults.get("concurrency_key")
    if template is None or "concurrency_key" in given:
        return options
    return {**options, "concurrency_key": fill_key_template(template, payload)}


def uses_payload(defaults: Mapping[str, Any]) -> bool:
    """Whether options of the intent depend on the payload."""
    return bool(defaults.get("concurrency_key_template") or defaults.get("concurrency_key"))


def fill_key_template(template: str, payload: Any) -> str:
    """The template, for example `customer-{customer}`, filled with the fields of the payload."""
    given = payload if isinstance(payload, Mapping) else {}
    values = {}
    for name in fields_of(template):
        value = given.get(name)
        if not isinstance(value, str | int | float | bool):
            raise Invalid(
                f"payload.{name} must be text or a number, not {value!r:.80}: the concurrency key "
                f"{template!r} needs it.",
                field=f"payload.{name}",
                given=value,
            )
        values[name] = value
    try:
        key = template.format_map(values)
    except (KeyError, ValueError, IndexError, AttributeError) as error:
        raise _bad_template(template, f"it does not fit the payload ({error})") from None
    return _name(key, "concurrency_key")


def fields_of(template: str) -> list[str]:
    """The fields of the payload that a template uses."""
    try:
        names = [name for _, name, _, _ in string.Formatter().parse(template) if name is not None]
    except ValueError as error:
        raise _bad_template(template, str(error)) from None
    for name in names:
        if not name.isidentifier():
            raise _bad_template(template, f"{{{name}}} is not the name of a payload field")
    return names


def _bad_template(template: str, why: str) -> Invalid:
    message = f"The concurrency key {template!r} is not a valid template: {why}."
    return Invalid(message, field="concurrency_key", given=template)
