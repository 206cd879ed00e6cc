"""Searches a lifecycle breadth first, so that the path to the first violation is the shortest."""

from collections import deque
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from detent.kernel.decide import decide
from detent.kernel.task_lifecycle import TaskLifecycle
from detent.kernel.world import World
from detent.lifecycle_search.properties import (
    Break,
    Step,
    broken,
    has_ended,
    refused,
)
from detent.lifecycle_search.scenario import PERSON, START_US, Action, Scenario, scenarios
from detent.lifecycle_search.search_state import (
    SearchState,
    key,
    label,
    rounds_after,
    world_after,
)
from detent.lifecycle_search.trail import Trail

MAX_STATES = 20_000


class Violation(NamedTuple):
    """A property that does not hold, and the shortest sequence of steps that leads to it."""

    property: str
    text: str
    scenario: str
    steps: list[str]

    def plain(self) -> dict[str, Any]:
        return self._asdict()

    def lines(self) -> list[str]:
        numbered = [f"{number:3}. {each}" for number, each in enumerate(self.steps, start=1)]
        return [f"{self.property}: {self.text}", f"Steps ({self.scenario}):", *numbered]


class SearchResult(NamedTuple):
    """How many states were visited, whether these were all, and what was found."""

    states: int
    depth: int
    exhausted: bool
    max_states: int
    violation: Violation | None

    def plain(self) -> dict[str, Any]:
        found = None if self.violation is None else self.violation.plain()
        return {**self._asdict(), "violation": found}


def search(lifecycle: TaskLifecycle, max_states: int = MAX_STATES) -> SearchResult:
    """Visit every state that tasks of the lifecycle can reach, at most `max_states` of them."""
    states = depth = 0
    exhausted = True
    for scenario in scenarios(lifecycle):
        found = _Exploration(scenario)
        violation = found.explore(max_states - states)
        states += found.visited
        depth = max(depth, found.depth)
        exhausted = exhausted and not found.open
        if violation is not None:
            return SearchResult(states, depth, exhausted, max_states, violation)
    return SearchResult(states, depth, exhausted, max_states, None)


class _Reached(NamedTuple):
    """How a state was reached first: by this step, with these states of the tasks after it."""

    text: str
    label: str


@dataclass
class _Exploration:
    """The search of one scenario."""

    scenario: Scenario
    visited: int = 0
    depth: int = 0
    #: States that were reached but not visited, because the bound was hit.
    open: set[int] = field(default_factory=set)
    ended: set[int] = field(default_factory=set)
    #: By state, the states from which a step leads to it. Giving up is no way to an end.
    origins: dict[int, list[int]] = field(default_factory=dict)

    def explore(self, max_states: int) -> Violation | None:
        first = self._beginning()
        if isinstance(first, Violation):
            return first
        self.trail: Trail[_Reached] = Trail(key(first))
        waiting = deque([(0, 0, first)])
        while waiting and self.visited < max_states:
            number, depth, state = waiting.popleft()
            self.visited += 1
            self.depth = max(self.depth, depth)
            if self._is_end(state.world):
                self.ended.add(number)
            for action in self.scenario.actions(state):
                after = self._after(state, action)
                if isinstance(after, Break):
                    return self._violation(after, number, action.text)
                entered = self._enter(number, action, after)
                if entered is not None:
                    waiting.append((entered, depth + 1, after))
        self.open = {number for number, _, _ in waiting}
        return self._dead_end()

    def _beginning(self) -> SearchState | Violation:
        lifecycle = self.scenario.lifecycle
        world = World(lifecycles={lifecycle.id: lifecycle})
        for command in self.scenario.setup:
            text = f"person: create the task {command.task_id}"
            action = Action(text, command, PERSON, START_US)
            state = SearchState(world, START_US, {})
            after = self._after(state, action)
            if isinstance(after, Break):
                return Violation(*after, self.scenario.name, [text])
            world = after.world
        return SearchState(world, START_US, {})

    def _after(self, state: SearchState, action: Action) -> SearchState | Break:
        """The state after an action, which is the same if it changes nothing."""
        lifecycle = self.scenario.lifecycle
        try:
            draft = decide(state.world, action.command, action.at, action.actor)
        except Exception as error:  # a rule may even emit an event that the kernel cannot make
            return refused(action, error) or state
        if not draft.records:
            return state
        world = world_after(state.world, draft)
        rounds = rounds_after(lifecycle, state.rounds, draft.records)
        after = SearchState(world, action.at, rounds)
        return broken(Step(lifecycle, state, action, draft.records, after)) or after

    def _enter(self, origin: int, action: Action, after: SearchState) -> int | None:
        name = key(after)
        entered = self.trail.enter(name, origin, _Reached(action.text, label(after)))
        if not action.gives_up or not self._alone():
            self.origins.setdefault(self.trail.numbers[name], []).append(origin)
        return entered

    def _violation(self, found: Break, number: int, last: str) -> Violation:
        steps = [f"{each.text} → {each.label}" for each in self.trail.path(number)]
        return Violation(*found, self.scenario.name, [*steps, last])

    def _dead_end(self) -> Violation | None:
        """The nearest state from which no end can be reached; unvisited states may lead to one."""
        live = {*self.ended, *self.open}
        unseen = list(live)
        while unseen:
            new = set(self.origins.get(unseen.pop(), ())) - live
            live |= new
            unseen += new
        stuck = next((each for each in range(self.visited) if each not in live), None)
        if stuck is None:
            return None
        steps = [f"{each.text} → {each.label}" for each in self.trail.path(stuck)]
        text = "From the last state no end can be reached."
        if self._alone():
            text = "From the last state no terminal state can be reached but by a cancel."
        return Violation("end", text, self.scenario.name, steps)

    def _is_end(self, world: World) -> bool:
        lifecycle, tasks = self.scenario.lifecycle, world.tasks.values()
        if self._alone():
            return all(task.state in lifecycle.terminal for task in tasks)
        return all(has_ended(lifecycle, task) for task in tasks)

    def _alone(self) -> bool:
        """A task whose dependency or subtask was cancelled may have no other way to end."""
        return len(self.scenario.setup) == 1
