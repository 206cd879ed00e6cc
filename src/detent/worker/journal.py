"""Durable execution: what a handler records, finds again and waits for. The rules of `run`.

Every operation is a generator (see `doing`); the two faces, Run and AsyncRun, are in `run`. A
function restarts from the top when it goes on, and finds what it has done by name.
"""

import contextlib
import hashlib
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from detent import failpoints
from detent.errors import DetentError, Invalid, Refused
from detent.kernel import commands as c
from detent.kernel import document_fields
from detent.kernel.entities import Checkpoint
from detent.submission.subtask import subtask_of_job, subtask_of_task
from detent.worker.active_run import Attempt, Stop
from detent.worker.arguments import returns_of
from detent.worker.effects import MISSING, NOT_DONE, policy_of, with_key
from detent.worker.engine_client import Line
from detent.worker.failures import CodeChanged, Expired, Stopped, SubtaskFailed, Suspended
from detent.worker.run_requests import Aside, Call, Doing, Tell, TellAll
from detent.worker.submission_order import Order
from detent.worker.subtasks import Subtask, SubtaskOutcome, derived_id
from detent.worker.values import fitted, storable

log = logging.getLogger("detent.worker")

LONGEST_NAME = 200
LONGEST_WAIT_S = 10 * 365 * 86_400
STEP, EFFECT, WAIT = "step", "effect", "wait"
#: How many subtasks are made in one transaction.
TOGETHER = 200
#: A subtask that an earlier try has made: its answer was lost, not the try.
KNOWN_CHILD = ("task_exists", "job_exists")


# ---- the journal ---------------------------------------------------------------------------


class Journal:
    """What one run has recorded and reached so far."""

    def __init__(self, attempt: Attempt, line: Line) -> None:
        self.attempt = attempt
        self.line = line
        self.grant = attempt.hold.grant
        #: Steps of a plan share their job's names, so each has a corner of its own.
        self.corner = corner_of(attempt)
        self.reached: set[str] = set()
        #: It has gone past what an earlier pass recorded.
        self.advanced = False
        self.suspension: Suspended | None = None
        self._recorded: dict[str, Checkpoint] | None = None

    # -- finding ---------------------------------------------------------------------------

    def check(self) -> None:
        """Every call on `run` passes here: a run that must end ends here."""
        if self.suspension is not None:
            raise self.suspension
        self.attempt.require_lease()
        self.attempt.sign()

    def find(self, name: str, kind: str) -> Doing[Checkpoint | None]:
        self.check()
        full = self.corner + document_fields.text(name, "name", LONGEST_NAME)
        if full in self.reached:
            raise Refused(
                f"the name {name!r} was used before in this pass of {self.attempt.intent.name}",
                code="name_used_twice",
            )
        self.reached.add(full)
        if self._recorded is None:
            self._recorded = (yield Aside(self._load)) if self._has_a_past() else {}
        known = self._recorded.get(full)
        if known is not None and known.kind != kind:
            raise CodeChanged(
                f"{name!r} was recorded as a {known.kind} by an earlier pass of this job, and is a "
                f"{kind} in the code that runs now. Give the {kind} another name."
            )
        self.advanced = self.advanced or known is None
        return known

    def _has_a_past(self) -> bool:
        """The first run of a job without a plan finds nothing, and need not look."""
        return self.attempt.step is not None or self.attempt.hold.job.runs > 1

    def _load(self) -> dict[str, Checkpoint]:
        with self.line.read() as view:
            found = view.job_checkpoints(self.grant.job_id)
            return {each.name: each for each in found if each.name.startswith(self.corner)}

    def _tell(self, command: c.Command, under: c.Grant | None = None) -> Doing[Any]:
        self._require_lease()
        try:
            return (yield Tell(command, under, self.attempt.hold.expired))
        except Refused as refusal:
            if refusal.code != "stale_fence":
                raise
        raise self._lost()

    def _require_lease(self) -> None:
        """Nothing is started or recorded under a lease that is over."""
        if self.attempt.stopped is Stop.LOST:
            raise self._lost()

    def _lost(self) -> Stopped:
        """Somebody else has the job: everything that runs for it here must end."""
        self.attempt.hold.stop(Stop.LOST)
        return Stopped(Stop.LOST)

    def record(self, name: str, value: Any) -> Doing[None]:
        step = None if self.attempt.step is None else self.attempt.step.name
        yield from self._tell(c.RecordCheckpoint(self.grant, self.corner + name, value, step))

    def unreached(self) -> list[str]:
        """Recorded names that this pass went past without reaching them."""
        if not self._recorded or not self.advanced:
            return []
        return sorted(name for name in self._recorded if name not in self.reached)

    def notice(self) -> Doing[None]:
        """Say, at the end of a pass, that something recorded is no longer in the code."""
        names = [] if self.attempt.stopped else self.unreached()
        if names:
            note = (
                f"recorded by an earlier pass and not reached by the code that runs now: "
                f"{', '.join(names)}. If a step was renamed, it has run again under its new name."
            )
            log.warning("run %s: %s", self.attempt.run_id, note)
            with contextlib.suppress(Refused, Stopped):
                yield from self._tell(c.ReportProgress(self.grant, self.attempt.run_id, None, note))

    # -- steps and effects -----------------------------------------------------------------

    def step(
        self, name: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Any
    ) -> Doing[Any]:
        """Executed once and remembered; the first pass sees the value as all later ones will."""
        known = yield from self.find(name, STEP)
        if known is not None:
            return fitted(known.value, returns_of(function))
        self._require_lease()
        value = yield Call(function, args, kwargs)
        plain = storable(value, f"the result of step {name!r}")
        failpoints.hit("step.done")
        yield from self.record(name, plain)
        failpoints.hit("step.recorded")
        return fitted(plain, returns_of(function))

    def effect(
        self,
        key: str,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: Any,
        policy: str,
        reconcile: Callable[..., Any] | None,
    ) -> Doing[Any]:
        """Begun, done and remembered; begun without a recorded end, its policy decides."""
        settle = policy_of(policy, reconcile)
        known = yield from self.find(key, EFFECT)
        if known is not None and known.done:
            return fitted(known.value, returns_of(function))
        if known is None:
            step = None if self.attempt.step is None else self.attempt.step.name
            yield from self._tell(c.BeginEffect(self.grant, self.corner + key, policy, step))
            failpoints.hit("effect.begun")
            value = NOT_DONE
        else:
            value = yield from settle(self, key, reconcile)
        if value is NOT_DONE:
            self._require_lease()
            value = yield Call(function, args, with_key(function, kwargs, self.effect_key(key)))
        plain = storable(value, f"the result of effect {key!r}")
        failpoints.hit("effect.done")
        yield from self.record(key, plain)
        return fitted(plain, returns_of(function))

    def effect_key(self, key: str) -> str:
        """The same in every attempt, and no other job's."""
        return f"{self.grant.job_id}:{self.corner}{key}"

    # -- waits -----------------------------------------------------------------------------

    def wait(
        self,
        name: str,
        kind: str,
        *,
        needs: Sequence[str] = (),
        timeout_s: float | None = None,
        detail: Mapping[str, Any] | None = None,
    ) -> Doing[Any]:
        """The outcome of a wait that is over; otherwise the run ends here, until it is."""
        known = yield from self.find(name, WAIT)
        if known is not None:
            return known.value
        due_at = None
        if timeout_s is not None:
            due_at = (yield Aside(self.line.now)) + _microseconds(timeout_s)
        step = self.attempt.step
        report = c.SuspendRun(
            self.grant,
            self.attempt.run_id,
            self.corner + name,
            kind,
            tuple(needs),
            due_at,
            detail or {},
            0 if step is None else step.hold_resource_ms * 1_000,
        )
        failpoints.hit("wait.before")
        self.suspension = Suspended(report)
        raise self.suspension

    def sleep(self, seconds: float, name: str) -> Doing[None]:
        yield from self.wait(name, "timer", timeout_s=seconds)

    def wait_for(
        self, signal: str, timeout_s: float | None, default: Any, name: str | None
    ) -> Doing[Any]:
        over = yield from self.wait(
            name or f"signal:{signal}", "signal", needs=(signal,), timeout_s=timeout_s
        )
        if over["outcome"] == "signalled":
            return over["value"][signal]
        if default is MISSING:
            named = "" if name is None else f" (wait {name!r})"
            raise Expired(f"no signal {signal!r} came within {timeout_s} s{named}")
        return default

    def ask(
        self,
        question: str,
        choices: Sequence[Any],
        timeout_s: float | None,
        default: Any,
        name: str,
        kind: str = "question",
        *,
        other: bool = False,
    ) -> Doing[Any]:
        detail = {"text": question, "options": storable(list(choices), "choices")}
        if other:
            detail["other"] = True
        if default is not MISSING:
            detail["default"] = storable(default, "default")
        over = yield from self.wait(name, kind, timeout_s=timeout_s, detail=detail)
        if over["outcome"] == "expired":
            raise Expired(f"nobody answered {question!r} within {timeout_s} s")
        return over["value"]

    # -- subtasks --------------------------------------------------------------------------

    def subtask(self, order: Order, name: str, not_before: str | None = None) -> Doing[Subtask]:
        """Made once: after a crash it is the same one, because its id follows from its name."""
        recorded = f"subtask:{name}"
        known = yield from self.find(recorded, STEP)
        child = derived_id(self.grant.job_id, self.corner + recorded)
        if known is None:
            command = self._submission(child, order, not_before)
            try:
                yield from self._tell(command, self.grant)
            except Refused as refusal:
                if refusal.code not in KNOWN_CHILD:
                    raise
            failpoints.hit("subtask.submitted")
            yield from self.record(recorded, {"id": child})
        return Subtask(name, child, self._signal(child), order.returns)

    def subtasks(self, orders: Sequence[Order], name: str) -> Doing[list[Subtask]]:
        """Many at once, a transaction for some hundreds; after a crash they are the same ones."""
        recorded = f"subtasks:{name}"
        known = yield from self.find(recorded, STEP)
        if known is not None and known.value["count"] != len(orders):
            raise CodeChanged(
                f"{name!r} made {known.value['count']} subtasks in an earlier pass of this job, "
                f"and would make {len(orders)} now. What they are made from belongs into a step."
            )
        made = []
        for number, order in enumerate(orders):
            child = derived_id(self.grant.job_id, f"{self.corner}{recorded}:{number}")
            made.append(Subtask(f"{name}-{number}", child, self._signal(child), order.returns))
        if known is None:
            commands = [
                self._submission(each.id, order) for each, order in zip(made, orders, strict=True)
            ]
            for begin in range(0, len(commands), TOGETHER):
                yield from self._submit_all(commands[begin : begin + TOGETHER])
            yield from self.record(recorded, {"count": len(orders)})
        return made

    def _submit_all(self, commands: Sequence[c.Command]) -> Doing[None]:
        self._require_lease()
        for result in (yield TellAll(commands, self.grant, self.attempt.hold.expired)):
            if isinstance(result, Refused) and result.code == "stale_fence":
                raise self._lost()
            if isinstance(result, DetentError) and result.code not in KNOWN_CHILD:
                raise result

    def _submission(self, child: str, order: Order, not_before: str | None = None) -> c.Command:
        """The command that makes a subtask: a task below a task, else a job below a job."""
        hold = self.attempt.hold
        options = order.options()
        context = self.attempt.intent.app.context(order.intent, self.line.actor, options)
        given = {**order.given(), "not_before": not_before}
        if hold.task is None:
            return subtask_of_job(context, hold.job, child, given, options)
        return subtask_of_task(context, hold.task, child, given, options)

    def _signal(self, child: str) -> str:
        """What tells the end of a subtask."""
        return f"job:{child}" if self.attempt.hold.task is None else f"task:{child}"

    def gather(self, subtasks: Sequence[Subtask], name: str, *, outcomes: bool) -> Doing[list[Any]]:
        """The results in order; a failed one raises, unless the outcomes are wanted."""
        signals = [each.signal for each in subtasks]
        if not signals:
            return []
        needs = tuple(dict.fromkeys(signals))
        detail = {"outcomes": True} if outcomes else {}
        over = yield from self.wait(name, "subtasks", needs=needs, detail=detail)
        ended = [SubtaskOutcome(**over["value"][each.signal]) for each in subtasks]
        if outcomes:
            return ended
        bad = [each.name for each, end in zip(subtasks, ended, strict=True) if not end.succeeded]
        if bad:
            by_name = {each.name: end for each, end in zip(subtasks, ended, strict=True)}
            first = by_name[bad[0]]
            text = f"subtask {bad[0]} is {first.state}: {first.error or 'no error was recorded'}"
            raise SubtaskFailed(text, by_name)
        return [fitted(end.result, each.returns) for each, end in zip(subtasks, ended, strict=True)]

    # -- on the way ------------------------------------------------------------------------

    def progress(self, fraction: float | None, note: str | None) -> Doing[None]:
        self.check()
        if fraction is not None and not (isinstance(fraction, int | float) and 0 <= fraction <= 1):
            raise Invalid(
                f"progress must be from 0 to 1, not {fraction!r}.",
                field="progress",
                given=fraction,
                hint="Words go into the note: run.progress(note=…).",
            )
        run_id = self.attempt.run_id
        yield from self._tell(c.ReportProgress(self.grant, run_id, fraction, note))

    def log(self, text: str) -> Doing[None]:
        self.check()
        yield Aside(lambda: self.attempt.files.write(text if text.endswith("\n") else f"{text}\n"))

    def evidence(self, name: str, content: Any) -> Doing[None]:
        self.check()
        kept = yield Aside(lambda: self.attempt.files.keep(name, content))
        failpoints.hit("evidence.archived")
        yield from self._tell(c.AddEvidence(self.grant, self.attempt.run_id, *kept))


# ---- small things --------------------------------------------------------------------------


def corner_of(attempt: Attempt) -> str:
    """The prefix of a step's names: its own name, and a mark of its work when that is not all.

    A later plan version with the same step and the same input finds what the step has done; with
    another input it is other work.
    """
    step = attempt.step
    if step is None:
        return ""
    work = [step.intent if step.intent != step.name else None, step.input]
    if work == [None, None]:
        return f"{step.name}/"
    text = repr(storable(work, "input"))
    return f"{step.name}~{hashlib.sha256(text.encode()).hexdigest()[:8]}/"


def _microseconds(seconds: float) -> int:
    if isinstance(seconds, bool) or not 0 <= seconds <= LONGEST_WAIT_S:
        raise Invalid(
            f"a wait lasts from 0 to {LONGEST_WAIT_S} seconds, not {seconds!r}.",
            field="seconds",
            given=seconds,
        )
    return round(seconds * 1_000_000)
