"""Builds the kernel command of a request, with its idempotency key.

Subtasks of a run are in `subtask`.
"""

import hashlib
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeVar

import msgspec
from msgspec import UNSET

from detent.engine import CommandRequest, Idempotency
from detent.ids import new_id
from detent.kernel import commands as c
from detent.kernel.budget import budget_from
from detent.kernel.lifecycle import normalise
from detent.kernel.priority import priority_from
from detent.kernel.retry import PLAIN, RetryPolicy
from detent.kernel.task_lifecycle import EntryPoint
from detent.kernel.traceparent import TRACEPARENT, parse_traceparent
from detent.kernel.variants import VARIANTS, intents_of
from detent.submission.checks import (
    check_choice,
    check_resources,
    intent_row,
    project_of,
    source_of,
)
from detent.submission.context import Checked, Context
from detent.submission.not_before import delay_from
from detent.submission.options import for_lifecycle, options_for, plan_of, uses_payload
from detent.submission.payload import ARGUMENTS, check_payload, check_step_inputs
from detent.submission.request import (
    BoardRequest,
    EnqueueRequest,
    JobRequest,
    Request,
    TaskRequest,
    checked_id,
    null_payload,
    read,
)

NOT_GIVEN = (None, None, None, None)

R = TypeVar("R", bound=Request)


class Submission(NamedTuple):
    """A checked command. `fresh`: its id was generated, so no row with this id can exist."""

    command: c.SubmitTask | c.SubmitJob
    actor: c.Actor
    key: Idempotency | None = None
    fresh: bool = True

    def request(self) -> CommandRequest:
        """The request to the engine."""
        return CommandRequest(self.command, self.actor, self.key, self.fresh)


def submit_task(
    context: Context, given: Mapping[str, Any], *, source: str | None = None
) -> Submission:
    """A task, from the fields of a `TaskRequest`. `source`: one that no request may name."""
    request = _read(TaskRequest, given)
    if request.lifecycle is None:
        request.lifecycle = context.lifecycles.defaults[EntryPoint.SUBMIT].name
    return _task(context, request, source)


def add_task(context: Context, given: Mapping[str, Any]) -> Submission:
    """A queued task, from the fields of a `BoardRequest`; its payload names its project."""
    return _task(context, _added(context, _read(BoardRequest, given), None))


def enqueue_task(context: Context, given: Mapping[str, Any]) -> Submission:
    """A queued task under the caller's own id, from the fields of an `EnqueueRequest`."""
    request = _read(EnqueueRequest, given)
    return _task(context, _added(context, request, checked_id(request.taskId, "taskId")))


def _read(kind: type[R], given: Mapping[str, Any]) -> R:
    """The request with the given fields; `read` explains what is wrong with them."""
    try:
        request = msgspec.convert(given, kind)
    except msgspec.ValidationError:
        return read(kind, given)
    if request.payload is None:
        raise null_payload()
    return request


def _added(
    context: Context, request: BoardRequest | EnqueueRequest, task_id: str | None
) -> TaskRequest:
    payload = request.payload
    return TaskRequest(
        intent=request.intent,
        id=task_id,
        project=None if payload is UNSET else payload.get("project"),
        lifecycle=context.lifecycles.defaults[EntryPoint.ADD].name,
        source=request.source,
        priority=request.priority,
        payload=payload,
        run=True,
        not_before=request.not_before,
        idempotency_key=getattr(request, "idempotency_key", None),
    )


def _task(context: Context, request: TaskRequest, source: str | None = None) -> Submission:
    where = (request.intent, request.lifecycle, request.project)
    fields = (*where, request.source, request.priority)
    plain = (
        (source, request.options, request.parent_id, request.max_budget_usd) == NOT_GIVEN
        # The payload of a board task names its project, and may have any value there.
        and isinstance(request.project, str | None)
    )
    checked = context.checked.get(fields) if plain else None
    if checked is None:
        checked = _checked(context, request, source)
        if plain and checked.lasts:
            context.checked[fields] = checked
    command = c.SubmitTask(
        task_id=new_id() if request.id is None else checked_id(request.id, "id"),
        project=checked.project,
        lifecycle=checked.lifecycle,
        intent=request.intent,
        source=checked.source,
        priority=checked.priority,
        title=request.title,
        payload={} if request.payload is UNSET else request.payload,
        tags=tuple(dict.fromkeys(request.tags)),
        parent_id=request.parent_id,
        depends_on=tuple(dict.fromkeys(request.depends_on)),
        budget=checked.budget,
        options=traced(context, checked.options),
        queue=request.run,
        **({} if request.not_before is None else start_of(request)),
    )
    key = None if request.idempotency_key is None else key_for(command.project, request)
    return Submission(command, context.actor, key, request.id is None)


def _checked(context: Context, request: TaskRequest, source: str | None) -> Checked:
    """Check the fields of a task that depend on the installation."""
    known = context.lifecycles.by_name
    lifecycle = known[check_choice(normalise(request.lifecycle or ""), known, "lifecycle")]
    row = intent_row(context, request.intent)
    payload = payload_of(context, request, row)
    project = project_of(context, request.project, request.parent_id)
    source = source or source_of(context, request.source)
    priority = priority_from(request.priority).value
    budget = _budget(request.max_budget_usd, row, lifecycle.budget)
    options = options_of(context, request.intent, request.options, lifecycle.policy, payload)
    options = for_lifecycle(options, request.options or {}, lifecycle)
    if VARIANTS in options:
        _check_payload_of_variants(context, options, request.intent, payload)
    lasts = not (
        ARGUMENTS in row
        or uses_payload(row)
        or plan_of(options) is not None
        or VARIANTS in options
        or context.settings.intake_projects_locked
    )
    return Checked(project, lifecycle.id, source, priority, budget, options, lasts)


def _check_payload_of_variants(
    context: Context, options: Mapping[str, Any], intent: str, payload: Any
) -> None:
    """Check the payload against the arguments of every other intent that the variants have."""
    for each in {*intents_of(options, intent)} - {intent}:
        row = context.intents[each]
        if ARGUMENTS in row:
            check_payload(context, each, row, payload)


def submit_job(context: Context, given: Mapping[str, Any]) -> Submission:
    """A job without a task, from the fields of a `JobRequest`."""
    request = _read(JobRequest, given)
    row = intent_row(context, request.intent)
    payload = payload_of(context, request, row)
    options = options_of(context, request.intent, request.options, PLAIN, payload)
    options = for_lifecycle(options, request.options or {}, None)
    command = c.SubmitJob(
        job_id=new_id() if request.id is None else checked_id(request.id, "id"),
        project=project_of(context, request.project),
        intent=request.intent,
        priority=priority_from(request.priority).value,
        payload=payload,
        concurrency_key=request.concurrency_key or options.get("concurrency_key"),
        options=traced(context, options),
        **start_of(request),
    )
    key = key_for(command.project, request)
    return Submission(command, context.actor, key, request.id is None)


def payload_of(context: Context, request: Request, row: Mapping[str, Any]) -> Any:
    """The payload, {} if none was given, checked against the arguments of the intent's handler."""
    payload = {} if request.payload is UNSET else request.payload
    if ARGUMENTS in row:
        check_payload(context, request.intent, row, payload)
    return payload


def start_of(request: Request) -> dict[str, Any]:
    """The fields of a command for its earliest start."""
    return {} if request.not_before is None else delay_from(request.not_before)._asdict()


def options_of(
    context: Context,
    intent: str,
    given: Mapping[str, Any] | None,
    policy: RetryPolicy,
    payload: Any,
) -> dict[str, Any]:
    options = options_for(context.intents, intent, given or {}, policy, payload)
    check_resources(context, options)
    if "plan" in options:
        check_step_inputs(context, options["plan"], payload)
    return options


def traced(context: Context, options: dict[str, Any]) -> dict[str, Any]:
    """The options with the trace context of the request, if it has a valid one."""
    if context.traceparent is None:
        return options
    given = parse_traceparent(context.traceparent)
    return options if given is None else {**options, TRACEPARENT: str(given)}


def _budget(given: float | None, row: Mapping[str, Any], usual: int | None) -> int | None:
    """The budget of the request, of its intent, or of its lifecycle."""
    wanted = row.get("max_budget_usd") if given is None else given
    return usual if wanted is None else budget_from(wanted)


def key_for(project: str, request: Any, prefix: str = "") -> Idempotency | None:
    """The request's idempotency key: the same key with the same fields gives the first answer."""
    if request.idempotency_key is None:
        return None
    body = {
        name: value
        for name, value in msgspec.structs.asdict(request).items()
        if name not in ("id", "idempotency_key") and value is not UNSET
    }
    return Idempotency(project, prefix + request.idempotency_key, digest(body))


def digest(body: object) -> str:
    """A digest of a body that does not depend on the order of its fields."""
    return hashlib.sha256(msgspec.json.encode(body, order="deterministic")).hexdigest()
