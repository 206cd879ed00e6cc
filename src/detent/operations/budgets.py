"""The remaining budget of a task and of the tasks above it. Reads only."""

from collections.abc import Iterable

from detent.engine.loader import load_spenders
from detent.kernel import budget_reservation
from detent.kernel.budget import Budget, Exhausted
from detent.kernel.entities import Task
from detent.kernel.world import RUNS, World
from detent.store.port import ReadTransaction


def with_ancestors(view: ReadTransaction, task: Task) -> list[Task]:
    """The task and every task above it. A run is charged to the budget of each."""
    found = [task]
    while (parent_id := found[-1].parent_id) is not None:
        found += [parent for parent, _ in view.tasks([parent_id])]
        if found[-1].id != parent_id:
            break
    return found


def remaining(tasks: Iterable[Task]) -> int | None:
    """The smallest remaining budget among the tasks, in micro-dollars; None without a budget."""
    budgets = [Budget(task.id, task.budget, task.spent) for task in tasks]
    lefts = [rest for budget in budgets if (rest := budget.remaining) is not None]
    return min(lefts, default=None)


def allowance(view: ReadTransaction, task: Task) -> int | None:
    """The amount that a run of the task could reserve now, in micro-dollars; None for no limit.

    It is less than `remaining` while money is reserved for other runs of the tree.
    """
    world = World()
    world.tasks[task.id] = task
    load_spenders(view, world)
    for run in view.live_runs([job.id for job in world.jobs.values() if job.state == "running"]):
        world.put_part(RUNS, run.job_id, run.id, run)
    found = budget_reservation.allowance(world, task)
    return 0 if isinstance(found, Exhausted) else found.amount
