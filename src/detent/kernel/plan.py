"""Plans: a graph of steps, its validation, and which steps can start in the current states.

`validate` reads a document. The other functions take a plan and the states of its steps by name; a
step without an entry is pending. Pure.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from graphlib import CycleError, TopologicalSorter
from typing import Any

from detent.errors import Invalid
from detent.kernel import document_fields
from detent.kernel.entities import Job
from detent.kernel.lifecycles.step import STEP
from detent.kernel.retry import MAX_RETRIES, policy_from

MAX_STEPS = 1_000
LONGEST_NAME = 100
LONGEST_TIME_MS = 365 * 24 * 3_600 * 1_000
DEFAULT_MAX_RETRIES = 3

SUCCEEDED, FAILED = "succeeded", "failed"
ENDED = frozenset(STEP.terminal)
NOT_STARTED = frozenset({"pending", "waiting_deps"})


class When(StrEnum):
    """When a step may start, by the states of the steps that it needs."""

    ALL_SUCCEEDED = "all_succeeded"
    # Succeeded, failed, or unreachable after a failure: for reports and cleaning up.
    ALL_DONE = "all_done"


class PlanEnd(StrEnum):
    """How a plan has ended."""

    COMPLETED = "completed"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class PlanStep:
    """One step: its task type (`intent`), the steps before it, its resources and limits."""

    name: str
    intent: str
    needs: tuple[str, ...] = ()
    when: When = When.ALL_SUCCEEDED
    capabilities_required: tuple[str, ...] = ()
    label_selector: Mapping[str, str] = field(default_factory=dict)
    avoid: tuple[str, ...] = ()
    #: Resources of which it needs one, in order of preference; and whether it may change to
    #: another one at a rate limit.
    providers: tuple[str, ...] = ()
    switch_provider: bool = True
    #: The maximum number of retries for every class of failure; overrides the retry policy.
    max_retries: int | None = None
    #: Its retry policy, in the form of an intent's `retry`; by default the job's.
    retry: Mapping[str, Any] | None = None
    timeout_ms: int | None = None
    hold_resource_ms: int = 0
    #: How long it may wait for its resource; after that the job fails.
    acquire_timeout_ms: int | None = None
    critic: str | None = None
    input: Any = None


@dataclass(frozen=True, slots=True)
class Plan:
    """The steps in the order of the document, with unique names and without a cycle."""

    steps: tuple[PlanStep, ...]

    def step(self, name: str) -> PlanStep:
        """Return the step of that name, which must exist."""
        return next(step for step in self.steps if step.name == name)


def declares_plan(options: Mapping[str, Any]) -> bool:
    """Whether the options of a job have a plan or a planner."""
    return bool(options) and bool(options.get("plan") or options.get("planner"))


def is_whole_job(job: Job) -> bool:
    """Whether each run of the job does all its work: at most one step, made from its options."""
    return not declares_plan(job.options)


# ---- reading ---------------------------------------------------------------------------------

STEP_FIELDS = tuple(PlanStep.__dataclass_fields__)


def validate(document: object, where: str = "plan") -> Plan:
    """Return the plan of a document: `{"steps": [{"name": …, "needs": […], …}, …]}`."""
    rows = document_fields.table(document, where, ("steps",)).get("steps")
    if not isinstance(rows, list | tuple) or not 1 <= len(rows) <= MAX_STEPS:
        wanted = f"a list of 1 to {MAX_STEPS} steps"
        given = len(rows) if isinstance(rows, list | tuple) else rows
        raise document_fields.wrong(f"{where}.steps", wanted, given)
    steps = tuple(_step(row, f"{where}.steps[{index}]") for index, row in enumerate(rows))
    _check_names(steps, where)
    _check_needs(steps, where)
    _check_cycles(steps, where)
    return Plan(steps)


def _step(row: object, where: str) -> PlanStep:
    given = document_fields.table(row, where, STEP_FIELDS)
    if "name" not in given:
        raise Invalid(f"{where}.name is missing.", field=f"{where}.name")
    name = document_fields.text(given["name"], f"{where}.name", LONGEST_NAME)
    critic = given.get("critic")
    timeout_ms, acquire_ms = given.get("timeout_ms"), given.get("acquire_timeout_ms")
    return PlanStep(
        name=name,
        # The default intent is the name of the step.
        intent=document_fields.text(given.get("intent", name), f"{where}.intent", LONGEST_NAME),
        needs=document_fields.texts(given.get("needs", ()), f"{where}.needs", LONGEST_NAME),
        when=document_fields.choice(given.get("when", When.ALL_SUCCEEDED), f"{where}.when", When),
        capabilities_required=document_fields.texts(
            given.get("capabilities_required", ()), f"{where}.capabilities_required", LONGEST_NAME
        ),
        label_selector=_labels(given.get("label_selector", {}), f"{where}.label_selector"),
        avoid=document_fields.texts(given.get("avoid", ()), f"{where}.avoid", LONGEST_NAME),
        providers=document_fields.texts(
            given.get("providers", ()), f"{where}.providers", LONGEST_NAME
        ),
        switch_provider=document_fields.flag(
            given.get("switch_provider", True), f"{where}.switch_provider"
        ),
        max_retries=None
        if given.get("max_retries") is None
        else document_fields.whole_number(
            given["max_retries"], f"{where}.max_retries", 0, MAX_RETRIES
        ),
        retry=_retry(given.get("retry"), f"{where}.retry"),
        timeout_ms=None
        if timeout_ms is None
        else document_fields.whole_number(timeout_ms, f"{where}.timeout_ms", 1, LONGEST_TIME_MS),
        hold_resource_ms=document_fields.whole_number(
            given.get("hold_resource_ms", 0), f"{where}.hold_resource_ms", 0, LONGEST_TIME_MS
        ),
        acquire_timeout_ms=None
        if acquire_ms is None
        else document_fields.whole_number(
            acquire_ms, f"{where}.acquire_timeout_ms", 1, LONGEST_TIME_MS
        ),
        critic=None
        if critic is None
        else document_fields.text(critic, f"{where}.critic", LONGEST_NAME),
        input=_json(given.get("input"), f"{where}.input"),
    )


def _retry(given: object, where: str) -> Mapping[str, Any] | None:
    if given is None:
        return None
    policy_from(given, where=where)
    return document_fields.table(given, where)


def _labels(given: object, where: str) -> Mapping[str, str]:
    return {
        document_fields.text(label, f"{where}.{label}", LONGEST_NAME): document_fields.text(
            value, f"{where}.{label}", LONGEST_NAME
        )
        for label, value in document_fields.table(given, where).items()
    }


def _json(given: object, where: str) -> object:
    try:
        _canonical(given)
    except (TypeError, ValueError, RecursionError):
        raise document_fields.wrong(where, "a JSON value", given) from None
    return given


def _canonical(value: object) -> str:
    """Return one text for equal JSON values. In Python, `True == 1`."""
    return json.dumps(value, sort_keys=True, allow_nan=False)


def _check_names(steps: tuple[PlanStep, ...], where: str) -> None:
    first: dict[str, int] = {}
    for index, step in enumerate(steps):
        if step.name in first:
            field = f"{where}.steps[{index}].name"
            earlier = f"steps[{first[step.name]}]"
            message = f"{field}: step {step.name!r} is in the plan twice, first as {earlier}."
            raise Invalid(message, field=field, given=step.name)
        first[step.name] = index


def _check_needs(steps: tuple[PlanStep, ...], where: str) -> None:
    names = {step.name: None for step in steps}
    for index, step in enumerate(steps):
        for position, need in enumerate(step.needs):
            field = f"{where}.steps[{index}].needs[{position}]"
            if need == step.name:
                message = f"{field}: step {step.name!r} depends on itself."
                raise Invalid(message, field=field, given=need)
            if need not in names:
                message = f"{field}: step {step.name!r} needs {need!r}, which is not in the plan."
                raise Invalid(message, field=field, given=need, allowed=names)


def _check_cycles(steps: tuple[PlanStep, ...], where: str) -> None:
    try:
        TopologicalSorter({step.name: step.needs for step in steps}).prepare()
    except CycleError as error:
        path = " -> ".join(error.args[1])
        message = f"{where}.steps: each of these steps waits for the one before it: {path}."
        raise Invalid(message, field=f"{where}.steps", given=path) from None


# ---- which steps can start -------------------------------------------------------------------


def frontier(plan: Plan, states: Mapping[str, str]) -> tuple[str, ...]:
    """Return the steps that may start now, in the order of the document."""
    lost = unreachable(plan, states)
    return tuple(
        step.name
        for step in plan.steps
        if step.name not in lost and _not_started(step, states) and not _open(step, states, lost)
    )


def unreachable(plan: Plan, states: Mapping[str, str]) -> dict[str, str]:
    """Return the steps that will never start because a step failed, each with that step."""
    cause: dict[str, str] = {}
    if FAILED not in states.values():
        return cause  # sorting a large plan takes most of the time of a decision
    for step in _in_order(plan):
        if not _not_started(step, states) or step.when is When.ALL_DONE:
            continue
        for need in step.needs:
            if need in cause or states.get(need) == FAILED:
                cause[step.name] = cause.get(need, need)
                break
    return cause


def finished(plan: Plan, states: Mapping[str, str]) -> PlanEnd | None:
    """Return how the plan ended; None while a step is live or can still start."""
    lost = unreachable(plan, states)
    if any(step.name not in lost and states.get(step.name) not in ENDED for step in plan.steps):
        return None
    failed = any(states.get(step.name) == FAILED for step in plan.steps)
    return PlanEnd.FAILED if failed else PlanEnd.COMPLETED


def carry_over(old: Plan, new: Plan, states: Mapping[str, str]) -> tuple[str, ...]:
    """Return the steps of a new version whose results are kept: same work and same input."""
    done = {
        (step.name, step.intent, _canonical(step.input))
        for step in old.steps
        if states.get(step.name) == SUCCEEDED
    }
    return tuple(
        step.name for step in new.steps if (step.name, step.intent, _canonical(step.input)) in done
    )


def by_dependencies(plan: Plan) -> list[str]:
    """Return the names of the steps, each after those that it needs, else as in the document."""
    depth: dict[str, int] = {}
    for step in _in_order(plan):
        depth[step.name] = 1 + max((depth[need] for need in step.needs), default=0)
    return [step.name for step in sorted(plan.steps, key=lambda step: depth[step.name])]


def _in_order(plan: Plan) -> Iterator[PlanStep]:
    """Return the steps, each after those that it needs."""
    by_name = {step.name: step for step in plan.steps}
    order = TopologicalSorter({step.name: step.needs for step in plan.steps})
    return (by_name[name] for name in order.static_order())


def _not_started(step: PlanStep, states: Mapping[str, str]) -> bool:
    return states.get(step.name, STEP.initial) in NOT_STARTED


def _open(step: PlanStep, states: Mapping[str, str], lost: Mapping[str, str]) -> tuple[str, ...]:
    """Return what a reachable step still waits for."""
    return tuple(n for n in step.needs if states.get(n) not in ENDED and n not in lost)
