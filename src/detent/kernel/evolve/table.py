"""The next state of an event by its lifecycle's table, and the registry of evolve functions."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from detent.kernel import events as e
from detent.kernel.lifecycle import Lifecycle
from detent.kernel.lifecycles import LIFECYCLES
from detent.kernel.task_events import TASK_EVENTS

#: What an event does to the entity of its level: (entity, event, at, state after it) to entity.
Change = Callable[[Any, Any, int, str], Any]
C = TypeVar("C", bound=Change)
CHANGES: dict[type[e.Event], Change] = {}

JOB, RUN, STEP = LIFECYCLES["job"], LIFECYCLES["run"], LIFECYCLES["step"]
#: The state events of each level. A lifecycle of tasks need not have all of them.
MOVES: Mapping[str, frozenset[str]] = {
    "task": TASK_EVENTS,
    "job": frozenset(JOB.events),
    "run": frozenset(RUN.events),
    "step": frozenset(STEP.events),
}


def on(kind: type[e.Event]) -> Callable[[C], C]:
    """Register the function that applies an event of this type to its entity."""

    def register(change: C) -> C:
        CHANGES[kind] = change
        return change

    return register


def next_state(lifecycle: Lifecycle, state: str, event: e.Event) -> str:
    """Return the next state; an event that is not in the table does not change the state."""
    target = lifecycle.move.get((state, event.name))
    if target is not None:
        return target
    if event.name in MOVES[event.level] or isinstance(event, e.TaskMoved):
        raise lifecycle.illegal(state, event.name)
    return state
