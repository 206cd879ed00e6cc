"""Lists the actions that are legal on a task or a job now: those that would not be refused.

For each action on a task, the kernel decides the command on the current rows and the decision is
discarded, so the list cannot differ from the rules. Reads only.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from detent.engine.loader import LoadRequest, load
from detent.errors import DetentError
from detent.kernel import commands as c
from detent.kernel.decide import decide
from detent.kernel.entities import Job, Task, Wait
from detent.kernel.predicates import ENDED_JOB
from detent.kernel.task_events import TASK_EVENTS
from detent.kernel.task_lifecycle import TaskLifecycle
from detent.kernel.variants import VARIANTS
from detent.kernel.wait_kinds import ANSWERED
from detent.kernel.world import World
from detent.operations import schemas
from detent.store.port import ReadTransaction

PERSON = c.Actor("person")


class Verb(NamedTuple):
    """An action: its command, and the events of which the task's lifecycle must allow one."""

    command: Callable[[Task], c.TaskCommand]
    events: tuple[str, ...] = ()


def _answer(task: Task) -> c.AnswerTask:
    options: Sequence[Any] = task.blocked_detail.get("options") or ("yes",)
    return c.AnswerTask(task.id, options[0])


def _choose(task: Task) -> c.TaskCommand:
    return c.ChooseVariant(task.id, _answer(task).answer)


VERBS: Mapping[str, Verb] = {
    "accept": Verb(lambda task: c.AcceptTask(task.id), ("task_accepted", "task_accepting")),
    "answer": Verb(_answer),
    "cancel": Verb(lambda task: c.CancelTask(task.id), ("task_cancelled",)),
    "choose": Verb(_choose),
    "delete": Verb(lambda task: c.DeleteTask(task.id)),
    "dismiss": Verb(lambda task: c.DismissSubtask(task.id)),
    "raise": Verb(lambda task: c.RaiseBudget(task.id, task.spent + 1)),
    "reject": Verb(lambda task: c.RejectTask(task.id), ("task_rejected",)),
    "resume": Verb(lambda task: c.ResumeTask(task.id), ("task_resumed",)),
    "retry": Verb(lambda task: c.RetryTask(task.id), ("task_retried", "task_unblocked")),
    "run": Verb(lambda task: c.QueueTask(task.id), ("task_queued", "task_retried")),
}


class Suggestion(NamedTuple):
    """An action or event that would be accepted now, and the id of the task that it is for."""

    action: str
    id: str

    @property
    def command(self) -> str:
        """The command line that carries the action out; an event of the lifecycle is sent."""
        if self.action not in VERBS:
            return f"detent send {self.id} {self.action}"
        value = {"answer": " ANSWER", "choose": " NUMBER", "raise": " DOLLARS"}.get(self.action, "")
        return f"detent {self.action} {self.id}{value}"

    def to_schema(self) -> schemas.Suggestion:
        return {"action": self.action, "id": self.id, "command": self.command}


def actions_on(view: ReadTransaction, tasks: Sequence[Task]) -> dict[str, list[str]]:
    """By task id, the actions that would change something now, in alphabetical order."""
    lifecycles = view.lifecycles()
    tried = [
        (task, name, verb.command(task))
        for task in tasks
        for name, verb in VERBS.items()
        if _may_apply(lifecycles[task.lifecycle], task, name, verb)
    ]
    world = load(view, LoadRequest([command for _, _, command in tried])) if tried else World()
    now = view.now()
    legal: dict[str, list[str]] = {task.id: [] for task in tasks}
    for task, name, command in tried:
        if _changes(world, command, now):
            legal[task.id].append(name)
    return legal


def events_on(view: ReadTransaction, tasks: Sequence[Task], actor: c.Actor) -> dict[str, list[str]]:
    """By task id, the events that only its lifecycle declares and that would be accepted now.

    They are in the order of the lifecycle's rows.
    """
    lifecycles = view.lifecycles()
    tried = [
        c.SendEvent(task.id, row.event)
        for task in tasks
        for row in lifecycles[task.lifecycle].rows
        if row.source == task.state and row.event not in TASK_EVENTS
    ]
    world = load(view, LoadRequest(tried)) if tried else World()
    legal: dict[str, list[str]] = {task.id: [] for task in tasks}
    for command in tried:
        if _changes(world, command, view.now(), actor):
            legal[command.task_id].append(command.event)
    return legal


def _may_apply(lifecycle: TaskLifecycle, task: Task, name: str, verb: Verb) -> bool:
    """Whether the action is worth trying: the lifecycle allows its event in the task's state."""
    if name == "raise":
        return task.blocked_by == "budget" and is_spent(task)
    if name in ("answer", "choose"):
        return (VARIANTS in task.blocked_detail) is (name == "choose")
    if name == "dismiss":
        return task.parent_id is not None
    move = lifecycle.move
    return not verb.events or any((task.state, each) in move for each in verb.events)


def is_spent(task: Task) -> bool:
    return task.budget is not None and task.spent >= task.budget


def _changes(world: World, command: c.Command, now: int, actor: c.Actor = PERSON) -> bool:
    """Whether the command would be accepted and would record an event."""
    try:
        return bool(decide(world, command, now, actor).records)
    except DetentError:
        return False


def actions_on_job(job: Job, waits: Iterable[Wait]) -> list[str]:
    """The actions on a job that has no task. The job of a task changes with its task."""
    if job.state in ENDED_JOB:
        return ["retry", "delete"] if job.state == "failed" else ["delete"]
    asks = any(wait.kind in ANSWERED for wait in waits)
    return [*(["answer"] if asks else []), "cancel", "signal"]
