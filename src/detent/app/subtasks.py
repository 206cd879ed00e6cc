"""Subtasks of a run: submit them once, wait for them, and read their results."""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Generic, NamedTuple, TypeVar

from detent import failpoints
from detent.app.failures import CodeChanged, SubtaskFailed
from detent.app.intent import Intent
from detent.app.journal import STEP, Journal
from detent.app.prepared_submission import PreparedSubmission
from detent.app.retried_calls import retried
from detent.app.run_operations import BlockingCall, ExecuteCommands, Operation
from detent.app.values import fitted
from detent.app.waits import wait
from detent.errors import DetentError, Refused
from detent.ids import ALPHABET
from detent.kernel import commands as c
from detent.kernel.retention import Ending
from detent.submission.subtask import subtask_of_job, subtask_of_task

T_co = TypeVar("T_co", covariant=True)

#: How many subtasks are submitted in one transaction.
MAX_PER_TRANSACTION = 200
#: An earlier try has submitted this subtask: only its answer was lost.
KNOWN_CHILD = ("task_exists", "job_exists")


class Subtask(NamedTuple, Generic[T_co]):
    """A subtask that a run has submitted. `run.gather` waits for it and returns its result."""

    #: The name that was given to it, or the name of its intent.
    name: str
    #: The id of the subtask: of a task if the parent is a task, else of a job.
    id: str
    #: The signal that the engine sends to the parent when the subtask has ended.
    signal: str
    #: The annotated type of its result.
    returns: Any = Any


class SubtaskOutcome(NamedTuple):
    """How a subtask ended: its final state, and its result or its error."""

    #: Its final state, such as `completed`, `failed` or `cancelled`; each lifecycle has its own.
    state: str
    #: What its handler returned, as JSON values; None if it did not succeed.
    result: Any
    #: The text of its error; None if it succeeded.
    error: str | None
    #: How it ended in any lifecycle: `done`, `failed` or `cancelled`; empty in older logs.
    ending: str = ""

    @property
    def succeeded(self) -> bool:
        """Whether the subtask has a result."""
        if self.ending:
            return self.ending == Ending.DONE
        return self.state in ("completed", "done")


def derived_id(job_id: str, name: str) -> str:
    """The id of a subtask, computed from its parent's id and its name: the same in every run."""
    number = int.from_bytes(hashlib.sha256(f"{job_id}/{name}".encode()).digest()[:17], "big")
    return "".join(ALPHABET[(number >> shift) & 31] for shift in range(125, -1, -5))


# ---- submitting ------------------------------------------------------------------------------


def prepared_subtask(
    journal: Journal,
    intent: str | Intent[..., Any],
    payload: Any,
    arguments: Mapping[str, Any],
) -> PreparedSubmission:
    """The submission of one subtask, with its payload checked."""
    return journal.run.intent.app.prepare_subtask(intent, payload, arguments)


def prepared_subtasks(
    journal: Journal,
    intent: str | Intent[..., Any],
    payloads: Iterable[Any],
    name: str | None,
) -> tuple[list[PreparedSubmission], str]:
    """The submissions of many subtasks of one intent, and the name of the group."""
    fallback = intent if isinstance(intent, str) else intent.name
    prepared = [prepared_subtask(journal, intent, payload, {}) for payload in payloads]
    return prepared, name or fallback


def submit_subtask(
    journal: Journal, prepared: PreparedSubmission, name: str, not_before: str | None = None
) -> Operation[Subtask[Any]]:
    """Submit one subtask, or find the one that an earlier run has submitted under this name."""
    recorded = f"subtask:{name}"
    known = yield from journal.find(recorded, STEP)
    child = derived_id(journal.grant.job_id, journal.prefix + recorded)
    if known is None:
        command = yield _made(journal, lambda: _command(journal, child, prepared, not_before))
        try:
            yield from journal.execute(command, journal.grant)
        except Refused as refusal:
            if refusal.code not in KNOWN_CHILD:
                raise
        failpoints.hit("subtask.submitted")
        yield from journal.record(recorded, {"id": child})
    return Subtask(name, child, _end_signal(journal, child), prepared.returns)


def submit_subtasks(
    journal: Journal, prepared: Sequence[PreparedSubmission], name: str
) -> Operation[list[Subtask[Any]]]:
    """Submit many subtasks, up to 200 in one transaction, or find those of an earlier run."""
    recorded = f"subtasks:{name}"
    known = yield from journal.find(recorded, STEP)
    if known is not None and known.value["count"] != len(prepared):
        raise CodeChanged(
            f"{name!r} made {known.value['count']} subtasks in an earlier execution of this job, "
            f"and would make {len(prepared)} now. Compute the list in a step, so that it is the "
            "same in every execution."
        )
    made: list[Subtask[Any]] = []
    for number, each in enumerate(prepared):
        child = derived_id(journal.grant.job_id, f"{journal.prefix}{recorded}:{number}")
        made.append(Subtask(f"{name}-{number}", child, _end_signal(journal, child), each.returns))
    if known is None:
        pairs = list(zip(made, prepared, strict=True))
        commands = yield _made(
            journal, lambda: [_command(journal, subtask.id, each) for subtask, each in pairs]
        )
        for begin in range(0, len(commands), MAX_PER_TRANSACTION):
            yield from _execute_all(journal, commands[begin : begin + MAX_PER_TRANSACTION])
        yield from journal.record(recorded, {"count": len(prepared)})
    return made


def _execute_all(journal: Journal, commands: Sequence[c.Command]) -> Operation[None]:
    journal.require_lease()
    for result in (yield ExecuteCommands(commands, journal.grant, journal.run.held.expired)):
        if isinstance(result, Refused) and result.code == "stale_fence":
            raise journal.lost()
        if isinstance(result, DetentError) and result.code not in KNOWN_CHILD:
            raise result


def _made(journal: Journal, make: Callable[[], Any]) -> BlockingCall:
    """Make commands. The checks of a submission read the store."""
    return BlockingCall(lambda: retried(make, journal.run.held.expired))


def _command(
    journal: Journal, child: str, prepared: PreparedSubmission, not_before: str | None = None
) -> c.Command:
    """The command that submits a subtask: a task below a task, a job below a job."""
    held = journal.run.held
    options = prepared.options()
    lifecycle = None if held.task is None else held.task.lifecycle
    about = (prepared.intent, journal.client.actor, options, lifecycle)
    context = replace(journal.run.intent.app.context(*about), traceparent=journal.run.traceparent)
    given = {**prepared.given(), "not_before": not_before}
    if held.task is None:
        return subtask_of_job(context, held.job, child, given, options)
    return subtask_of_task(context, held.task, child, given, options)


def _end_signal(journal: Journal, child: str) -> str:
    return f"job:{child}" if journal.run.held.task is None else f"task:{child}"


# ---- waiting ---------------------------------------------------------------------------------


def gather_subtasks(
    journal: Journal, subtasks: Sequence[Subtask[Any]], name: str, *, outcomes: bool
) -> Operation[list[Any]]:
    """Wait until all subtasks have ended; their results in order, or their outcomes."""
    signals = [each.signal for each in subtasks]
    if not signals:
        return []
    needs = tuple(dict.fromkeys(signals))
    detail = {"outcomes": True} if outcomes else {}
    over = yield from wait(journal, name, "subtasks", needs=needs, detail=detail)
    ended = [SubtaskOutcome(**over["value"][each.signal]) for each in subtasks]
    if outcomes:
        return ended
    pairs = list(zip(subtasks, ended, strict=True))
    for each, end in pairs:
        if not end.succeeded:
            text = f"subtask {each.name} is {end.state}: {end.error or 'no error was recorded'}"
            raise SubtaskFailed(text, {each.name: end for each, end in pairs})
    return [fitted(end.result, each.returns) for each, end in pairs]
