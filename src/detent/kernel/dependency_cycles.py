"""Finds cycles of tasks that wait for each other, by dependencies and by subtasks. Pure.

A task waits for its dependencies, and a parent waits for its subtasks. A new task closes a cycle if
one of its dependencies waits, directly or not, for one of the tasks above it.
"""

from collections import deque
from collections.abc import Iterable

from detent.kernel.world import World


def cycle(
    world: World, task_id: str, parent_id: str | None, depends_on: Iterable[str]
) -> list[str] | None:
    """Return the path from the new task back to itself, None if there is no cycle."""
    waits_for = _waiting_tasks(world, parent_id)
    for name in depends_on:
        if name in waits_for:
            return [task_id, *_path(waits_for, name), task_id]
    return None


def _waiting_tasks(world: World, parent_id: str | None) -> dict[str, str | None]:
    """Return every task that waits for the parent, with the next task on the path to it."""
    if parent_id is None:
        return {}
    found: dict[str, str | None] = {parent_id: None}
    todo = deque([parent_id])
    while todo:
        name = todo.popleft()
        task = world.find_task(name)
        above = () if task is None or task.parent_id is None else (task.parent_id,)
        for waiting in (*world.dependents.get(name, ()), *above):
            if waiting not in found:
                found[waiting] = name
                todo.append(waiting)
    return found


def _path(waits_for: dict[str, str | None], name: str) -> list[str]:
    path: list[str] = []
    at: str | None = name
    while at is not None:
        path.append(at)
        at = waits_for[at]
    return path
