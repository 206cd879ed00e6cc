"""What the demo says has happened, each with the events that prove it. Pure."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Event = Mapping[str, Any]
Match = Callable[[Event], bool]


def event(name: str, **data: Any) -> Match:
    """An event of that name whose data has these values."""
    return lambda each: (
        each["name"] == name and all((each["data"] or {}).get(k) == v for k, v in data.items())
    )


@dataclass(frozen=True, slots=True)
class Claim:
    """A sentence, and the events of one task that must stand in the log in this order."""

    name: str
    sentence: str
    task: str
    proof: Sequence[Match]
    #: Events of which no entity may have two.
    once: str = ""


CLAIMS: Sequence[Claim] = (
    Claim(
        "question",
        "An agent asked, was answered, and went on in its session.",
        "fix",
        (event("task_blocked", reason="question"), event("task_answered"), event("run_joined")),
    ),
    Claim(
        "budget",
        "A budget was hit, and raised.",
        "fix",
        (event("task_blocked", reason="budget"), event("budget_raised"), event("run_joined")),
    ),
    Claim(
        "switch",
        "A resource failed, and another took its place.",
        "tryOut",
        (event("step_failed_resource"), event("step_switching_resource"), event("job_completed")),
    ),
    Claim(
        "kill",
        "A worker was killed in mid-work; another went on, and no recorded part was done again.",
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
    Claim(
        "review",
        "The work waited for a person, and was accepted.",
        "fix",
        (event("task_ready"), event("task_accepted")),
    ),
)


def holds(claim: Claim, events: Iterable[Event]) -> bool:
    """Whether the log proves it."""
    listed = list(events)
    rest = iter(listed)
    in_order = all(any(match(each) for each in rest) for match in claim.proof)
    counted = [each["subject"] for each in listed if each["name"] == claim.once]
    return in_order and len(counted) == len(set(counted))
