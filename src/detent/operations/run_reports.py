"""What a run submits with its own token: subtasks, progress, evidence and questions.

Everything is written under the run's claim and is limited by the budget and limits of its task.
"""

import base64 as base_64
import binascii
import mimetypes
from collections.abc import Mapping, Sequence
from dataclasses import replace
from io import BytesIO
from typing import Any, cast

from detent.errors import Invalid, Refused, TooLarge
from detent.kernel import commands as c
from detent.kernel.entities import Job, Task
from detent.kernel.evidence_types import is_question, type_of
from detent.kernel.traceparent import parse_traceparent, run_traceparent
from detent.operations import schemas
from detent.operations.budgets import remaining, with_ancestors
from detent.operations.context import Core
from detent.operations.evidence import ANY, checked_name
from detent.operations.intake import submitted
from detent.operations.registry import Caller, Scope, operation
from detent.operations.review_diffs import DIFF_FILE
from detent.operations.review_rows import IMAGES_AFTER, IMAGES_BEFORE
from detent.operations.run_tokens import TokenRun, count_request, run_for_write, run_of_caller
from detent.redaction import redact, redact_value
from detent.store.port import ReadTransaction
from detent.store.types import Query
from detent.submission.context import Context
from detent.submission.request import SubtaskRequest
from detent.submission.subtask import submit_own_subtask
from detent.submission.workspace_options import has_branch

MAX_OPTIONS = 20
LONGEST_QUESTION = 10_000
LONGEST_NOTE = 2_000

# ---- subtasks --------------------------------------------------------------------------------


@operation(Scope.RUN, "POST", "/api/run/subtasks", status=201, request=SubtaskRequest)
def own_subtask(core: Core, caller: Caller, /, **given: Any) -> schemas.Submitted:
    """Create a subtask of the run's task and queue it, within the limits of the task."""
    with core.store.read() as view:
        own = run_of_caller(view, caller)
        task = _own_task(own)
        rest = remaining(with_ancestors(view, task))
    context = _in_trace(core, core.submission_context(caller), own)
    made = submit_own_subtask(context, task, rest, redact_value(given))
    count_request(core, caller, "subtasks", core.settings.run_subtasks_per_minute)
    return submitted(core.engine.execute([made.request()._replace(grant=own.grant)]))


def _in_trace(core: Core, context: Context, own: TokenRun) -> Context:
    """The context; a request without a trace context has that of its run."""
    if parse_traceparent(context.traceparent) is not None:
        return context
    exported, owner = core.settings.traces_enabled, own.job.task_id or own.job.id
    trace = run_traceparent(own.job.options, owner, own.run_id, exported=exported)
    return replace(context, traceparent=trace)


def _own_task(own: TokenRun) -> Task:
    if own.task is None:
        raise Refused(f"Job {own.job.id} has no task, so it cannot have subtasks.")
    return own.task


# ---- reporting -------------------------------------------------------------------------------


@operation(Scope.RUN, "POST", "/api/run/progress")
def own_progress(
    core: Core, caller: Caller, *, progress: float | None = None, note: str | None = None
) -> schemas.OwnReport:
    """Report the progress of the run, from 0 to 1, or a note about what it is doing."""
    if progress is None and note is None:
        raise Invalid("Give progress, a note, or both.", field="progress")
    if progress is not None and not 0 <= progress <= 1:
        raise Invalid(
            f"progress must be from 0 to 1, not {progress}.", field="progress", given=progress
        )
    if note is not None and len(note) > LONGEST_NOTE:
        raise Invalid(
            f"note must have at most {LONGEST_NOTE} characters, not {len(note)}.", field="note"
        )
    own = run_for_write(core, caller)
    shown = None if note is None else redact(note)
    core.engine.do(c.ReportProgress(own.grant, own.run_id, progress, shown), caller.actor)
    return {"run_id": own.run_id, "outcome": "reported"}


@operation(Scope.RUN, "POST", "/api/run/evidence", status=201)
def own_evidence(
    core: Core,
    caller: Caller,
    *,
    name: str,
    text: str | None = None,
    base64: str | None = None,
) -> schemas.OwnEvidence:
    """Add a small file to the run's evidence, as text or as base64."""
    data = _content(text, base64)
    limit = core.settings.run_evidence_limit
    if len(data) > limit:
        raise TooLarge(
            f"Evidence must have at most {limit} bytes here, not {len(data)}.", limit=limit
        )
    own = run_for_write(core, caller)
    _check_evidence_limit(core, own.run_id, _free_name(name, own.job))
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


def _free_name(name: str, job: Job) -> str:
    """The name, unless the worker stores there what people review of a branch."""
    diff = name == DIFF_FILE and has_branch(job.options)
    if diff or name.startswith((IMAGES_BEFORE, IMAGES_AFTER)):
        raise Invalid(
            f"{DIFF_FILE} and names below {IMAGES_BEFORE} and {IMAGES_AFTER} are reserved for the "
            "worker.",
            field="name",
            given=name,
            hint="Choose another directory.",
        )
    return checked_name(name)


def _content(plain: str | None, encoded: str | None) -> bytes:
    if (plain is None) == (encoded is None):
        raise Invalid("Give the content as text or as base64, not both.", field="text")
    if plain is not None:
        return plain.encode()
    try:
        return base_64.b64decode(encoded or "", validate=True)
    except (binascii.Error, ValueError):
        raise Invalid("base64 must be valid base64.", field="base64") from None


def _check_evidence_limit(core: Core, run_id: str, name: str) -> None:
    most = core.settings.run_evidence_files
    with core.store.read() as view:
        there = view.page(Query("evidence", {"run_id": run_id}, limit=most))
    if any(row["file"] == name for row in there):
        raise Refused(
            f"Run {run_id} already has evidence {name!r}.",
            code="evidence_exists",
            hint="Choose another name.",
        )
    if len(there) >= most:
        raise Refused(
            f"Run {run_id} has {most} evidence files, which is the limit.", code="too_many"
        )


# ---- questions -------------------------------------------------------------------------------


@operation(Scope.RUN, "POST", "/api/run/ask")
def own_question(
    core: Core,
    caller: Caller,
    *,
    text: str,
    options: Sequence[Any] = (),
    other: bool = False,
    default: Any = None,
    expires_in_s: int | None = None,
) -> schemas.OwnQuestion:
    """Ask a person. The question is asked when the run's process ends with exit code 0.

    With `options`, the answer must be one of them unless `other` is true.
    """
    question = _question(text, options, default, expires_in_s)
    question = redact_value({**question, "other": True} if other else question)
    own = run_for_write(core, caller)
    with core.store.read() as view:
        first = recorded_question(view, own.job.id, own.run_id)
    if first not in (None, question):
        raise Refused(f"Run {own.run_id} has already asked another question.", code="already_asked")
    if first is None:
        command = c.RecordCheckpoint(own.grant, _asked_as(own.run_id), question)
        core.engine.do(command, caller.actor)
    following = "End now with exit code 0. The session continues after a person has answered."
    outcome = "asked" if first is None else "repeated"
    return {"run_id": own.run_id, "outcome": outcome, "next": following}


def recorded_question(view: ReadTransaction, job_id: str, run_id: str) -> Mapping[str, Any] | None:
    """The question that a run has recorded with its token; it is asked when the run succeeds.

    Its fields are `text`, `options` and, if they were given, `other`, `default` and `expires_in_s`.
    """
    for found in view.checkpoints([(job_id, _asked_as(run_id))]):
        return cast(Mapping[str, Any], found.value)
    return None


def _asked_as(run_id: str) -> str:
    return f"question:{run_id}"


def _question(
    text: str, options: Sequence[Any], default: Any, expires_in_s: int | None
) -> dict[str, Any]:
    if not text.strip() or len(text) > LONGEST_QUESTION:
        raise Invalid(
            f"text must be a question of 1 to {LONGEST_QUESTION} characters, not {len(text)}.",
            field="text",
        )
    if not is_question(text, options):
        raise Invalid(
            "text must have a question mark, or the question must have options.",
            field="text",
            given=text,
        )
    if len(options) > MAX_OPTIONS:
        raise Invalid(
            f"options must have at most {MAX_OPTIONS} entries, not {len(options)}.",
            field="options",
        )
    if default is not None and options and default not in options:
        raise Invalid(
            f"default must be one of the options, not {default!r}.",
            field="default",
            given=default,
        )
    question: dict[str, Any] = {"text": text, "options": list(options)}
    if default is not None:
        question["default"] = default
    if expires_in_s is not None:
        question["expires_in_s"] = expires_in_s
    return question
