"""The bounds of a model: how many retries and rounds, and which other tasks there are. Pure."""

from typing import NamedTuple

from detent.kernel.retry import FailureClass
from detent.kernel.task_lifecycle import TaskLifecycle


class Bounds(NamedTuple):
    """What keeps the model of a lifecycle finite and small.

    The retries and rounds of the document count if they are fewer. `ends`: compute from which
    states an end can be reached, which takes long with a subtask or a dependency.
    """

    retries: int = 1
    lost: int = 1
    rounds: int = 2
    subtask: bool = False
    dependency: bool = False
    ends: bool = True


DEFAULT = Bounds()


def constants(lifecycle: TaskLifecycle, bounds: Bounds) -> dict[str, int | bool]:
    """The constants of the module, by name."""
    return {
        "WithSubtask": bounds.subtask,
        "WithDependency": bounds.dependency,
        "ErrorRetries": _retries(lifecycle, FailureClass.ERROR, bounds.retries),
        "TimeoutRetries": _retries(lifecycle, FailureClass.TIMEOUT, bounds.retries),
        "LostRetries": _retries(lifecycle, FailureClass.LOST, bounds.lost),
        "MaxAttempts": lifecycle.policy.max_attempts or 0,
        "RoundLimit": _fewer(lifecycle.rounds.limit, bounds.rounds),
        "SearchForEnds": bounds.ends,
    }


def _retries(lifecycle: TaskLifecycle, kind: FailureClass, bound: int) -> int:
    return _fewer(lifecycle.policy.rules[kind].retries, bound)


def _fewer(declared: int | None, bound: int) -> int:
    return bound if declared is None else min(declared, bound)
