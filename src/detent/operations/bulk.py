"""Bulk actions: one action on many tasks and jobs, as one command for each id in one batch.

Each id has its own outcome: done, or refused with the reason. The scopes are those of the actions
on a single task.
"""

from collections.abc import Callable, Mapping, Sequence

from detent.engine import CommandRequest, CommandResult
from detent.errors import DetentError, NotFound
from detent.kernel import commands as c
from detent.kernel.lifecycle import normalise
from detent.operations import schemas
from detent.operations.context import Core
from detent.operations.registry import Caller, Result, Scope, operation
from detent.operations.tasks import OPERATED
from detent.operations.text_fields import reason_from

#: The number of commands that the engine takes in one transaction.
MAX_TOGETHER = 1_000

MakeCommand = Callable[[str], c.Command]


@operation(Scope.OPERATE, "POST", "/api/many/run")
def run_many(core: Core, caller: Caller, *, ids: Sequence[str]) -> schemas.ActedOn:
    """Queue tasks, or run them again after a failure. Each id has its own outcome."""
    return _act(core, caller, ids, c.QueueTask)


@operation(Scope.OPERATE, "POST", "/api/many/cancel")
def cancel_many(
    core: Core, caller: Caller, *, ids: Sequence[str], reason: str = "cancelled"
) -> schemas.ActedOn:
    """Cancel tasks and jobs. Each id has its own outcome."""

    def of_task(task_id: str) -> c.Command:
        return c.CancelTask(task_id, reason)

    return _act(core, caller, ids, of_task, lambda job_id: c.CancelJob(job_id, reason))


@operation(Scope.REVIEW, "POST", "/api/many/accept")
def accept_many(
    core: Core,
    caller: Caller,
    *,
    ids: Sequence[str],
    comment: str | None = None,
    seen: Mapping[str, int] | None = None,
    without_action: bool = False,
) -> schemas.ActedOn:
    """Accept tasks that wait for review. Each id has its own outcome."""
    reviewed = seen or {}

    def of_task(task_id: str) -> c.Command:
        version = reviewed.get(task_id)
        return c.AcceptTask(task_id, comment, version, without_action=without_action)

    return _act(core, caller, ids, of_task)


@operation(Scope.REVIEW, "POST", "/api/many/reject")
def reject_many(
    core: Core,
    caller: Caller,
    *,
    ids: Sequence[str],
    comment: str | None = None,
    run: bool = False,
    seen: Mapping[str, int] | None = None,
) -> schemas.ActedOn:
    """Reject tasks with one comment for all of them. Each id has its own outcome."""
    reviewed = seen or {}

    def of_task(task_id: str) -> c.Command:
        return c.RejectTask(task_id, comment, reviewed.get(task_id), run)

    return _act(core, caller, ids, of_task)


@operation(Scope.REVIEW, "POST", "/api/many/events")
def send_event_to_many(
    core: Core,
    caller: Caller,
    *,
    ids: Sequence[str],
    event: str,
    comment: str | None = None,
    seen: Mapping[str, int] | None = None,
) -> schemas.ActedOn:
    """Send tasks an event of their lifecycle. Each id has its own outcome."""
    event = normalise(event)
    if event in OPERATED:
        caller.require(Scope.OPERATE)
    reviewed = seen or {}

    def of_task(task_id: str) -> c.Command:
        return c.SendEvent(task_id, event, comment, reviewed.get(task_id))

    return _act(core, caller, ids, of_task)


@operation(Scope.OPERATE, "POST", "/api/many/resume")
def resume_many(core: Core, caller: Caller, *, ids: Sequence[str]) -> schemas.ActedOn:
    """Resume timed-out tasks in their agent sessions. Each id has its own outcome."""
    return _act(core, caller, ids, c.ResumeTask)


@operation(Scope.OPERATE, "POST", "/api/many/retry")
def retry_many(core: Core, caller: Caller, *, ids: Sequence[str]) -> schemas.ActedOn:
    """Run tasks and jobs again with their attempt counts reset. Each id has its own outcome."""
    return _act(core, caller, ids, c.RetryTask, c.RetryJob)


@operation(Scope.REVIEW, "POST", "/api/many/dismiss")
def dismiss_many(
    core: Core, caller: Caller, *, ids: Sequence[str], reason: str | None = None
) -> schemas.ActedOn:
    """Dismiss failed subtasks: their parents stop waiting for them. Each id has its own outcome."""
    reason = reason_from(reason)

    def of_task(task_id: str) -> c.Command:
        return c.DismissSubtask(task_id, reason)

    return _act(core, caller, ids, of_task)


@operation(Scope.ADMIN, "POST", "/api/many/delete")
def delete_many(core: Core, caller: Caller, *, ids: Sequence[str]) -> schemas.ActedOn:
    """Delete tasks and jobs with their data. Each id has its own outcome."""
    return _act(core, caller, ids, c.DeleteTask, c.DeleteJob)


# ---- parts -----------------------------------------------------------------------------------

#: The state of a task or job, and the version of its stream.
StateVersion = tuple[str, int]


def _act(
    core: Core,
    caller: Caller,
    ids: Sequence[str],
    of_task: MakeCommand,
    of_job: MakeCommand | None = None,
) -> schemas.ActedOn:
    """Carry out one command for each id that the caller may see, all in one transaction."""
    named = list(dict.fromkeys(ids))
    tasks, jobs = _seen(core, caller, named)
    commands = {each: of_task(each) for each in tasks}
    if of_job is not None:
        commands |= {each: of_job(each) for each in jobs}
    known = [each for each in named if each in commands]
    requests = [CommandRequest(commands[each], caller.actor) for each in known]
    executed = core.engine.execute(requests, bulk=True) if requests else []
    _unless_unavailable(executed)
    results: dict[str, Result] = dict(zip(known, executed, strict=True))
    kinds = "task" if of_job is None else "task or job"
    for each in named:
        unknown = NotFound(f"There is no {kinds} {each!r}.", code="unknown_task")
        results.setdefault(each, unknown)
    return _to_schema(core, caller, {each: results[each] for each in named})


def _seen(
    core: Core, caller: Caller, ids: Sequence[str]
) -> tuple[dict[str, StateVersion], dict[str, StateVersion]]:
    """The tasks and the jobs among these that the caller may see."""
    with core.store.read() as view:
        tasks = {
            task.id: (task.state, version)
            for task, version in view.tasks(ids)
            if caller.may_see(task.project)
        }
        jobs = {
            job.id: (job.state, version)
            for job, version in view.jobs([each for each in ids if each not in tasks])
            if caller.may_see(job.project)
        }
    return tasks, jobs


def _unless_unavailable(results: Sequence[Result]) -> None:
    """Raise the error of an unavailable database: the caller repeats the whole request."""
    failures = [each for each in results if isinstance(each, DetentError) and each.status >= 500]
    if failures and len(failures) == len(results):
        raise failures[0]


def _to_schema(core: Core, caller: Caller, results: Mapping[str, Result]) -> schemas.ActedOn:
    done = {each: result for each, result in results.items() if isinstance(result, CommandResult)}
    tasks, jobs = _seen(core, caller, list(done))
    places = {**jobs, **tasks}
    items: list[schemas.Acted] = []
    for each, result in done.items():
        state, version = places.get(each, (None, None))
        outcome = "deleted" if state is None else result.value
        items.append({"id": each, "state": state, "version": version, "outcome": outcome})
    return {
        "items": items,
        "refused": [
            {"id": each, "code": result.code, "detail": result.message}
            for each, result in results.items()
            if isinstance(result, DetentError)
        ],
    }
