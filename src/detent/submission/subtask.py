"""Builds the commands of subtasks, which have the project, lifecycle and source of their parent.

`run.subtask` submits for its own task or job. The token of a run may do less: only intents that the
operator has allowed, and only within the limits of its task.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from detent.errors import Forbidden, Invalid
from detent.ids import new_id
from detent.kernel import commands as c
from detent.kernel.budget import budget_from, dollars
from detent.kernel.entities import Job, Task
from detent.kernel.priority import priority_from
from detent.kernel.retry import PLAIN
from detent.kernel.task_lifecycle import known
from detent.submission.checks import intent_row
from detent.submission.command import (
    Submission,
    key_for,
    options_of,
    payload_of,
    start_of,
    traced,
)
from detent.submission.context import Context
from detent.submission.request import SubtaskRequest, read

#: Options that a run's subtask inherits from its task.
INHERITED = ("on_budget_exceeded", "workspace")
#: Limits of a run's subtask that may not be higher than those of its task.
CAPPED = ("queue_timeout_ms", "job_timeout_ms", "run_timeout_ms", "idle_timeout_ms")


def subtask_of_job(
    context: Context,
    parent: Job,
    child: str,
    given: Mapping[str, Any],
    options: Mapping[str, Any] | None = None,
) -> c.SubmitJob:
    """The command for a child job of a job without a task."""
    request = read(SubtaskRequest, given)
    row = intent_row(context, request.intent)
    payload = payload_of(context, request, row)
    checked = options_of(context, request.intent, options, PLAIN, payload)
    return c.SubmitJob(
        child,
        parent.project,
        request.intent,
        _priority(parent.priority, request.priority),
        payload,
        parent.id,
        checked.get("concurrency_key"),
        traced(context, checked),
        **start_of(request),
    )


def subtask_of_task(
    context: Context,
    parent: Task,
    child: str,
    given: Mapping[str, Any],
    options: Mapping[str, Any] | None = None,
) -> c.SubmitTask:
    """The command for a subtask of a task."""
    return _subtask(context, parent, child, read(SubtaskRequest, given), options)


def _subtask(
    context: Context,
    parent: Task,
    child: str,
    request: SubtaskRequest,
    options: Mapping[str, Any] | None = None,
    **limits: Any,
) -> c.SubmitTask:
    row = intent_row(context, request.intent)
    payload = payload_of(context, request, row)
    policy = known(context.lifecycles.by_id, parent.lifecycle).policy
    return c.SubmitTask(
        task_id=child,
        project=parent.project,
        lifecycle=parent.lifecycle,
        intent=request.intent,
        source=parent.source,
        priority=_priority(parent.priority, request.priority),
        title=request.title,
        payload=payload,
        tags=tuple(dict.fromkeys(request.tags)),
        parent_id=parent.id,
        depends_on=tuple(dict.fromkeys(request.depends_on)),
        budget=None if request.max_budget_usd is None else budget_from(request.max_budget_usd),
        options=traced(context, options_of(context, request.intent, options, policy, payload)),
        **start_of(request),
        **limits,
    )


def _priority(own: str, given: str | None) -> str:
    return own if given is None else priority_from(given).value


# ---- a run's token ---------------------------------------------------------------------------


def submit_own_subtask(
    context: Context, task: Task, left: int | None, given: Mapping[str, Any]
) -> Submission:
    """The submission of a subtask by a run with its token, within the limits of its task.

    `left` is the remaining budget of its task, in micro-dollars; None without a budget.
    """
    request = read(SubtaskRequest, given)
    intent_row(context, request.intent)
    _check_intent(context, task, request.intent)
    settings = context.settings
    command = _subtask(
        context,
        task,
        new_id(),
        request,
        max_depth=settings.run_subtask_depth,
        max_subtasks=settings.run_subtasks,
    )
    _check_limits(command, task, left)
    _check_dependencies(context, task, command.depends_on)
    command = replace(command, options=_capped(task, dict(command.options)))
    # The prefix separates the keys of a task's runs: an agent cannot use the keys of other callers.
    key = key_for(task.project, request, f"run:{task.id}:")
    return Submission(command, context.actor, key)


def _check_intent(context: Context, task: Task, intent: str) -> None:
    """Refuse an intent other than the task's own, unless the operator has allowed it."""
    opened = context.intents.get(task.intent, {}).get("subtask_intents", ())
    if intent != task.intent and intent not in opened and "*" not in opened:
        raise Forbidden(
            f"A run of {task.intent} may not submit subtasks of {intent}.",
            code="own_work",
            hint=f"An operator can allow it: intents.{task.intent}.subtask_intents = [{intent!r}].",
        )


def _check_limits(command: c.SubmitTask, task: Task, left: int | None) -> None:
    if command.priority < task.priority:
        raise _over_limit(f"priority {command.priority} is above {task.priority}, the task's own")
    if command.budget is not None and left is not None and command.budget > left:
        wanted = dollars(command.budget)
        raise _over_limit(f"{wanted} is more than the task's remaining budget, {dollars(left)}")


def _capped(task: Task, options: dict[str, Any]) -> dict[str, Any]:
    """The intent's own options, within the task's limits."""
    for name in INHERITED:
        if name in task.options:
            options[name] = task.options[name]
    for name in CAPPED:
        if name in task.options:
            options[name] = min(task.options[name], options.get(name, task.options[name]))
    return options


def _check_dependencies(context: Context, task: Task, names: tuple[str, ...]) -> None:
    if not names:
        return
    with context.store.read() as view:
        found = {each.id for each, _ in view.tasks(names) if each.root_id == task.root_id}
    for name in names:
        if name not in found or name == task.id:
            raise Invalid(
                f"depends_on may contain only other subtasks of the same tree, not {name!r}.",
                field="depends_on",
                given=name,
            )


def _over_limit(what: str) -> Forbidden:
    return Forbidden(f"A run may not exceed the limits of its task: {what}.", code="own_work")
