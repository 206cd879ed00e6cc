"""Checks that one variant of a task is chosen at most once, and that the others stop. Pure."""

from collections.abc import Iterator, Sequence

from detent.kernel import events as e
from detent.kernel.variants import CHOSEN
from detent.kernel.world import World
from verification.settlement import DONE, failed


def flaws(before: World, after: World, records: Sequence[e.Record]) -> Iterator[str]:
    """What is wrong with the choices of one step; `after` has all tasks of the trees it moved."""
    for record in records:
        if isinstance(record.event, e.VariantChosen):
            yield from _of_choice(before, after, record.stream, record.event)


def _of_choice(before: World, after: World, task_id: str, event: e.VariantChosen) -> Iterator[str]:
    if CHOSEN in before.tasks[task_id].options:
        yield f"a second variant of {task_id} was chosen"
    children = after.children.get(task_id, ())
    if event.task_id not in children or after.tasks[event.task_id].state not in DONE:
        yield f"{event.task_id}, which has not ended well, was chosen for {task_id}"
    for child in (after.tasks[each] for each in children if each != event.task_id):
        job = after.jobs.get(child.job_id or "")
        stops = job is not None and job.cancel_reason is not None
        if child.state not in DONE and not failed(child) and not stops:
            yield f"{child.id} goes on although {event.task_id} was chosen for {task_id}"
