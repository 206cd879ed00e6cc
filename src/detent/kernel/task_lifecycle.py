"""A lifecycle of tasks as data: its table, and how tasks of it follow their jobs.

A document declares it (`detent.task_lifecycles`). The kernel knows phases, endings and rules; it
does not know the names of lifecycles or of their states. Pure.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from detent.errors import Broken
from detent.kernel.lifecycle import Lifecycle, State
from detent.kernel.retention import Ending
from detent.kernel.retry import PLAIN, RetryPolicy


class Phase(StrEnum):
    """What a task's job does while the task is in a state."""

    IDLE = "idle"  # there is no live job
    QUEUED = "queued"  # the job waits for a worker
    WORKING = "working"  # a worker has claimed the job, or the job waits by itself
    BLOCKED = "blocked"  # the job cannot continue; the task says why


class Trigger(StrEnum):
    """What happens to a task's job or subtasks, so that a rule decides what the task does."""

    RUN_STARTED = "run_started"
    JOB_COMPLETED = "job_completed"
    JOB_FAILED = "job_failed"
    JOB_CANCELLED = "job_cancelled"
    SUBTASKS_SETTLED = "subtasks_settled"


class Predicate(StrEnum):
    """The conditions that a rule may have; `outcome_rules` evaluates them."""

    IS_SUBTASK = "is_subtask"
    HAS_NO_SUBTASKS = "has_no_subtasks"
    SUBTASKS_ARE_OPEN = "subtasks_are_open"
    TIMED_OUT = "timed_out"
    BUDGET_EXCEEDED = "budget_exceeded"
    QUARANTINED = "quarantined"
    DEPENDENCY_FAILED = "dependency_failed"
    ROUNDS_ARE_LEFT = "rounds_are_left"
    RESULT_IS_FALSE = "result_is_false"
    IS_ACCEPTANCE = "is_acceptance"
    HAS_CONFLICTS = "has_conflicts"


class EntryPoint(StrEnum):
    """Where tasks are created without naming a lifecycle."""

    ADD = "add"  # POST /add, POST /enqueue
    SUBMIT = "submit"  # POST /api/tasks, detent submit, MCP, A2A
    SCHEDULE = "schedule"


@dataclass(frozen=True, slots=True)
class TaskState(State):
    """One state of a task.

    `ending` is how the work ended: it decides how long the task is kept, and what its parent and
    its dependents see. A state with an ending may be left again unless it is terminal.
    `column` is the title of the board's column.
    """

    phase: Phase = Phase.IDLE
    ending: Ending | None = None
    waits_for_person: bool = False
    column: str = ""

    @property
    def under_review(self) -> bool:
        """Whether the work is over and a person decides about it."""
        return self.waits_for_person and self.phase is Phase.IDLE and self.ending is None


@dataclass(frozen=True, slots=True)
class Rule:
    """After `when`, in one of these states (empty: any), if all `given` hold: emit `then`.

    Rules are tried in their order and the first that applies is followed; it may emit nothing.
    """

    when: Trigger
    then: tuple[str, ...]
    given: tuple[Predicate, ...] = ()
    states: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Timer:
    """The keeper sends `event` to a task that has been in `state` for this time."""

    state: str
    after_us: int
    event: str


@dataclass(frozen=True, slots=True)
class Rounds:
    """Each of these events counts a round; after `limit` of them they are refused."""

    events: tuple[str, ...]
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class Counterpart:
    """The states of another lifecycle that mean the same, for tools that know only that one.

    `failed` has, by reason, the state of a blocked task without retries.
    """

    lifecycle: str
    states: Mapping[str, str]
    failed: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TaskLifecycle(Lifecycle):
    """A table of transitions of a task, with its rules. Version 1 is known by the name alone."""

    states: tuple[TaskState, ...]
    version: int = 1
    rules: tuple[Rule, ...] = ()
    timers: tuple[Timer, ...] = ()
    rounds: Rounds = Rounds(())
    #: The events that create a new job.
    queues: tuple[str, ...] = ()
    policy: RetryPolicy = PLAIN
    #: The budget of a task that has none of its own, in micro-dollars.
    budget: int | None = None
    default_for: tuple[EntryPoint, ...] = ()
    counterpart: Counterpart | None = None
    #: Whether it is a part of detent. An installed one takes its place as a default.
    shipped: bool = False
    #: No task can be created with a lifecycle that was removed. Its id is not used for another.
    removed: bool = field(default=False, compare=False)
    #: For each state that the version before had and this one has not, the state of its tasks.
    migrations: Mapping[str, str] = field(default_factory=dict)
    #: For each row, the field of the document that it was read from, such as `rows[3]`.
    row_places: tuple[str, ...] = field(default=(), repr=False, compare=False)
    by_state: Mapping[str, TaskState] = field(init=False, repr=False, compare=False)
    by_trigger: Mapping[Trigger, tuple[Rule, ...]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        Lifecycle.__post_init__(self)
        by_trigger = {
            when: tuple(rule for rule in self.rules if rule.when is when) for when in Trigger
        }
        object.__setattr__(self, "by_state", {state.name: state for state in self.states})
        object.__setattr__(self, "by_trigger", by_trigger)

    @property
    def id(self) -> str:
        """The value of a task's `lifecycle`; a task stays on the version that it began with."""
        return lifecycle_id(self.name, self.version)

    def place(self, row: int) -> str:
        """The field of the document from which the row with this index was read."""
        return self.row_places[row] if row < len(self.row_places) else f"rows[{row}]"

    def phase(self, state: str) -> Phase:
        return self.by_state[state].phase

    def ending(self, state: str, retries_left: int | None = None) -> Ending | None:
        """Return how the work ended, or None while it is live.

        A task that is blocked without retries has failed: only a person can continue it.
        """
        found = self.by_state[state]
        if found.phase is Phase.BLOCKED and retries_left == 0:
            return Ending.FAILED
        return found.ending


def lifecycle_id(name: str, version: int) -> str:
    """The id of a version of a lifecycle: the name alone for the first."""
    return name if version == 1 else f"{name}@{version}"


#: Task lifecycles by id.
TaskLifecycles = Mapping[str, TaskLifecycle]


def known(lifecycles: TaskLifecycles, wanted: str) -> TaskLifecycle:
    """Return the lifecycle with the id that a task has."""
    found = lifecycles.get(wanted)
    if found is None:
        raise Broken(f"The log has no document of the lifecycle {wanted}.")
    return found


def in_use(lifecycles: TaskLifecycles) -> list[TaskLifecycle]:
    """Return the lifecycles that were not removed."""
    return [each for each in lifecycles.values() if not each.removed]


def newest(lifecycles: TaskLifecycles) -> dict[str, TaskLifecycle]:
    """Return the newest version of each lifecycle that was not removed, by name."""
    found: dict[str, TaskLifecycle] = {}
    for each in in_use(lifecycles):
        if each.name not in found or found[each.name].version < each.version:
            found[each.name] = each
    return found


def named(lifecycles: TaskLifecycles, given: str) -> TaskLifecycle | None:
    """Return the newest version of the lifecycle with this name, or the version `name@version`."""
    exact = {f"{each.name}@{each.version}": each for each in in_use(lifecycles)}
    return exact.get(given) or newest(lifecycles).get(given)


class Choices(NamedTuple):
    """The lifecycles that a submission can have."""

    by_id: TaskLifecycles
    #: The newest version of each.
    by_name: Mapping[str, TaskLifecycle]
    #: What an entry point uses without a name. An installed lifecycle replaces a shipped one.
    defaults: Mapping[EntryPoint, TaskLifecycle]


def choices(lifecycles: TaskLifecycles) -> Choices:
    by_name = newest(lifecycles)
    defaults = {entry: each for each in by_name.values() for entry in each.default_for}
    return Choices({each.id: each for each in in_use(lifecycles)}, by_name, defaults)


def state_names(lifecycles: TaskLifecycles, wanted: Callable[[TaskState], bool]) -> list[str]:
    """Return the names of the states of all lifecycles for which `wanted` holds.

    A name means the same in all lifecycles, so that tasks can be listed by state alone.
    """
    states = (state for each in in_use(lifecycles) for state in each.states)
    return list(dict.fromkeys(state.name for state in states if wanted(state)))
