"""What a run says through its own door: subtasks, progress, evidence and questions.

Everything is written under the run's claim, and nothing goes beyond the limits of its own task.
"""

import base64 as base_64
import binascii
import mimetypes
from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import Any, cast

from detent.engine import Answer, Ask, Idempotency
from detent.errors import Forbidden, Invalid, Refused, TooLarge
from detent.ids import new_id
from detent.kernel import commands as c
from detent.kernel.budget import budget_from, dollars
from detent.kernel.evidence import is_question, type_of
from detent.kernel.priority import priority_from
from detent.kernel.state import Task
from detent.operations import shapes
from detent.operations.agents import Own, counted, own_of, writer
from detent.operations.budgets import left, line
from detent.operations.core import Core, digest, known
from detent.operations.evidence import ANY, checked_name
from detent.operations.registry import Caller, Scope, operation
from detent.operations.requests import (
    LONGEST_TITLE,
    MOST_DEPENDENCIES,
    MOST_TAGS,
    options_for,
    texts,
)
from detent.operations.requests import text as text_of
from detent.redaction import redact, redact_value
from detent.store.port import Query, Reading

MOST_OPTIONS = 20
LONGEST_QUESTION = 10_000
LONGEST_NOTE = 2_000
#: Options that a subtask takes over from its task.
INHERITED = ("on_budget_exceeded", "workspace")
#: Limits that a subtask may have lower than its task, never higher.
CAPPED = ("queue_timeout_ms", "job_timeout_ms", "run_timeout_ms", "idle_timeout_ms")

Row = Mapping[str, Any]

# ---- subtasks --------------------------------------------------------------------------------


@operation(Scope.RUN, "POST", "/api/run/subtasks", status=201)
def own_subtask(
    core: Core,
    caller: Caller,
    *,
    intent: str,
    title: str = "",
    payload: Any = None,
    priority: str | None = None,
    tags: Sequence[str] = (),
    depends_on: Sequence[str] = (),
    max_budget_usd: float | str | None = None,
    idempotency_key: str | None = None,
) -> shapes.Submitted:
    """Create a subtask of the run's own task and queue it, within the limits of the task."""
    body = {
        name: redact_value(value)
        for name, value in locals().items()
        if name not in ("core", "caller", "idempotency_key")
    }
    with core.store.read() as view:
        own = own_of(view, caller)
        task = _own_task(own)
        command = _subtask(core, view, task, body)
    key = None if idempotency_key is None else _key(task, idempotency_key, body)
    counted(core, caller, "subtasks", core.settings.run_subtasks_per_minute)
    result = core.engine.ask([Ask(command, caller.actor, key, fresh=True, grant=own.grant)])[0]
    if isinstance(result, Answer):
        return {"id": result.value, "repeated": result.repeated}
    raise result


def _own_task(own: Own) -> Task:
    if own.task is None:
        raise Refused(f"The job {own.job.id} has no task, and so no subtasks.")
    return own.task


def _key(task: Task, key: str, body: object) -> Idempotency:
    """Keys of a task's runs are their own: an agent cannot learn or take those of others."""
    return Idempotency(task.project, f"run:{task.id}:{key}", digest(body))


def _subtask(core: Core, view: Reading, task: Task, body: Row) -> c.SubmitTask:
    intents = core.known_intents()
    intent = _open(task, known(body["intent"], intents, "intent", "unknown_intent"), intents)
    settings = core.settings
    return c.SubmitTask(
        task_id=new_id(),
        project=task.project,
        lifecycle=task.lifecycle,
        intent=intent,
        source=task.source,
        priority=_priority(task, body["priority"]),
        title=text_of(body, "title", "", LONGEST_TITLE),
        payload=body["payload"],
        tags=texts(body, "tags", MOST_TAGS),
        parent_id=task.id,
        depends_on=_dependencies(view, task, texts(body, "depends_on", MOST_DEPENDENCIES)),
        budget=_own_budget(view, task, body["max_budget_usd"]),
        options=_options(task, options_for(intents, intent, {}, task.lifecycle, body["payload"])),
        most_depth=settings.run_subtask_depth,
        most_subtasks=settings.run_subtasks,
    )


def _open(task: Task, intent: str, intents: Mapping[str, Row]) -> str:
    """Work of its own intent, or of one that the operator has opened to it."""
    opened = intents.get(task.intent, {}).get("subtask_intents", ())
    if intent == task.intent or intent in opened or "*" in opened:
        return intent
    raise Forbidden(
        f"A run of {task.intent} may not make subtasks of {intent}.",
        code="own_work",
        hint=f"The operator can open it: intents.{task.intent}.subtask_intents = [{intent!r}].",
    )


def _priority(task: Task, given: str | None) -> str:
    wanted = task.priority if given is None else priority_from(given).value
    if wanted < task.priority:
        raise _widened(f"priority {wanted} is above {task.priority}, the task's own")
    return wanted


def _own_budget(view: Reading, task: Task, given: float | str | None) -> int | None:
    if given is None:
        return None
    wanted, rest = budget_from(given), left(line(view, task))
    if rest is not None and wanted > rest:
        raise _widened(f"{dollars(wanted)} is over the {dollars(rest)} that the task has left")
    return wanted


def _options(task: Task, options: dict[str, Any]) -> dict[str, Any]:
    """The intent's own, within the task's limits."""
    for name in INHERITED:
        if name in task.options:
            options[name] = task.options[name]
    for name in CAPPED:
        if name in task.options:
            options[name] = min(task.options[name], options.get(name, task.options[name]))
    return options


def _dependencies(view: Reading, task: Task, names: tuple[str, ...]) -> tuple[str, ...]:
    found = {each.id for each, _ in view.tasks(names) if each.root_id == task.root_id}
    for name in names:
        if name not in found or name == task.id:
            raise Invalid(
                f"depends_on may name other subtasks of the same tree, not {name!r}.",
                field="depends_on",
                given=name,
            )
    return names


def _widened(what: str) -> Forbidden:
    return Forbidden(f"A run may not widen its own limits: {what}.", code="own_work")


# ---- reporting -------------------------------------------------------------------------------


@operation(Scope.RUN, "POST", "/api/run/progress")
def own_progress(
    core: Core, caller: Caller, *, progress: float | None = None, note: str | None = None
) -> shapes.OwnReport:
    """Say how far the run is, from 0 to 1, or what it is doing."""
    if progress is None and note is None:
        raise Invalid("Say progress, a note, or both.", field="progress")
    if progress is not None and not 0 <= progress <= 1:
        raise Invalid("progress must be from 0 to 1.", field="progress", given=progress)
    if note is not None and len(note) > LONGEST_NOTE:
        raise Invalid(f"note must have at most {LONGEST_NOTE} characters.", field="note")
    own = writer(core, caller)
    said = None if note is None else redact(note)
    core.engine.do(c.ReportProgress(own.grant, own.run_id, progress, said), caller.actor)
    return {"run_id": own.run_id, "outcome": "reported"}


@operation(Scope.RUN, "POST", "/api/run/evidence", status=201)
def own_evidence(
    core: Core,
    caller: Caller,
    *,
    name: str,
    text: str | None = None,
    base64: str | None = None,
) -> shapes.OwnEvidence:
    """Add a small file to the run's evidence, as text or as base64."""
    data = _content(text, base64)
    limit = core.settings.run_evidence_limit
    if len(data) > limit:
        raise TooLarge(f"Evidence through this door has at most {limit} bytes.", limit=limit)
    own = writer(core, caller)
    _room_for_evidence(core, own.run_id, checked_name(name))
    blob = core.store.blobs.put(BytesIO(data))
    kind, media_type = type_of(name).value, mimetypes.guess_type(name)[0] or ANY
    added = c.AddEvidence(own.grant, own.run_id, name, kind, blob.sha256, blob.size, media_type)
    core.engine.do(added, caller.actor)
    return {
        "run_id": own.run_id,
        "file": name,
        "kind": kind,
        "sha256": blob.sha256,
        "size": blob.size,
    }


def _content(plain: str | None, encoded: str | None) -> bytes:
    if (plain is None) == (encoded is None):
        raise Invalid("Give the content as text or as base64, and not both.", field="text")
    if plain is not None:
        return plain.encode()
    try:
        return base_64.b64decode(encoded or "", validate=True)
    except (binascii.Error, ValueError):
        raise Invalid("base64 cannot be decoded.", field="base64") from None


def _room_for_evidence(core: Core, run_id: str, name: str) -> None:
    most = core.settings.run_evidence_files
    with core.store.read() as view:
        there = view.page(Query("evidence", {"run_id": run_id}, limit=most))
    if any(row["file"] == name for row in there):
        raise Refused(f"The run has evidence {name!r} already.", code="evidence_exists")
    if len(there) >= most:
        raise Refused(
            f"The run has {most} pieces of evidence, which is the limit.", code="too_many"
        )


# ---- asking ----------------------------------------------------------------------------------


@operation(Scope.RUN, "POST", "/api/run/ask")
def own_question(
    core: Core,
    caller: Caller,
    *,
    text: str,
    options: Sequence[Any] = (),
    default: Any = None,
    expires_in_s: int | None = None,
) -> shapes.OwnQuestion:
    """Ask a person. The question counts when the run's process ends with exit code 0."""
    question = redact_value(_question(text, options, default, expires_in_s))
    own = writer(core, caller)
    with core.store.read() as view:
        first = asked(view, own.job.id, own.run_id)
    if first not in (None, question):
        raise Refused("This run has asked another question already.", code="already_asked")
    if first is None:
        command = c.RecordCheckpoint(own.grant, _asked_as(own.run_id), question)
        core.engine.do(command, caller.actor)
    following = "End now with exit code 0. You go on in the same session once it is answered."
    outcome = "asked" if first is None else "repeated"
    return {"run_id": own.run_id, "outcome": outcome, "next": following}


def asked(view: Reading, job_id: str, run_id: str) -> Mapping[str, Any] | None:
    """The question that a run has asked through its door; whoever ends the run well asks it.

    `text`, `options`, and where they were given `default` and `expires_in_s`.
    """
    for found in view.checkpoints([(job_id, _asked_as(run_id))]):
        return cast(Mapping[str, Any], found.value)
    return None


def _asked_as(run_id: str) -> str:
    return f"question:{run_id}"


def _question(
    asking: str, options: Sequence[Any], default: Any, expires_in_s: int | None
) -> dict[str, Any]:
    if not asking.strip() or len(asking) > LONGEST_QUESTION:
        raise Invalid(
            f"text must be a question of at most {LONGEST_QUESTION} characters.", field="text"
        )
    if not is_question(asking, options):
        raise Invalid("A question has a question mark or options.", field="text", given=asking)
    if len(options) > MOST_OPTIONS:
        raise Invalid(f"options has more than {MOST_OPTIONS} entries.", field="options")
    if default is not None and options and default not in options:
        raise Invalid("default must be one of the options.", field="default", given=default)
    question: dict[str, Any] = {"text": asking, "options": list(options)}
    if default is not None:
        question["default"] = default
    if expires_in_s is not None:
        question["expires_in_s"] = expires_in_s
    return question
