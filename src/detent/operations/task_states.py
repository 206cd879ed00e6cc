"""What the state of a task means, by the lifecycle of the task."""

from detent.kernel.entities import Task
from detent.kernel.retention import Ending
from detent.kernel.task_lifecycle import TaskState
from detent.store.port import ReadTransaction


def state_of(view: ReadTransaction, task: Task) -> TaskState:
    return view.lifecycles()[task.lifecycle].by_state[task.state]


def has_ended(view: ReadTransaction, task: Task) -> bool:
    """Whether its state is terminal."""
    return task.state in view.lifecycles()[task.lifecycle].terminal


def ending_of(view: ReadTransaction, task: Task) -> Ending | None:
    """How the task ended, or None while it is live."""
    return view.lifecycles()[task.lifecycle].ending(task.state, task.retries_left)


def is_done(view: ReadTransaction, task: Task) -> bool:
    return ending_of(view, task) is Ending.DONE


def has_failed(view: ReadTransaction, task: Task) -> bool:
    """Whether the task failed or was cancelled, as its parent and its dependents see it."""
    return ending_of(view, task) in (Ending.FAILED, Ending.CANCELLED)
