"""What a run may spend before it starts: the purses of its line, less what others at work hold.

A task with a budget of its own holds, while it runs, what is left of it in the purses of the tasks
above it, so that runs side by side do not spend the same money twice. A run of a task without one
holds what was reserved for it and is not spent yet. The rest is shared in equal parts by those at
work for whom nothing is reserved, and by the siblings that are still to come. Pure.
"""

from collections.abc import Collection
from dataclasses import replace

from detent.kernel.budget import Purse, Reserved, Short, reserve
from detent.kernel.entities import Run, Task
from detent.kernel.world import RUNS, World


def allowance(world: World, task: Task) -> Reserved | Short:
    """What a run of the task may spend now, or whose money is gone."""
    line = [task, *world.ancestors(task)]
    limited = [each for each in line if each.budget is not None]
    if not limited:
        return Reserved(None)
    others = _at_work(world, task.root_id, {each.id for each in line})
    holders = {each.id: each for each in others if each.budget is not None}
    purses = [
        Purse(each.id, each.budget, each.spent, _held(world, each, others, holders))
        for each in limited
    ]
    if task.budget is None:
        nearest = limited[0]
        sharing = [each for each in others if _holds(world, each, nearest.id, holders)]
        open_shares = sum(each.budget is None and not reserved_for(world, each) for each in sharing)
        purses[0] = _part_of(purses[0], _still_to_come(world, task, others) + open_shares)
    return reserve(purses)


def _part_of(purse: Purse, parts: int) -> Purse:
    """The purse with one of so many equal parts left in it, and never with nothing of something."""
    left = purse.remaining or 0
    return replace(purse, reserved=purse.reserved + left - max(left // parts, min(left, 1)))


def _still_to_come(world: World, task: Task, others: Collection[Task]) -> int:
    """Itself, and the subtasks beside it that have not ended and are not at work."""
    assert task.parent_id is not None, "without a budget of its own, one above it was found"
    at_work = sum(each.parent_id == task.parent_id for each in others)
    return max(1, world.task(task.parent_id).open_subtasks - at_work)


def used_up(world: World, task: Task) -> bool:
    """It, or a task above it, has nothing left to spend."""
    line = (task, *world.ancestors(task))
    return any(each.budget is not None and each.spent >= each.budget for each in line)


def over_budget(world: World, task: Task) -> bool:
    """It, or a task above it, has spent more than it may; exactly its budget it may."""
    line = (task, *world.ancestors(task))
    return any(each.budget is not None and each.spent > each.budget for each in line)


def _at_work(world: World, root_id: str, line: Collection[str]) -> list[Task]:
    """Others of the tree that are at work."""
    return [
        task
        for task in world.known_tasks()
        if task.root_id == root_id and task.id not in line
        if task.job_id is not None and world.job(task.job_id).state == "running"
    ]


def _held(world: World, above: Task, others: Collection[Task], holders: Collection[str]) -> int:
    """What is promised to others below it: the rest of their budgets, or of their reservations."""
    return sum(
        max(0, task.budget - task.spent) if task.budget is not None else _unspent(world, task)
        for task in others
        if _holds(world, task, above.id, holders)
    )


def reserved_for(world: World, task: Task) -> list[Run]:
    """Its live runs for which money is reserved."""
    runs = world.parts_of(RUNS, task.job_id).values() if task.job_id else ()
    return [run for run in runs if run.ended_at is None and run.reserved is not None]


def _unspent(world: World, task: Task) -> int:
    return sum(max(0, (run.reserved or 0) - run.cost) for run in reserved_for(world, task))


def _holds(world: World, task: Task, above: str, holders: Collection[str]) -> bool:
    """It stands below, with no other holder between, whose hold would count for it as well."""
    for each in world.ancestors(task):
        if each.id == above:
            return True
        if each.id in holders:
            return False
    return False
