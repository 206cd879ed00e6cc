"""Budget reservations: how much a run may spend, without what is reserved for other runs.

A run draws on the budget of its task and of every task above it. A running task with its own budget
reserves the rest of it in the budgets above it, so that parallel runs do not spend the same money
twice. A run of a task without a budget reserves what was set aside for it and is not spent yet. The
rest is shared in equal parts by the running tasks without a reservation and by the siblings that
have not started. Pure.
"""

from collections.abc import Collection
from dataclasses import replace

from detent.kernel.budget import Budget, Exhausted, Reserved, reserve
from detent.kernel.entities import Run, Task
from detent.kernel.world import RUNS, World


def allowance(world: World, task: Task) -> Reserved | Exhausted:
    """Return what a run of the task may spend now, or the budget that is exhausted."""
    payers = [task, *world.ancestors(task)]
    limited = [each for each in payers if each.budget is not None]
    if not limited:
        return Reserved(None)
    others = _running_tasks(world, task.root_id, {each.id for each in payers})
    with_budget = {each.id: each for each in others if each.budget is not None}
    budgets = [
        Budget(
            each.id, each.budget, each.spent, _reserved_by_others(world, each, others, with_budget)
        )
        for each in limited
    ]
    if task.budget is None:
        nearest = limited[0]
        sharing = [each for each in others if _counts_for(world, each, nearest.id, with_budget)]
        open_shares = sum(each.budget is None and not reserved_for(world, each) for each in sharing)
        budgets[0] = _share_of(budgets[0], _future_shares(world, task, others) + open_shares)
    return reserve(budgets)


def _share_of(budget: Budget, parts: int) -> Budget:
    """Return the budget with one of `parts` equal shares left; at least 1 if any is left."""
    left = budget.remaining or 0
    return replace(budget, reserved=budget.reserved + left - max(left // parts, min(left, 1)))


def _future_shares(world: World, task: Task, others: Collection[Task]) -> int:
    """Return the number of shares for the task itself and its siblings that have not started."""
    assert task.parent_id is not None, (
        "a task without a budget has a parent, or no budget was found"
    )
    at_work = sum(each.parent_id == task.parent_id for each in others)
    return max(1, world.task(task.parent_id).open_subtasks - at_work)


def used_up(world: World, task: Task) -> bool:
    """Whether the task, or a task above it, has spent its whole budget."""
    payers = (task, *world.ancestors(task))
    return any(each.budget is not None and each.spent >= each.budget for each in payers)


def over_budget(world: World, task: Task) -> bool:
    """Whether the task, or a task above it, has spent more than its budget."""
    payers = (task, *world.ancestors(task))
    return any(each.budget is not None and each.spent > each.budget for each in payers)


def _running_tasks(world: World, root_id: str, payers: Collection[str]) -> list[Task]:
    """Return the other running tasks of the tree."""
    return [
        task
        for task in world.known_tasks()
        if task.root_id == root_id and task.id not in payers
        if task.job_id is not None and world.job(task.job_id).state == "running"
    ]


def _reserved_by_others(
    world: World, above: Task, others: Collection[Task], with_budget: Collection[str]
) -> int:
    """Return what is reserved for running tasks below: the rest of their budget or reservation."""
    return sum(
        max(0, task.budget - task.spent)
        if task.budget is not None
        else _unspent_reservation(world, task)
        for task in others
        if _counts_for(world, task, above.id, with_budget)
    )


def reserved_for(world: World, task: Task) -> list[Run]:
    """Return the live runs of the task that have a reservation."""
    runs = world.parts_of(RUNS, task.job_id).values() if task.job_id else ()
    return [run for run in runs if run.ended_at is None and run.reserved is not None]


def _unspent_reservation(world: World, task: Task) -> int:
    return sum(max(0, (run.reserved or 0) - run.cost) for run in reserved_for(world, task))


def _counts_for(world: World, task: Task, above: str, with_budget: Collection[str]) -> bool:
    """Whether the task is below `above` without a task between whose own budget covers it."""
    for each in world.ancestors(task):
        if each.id == above:
            return True
        if each.id in with_budget:
            return False
    return False
