"""The statements of the demo, each with the events that must be in the log. Pure."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Event = Mapping[str, Any]
Match = Callable[[Event], bool]


def event(name: str, **data: Any) -> Match:
    """Match an event of that name whose data has these values."""
    return lambda each: (
        each["name"] == name and all((each["data"] or {}).get(k) == v for k, v in data.items())
    )


@dataclass(frozen=True, slots=True)
class Expectation:
    """A statement, and the events of one task that must be in the log in this order."""

    name: str
    sentence: str
    task: str
    proof: Sequence[Match]
    #: An event that no entity may have twice.
    once: str = ""


EXPECTATIONS: Sequence[Expectation] = (
    Expectation(
        "question",
        "An agent asked a question, got an answer, and continued in its session.",
        "fix",
        (event("task_blocked", reason="question"), event("task_answered"), event("run_joined")),
    ),
    Expectation(
        "budget",
        "An agent reached its budget, and the budget was raised.",
        "fix",
        (event("task_blocked", reason="budget"), event("budget_raised"), event("run_joined")),
    ),
    Expectation(
        "switch",
        "A resource failed, and the step switched to another resource.",
        "tryOut",
        (event("step_failed_resource"), event("step_switching_resource"), event("job_completed")),
    ),
    Expectation(
        "kill",
        "A worker was killed; another continued, and no recorded part was sent again.",
        "release",
        (
            event("checkpoint_recorded"),
            event("run_cancelled", reason="worker_lost"),
            event("job_running"),
            event("checkpoint_recorded"),
            event("job_completed"),
        ),
        once="checkpoint_recorded",
    ),
    Expectation(
        "review",
        "The work waited for review, and was accepted.",
        "fix",
        (event("task_ready"), event("task_accepted")),
    ),
)


def is_met(claim: Expectation, events: Iterable[Event]) -> bool:
    """Whether the log contains the expected events in order."""
    listed = list(events)
    rest = iter(listed)
    in_order = all(any(match(each) for each in rest) for match in claim.proof)
    counted = [each["subject"] for each in listed if each["name"] == claim.once]
    return in_order and len(counted) == len(set(counted))
