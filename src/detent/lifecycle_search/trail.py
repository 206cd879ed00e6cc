"""The states that a search has reached, and the shortest path to each."""

from collections.abc import Hashable
from typing import Generic, TypeVar

Step = TypeVar("Step")


class Trail(Generic[Step]):
    """Numbers each state when it is reached first, with the step that led there."""

    def __init__(self, first: Hashable) -> None:
        self.numbers: dict[Hashable, int] = {first: 0}
        self.steps: list[tuple[int, Step | None]] = [(-1, None)]

    def enter(self, key: Hashable, origin: int, step: Step) -> int | None:
        """Return the number of a state that is new; None for one that is known."""
        number = len(self.steps)
        if self.numbers.setdefault(key, number) != number:
            return None
        self.steps.append((origin, step))
        return number

    def path(self, number: int) -> tuple[Step, ...]:
        """Return the steps from the first state to this one."""
        found: list[Step] = []
        origin, step = self.steps[number]
        while step is not None:
            found.append(step)
            origin, step = self.steps[origin]
        return tuple(reversed(found))
