"""One step of a search, and a property that it breaks."""

from typing import NamedTuple

from detent.kernel import events as e
from detent.kernel.entities import Task
from detent.kernel.task_lifecycle import TaskLifecycle
from detent.lifecycle_search.scenario import Action
from detent.lifecycle_search.search_state import SearchState


class Break(NamedTuple):
    """A property that does not hold, and what happened instead."""

    property: str
    text: str


class Step(NamedTuple):
    lifecycle: TaskLifecycle
    before: SearchState
    action: Action
    records: list[e.Record]
    after: SearchState


def round_limit(lifecycle: TaskLifecycle, task: Task) -> int | None:
    own: int | None = task.options.get("max_rounds")
    return lifecycle.rounds.limit if own is None else own
