"""Checks that subtasks are settled correctly, from events and states alone. Pure.

A subtask is settled when it is completed, when its parent's code has received its failure, or when
a person has dismissed it. Only what failed is settled so, once, and no parent ends before all are.
"""

from collections.abc import Iterator, Sequence

from detent.kernel import commands as c
from detent.kernel import events as e
from detent.kernel.entities import Task
from detent.kernel.world import WAITS, World

DONE = frozenset({"done", "completed"})
FAILED = frozenset({"failed", "timed_out", "budget_exceeded", "cancelled"})
SETTLES = (e.SubtaskDismissed, e.SubtaskHandled)


def failed(task: Task) -> bool:
    """It will not be completed unless a person runs it again."""
    return task.state in FAILED or (task.state == "blocked" and task.retries_left == 0)


def below(world: World, task_id: str) -> Iterator[Task]:
    for child in world.children.get(task_id, ()):
        yield world.tasks[child]
        yield from below(world, child)


def unsettled(world: World, task: Task) -> list[str]:
    """The subtasks, at any depth, that a task waits for."""
    return [
        each.id
        for each in below(world, task.id)
        if each.state not in DONE and each.id not in task.settled
    ]


def flaws(
    before: World, after: World, command: c.Command, records: Sequence[e.Record]
) -> Iterator[str]:
    """What is wrong with one step; `after` has all tasks of the trees that it moved."""
    for record in records:
        yield from _of_event(before, after, command, record)
    streams = dict.fromkeys(record.stream for record in records)
    for task in [after.tasks[each] for each in streams if each in after.tasks]:
        waits_for = unsettled(after, task)
        if len(waits_for) != task.open_subtasks:
            yield f"{task.id} counts {task.open_subtasks} open subtasks, open are {waits_for}"
        yield from _of_row(before, task, records)
        if waits_for and _ends(task, records):
            yield f"{task.id} is {task.state} and {waits_for} are not settled"


def _of_event(before: World, after: World, command: c.Command, record: e.Record) -> Iterator[str]:
    event = record.event
    if not isinstance(event, SETTLES):
        return
    child, parent = after.tasks[event.task_id], before.tasks[record.stream]
    if not failed(child):
        yield f"{child.id} was settled for {parent.id} and is {child.state}"
    if child.id in parent.settled:
        yield f"{child.id} was settled for {parent.id} twice"
    if isinstance(event, e.SubtaskDismissed) and not isinstance(command, c.DismissSubtask):
        yield f"{child.id} was dismissed without a request"


def _of_row(before: World, task: Task, records: Sequence[e.Record]) -> Iterator[str]:
    """What is settled is what events have settled."""
    known = before.tasks[task.id].settled if task.id in before.tasks else ()
    reported = [
        each.event.task_id
        for each in records
        if each.stream == task.id and isinstance(each.event, SETTLES)
    ]
    if task.settled != (*known, *reported):
        yield f"{task.id} has settled {task.settled}, its events say {(*known, *reported)}"


def _ends(task: Task, records: Sequence[e.Record]) -> bool:
    """A review task below another completes over its own subtasks: the root waits for them."""
    ends = e.TaskReady if task.lifecycle == "review" else e.TaskCompleted
    return any(each.stream == task.id and isinstance(each.event, ends) for each in records)


def forgotten(before: World, after: World, records: Sequence[e.Record]) -> Iterator[str]:
    """Failures that a handler received as outcomes, and for which its task still waits."""
    wanted = {
        (each.stream, each.subject)
        for each in records
        if isinstance(each.event, e.WaitBegun) and each.event.detail.get("outcomes")
    }
    for record in records:
        event = record.event
        name = event.wait if isinstance(event, e.WaitCompleted) else record.subject
        if not isinstance(event, e.WaitCompleted | e.WaitEnded) or event.outcome != "signalled":
            continue
        wait = before.part(WAITS, record.stream, name or "")
        if (record.stream, name) in wanted or (wait and wait.detail.get("outcomes")):
            task = after.tasks[after.jobs[record.stream].task_id or ""]
            ids = [each.partition(":")[2] for each in event.value]
            for child in [after.tasks[each] for each in ids]:
                if failed(child) and child.id not in task.settled:
                    yield f"{task.id} has received that {child.id} failed, and waits for it"
