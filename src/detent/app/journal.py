"""The journal of a run: the checkpoints that a handler records and finds again by name.

A handler restarts from the top when its job continues. Each operation of `run` looks for a
checkpoint with its name first; if there is one, the operation returns what was recorded. Waits are
in `waits`, effects in `effects`, subtasks in `subtasks`; `run_context` has the methods of `run`.
"""

import contextlib
import hashlib
import logging
from collections import Counter
from collections.abc import Callable
from typing import Any

from detent import failpoints
from detent.app.arguments import returns_of
from detent.app.charges import Charges
from detent.app.failures import CodeChanged, Stopped, Suspended
from detent.app.run_interface import CurrentRun, EngineConnection, Stop
from detent.app.run_operations import BlockingCall, Call, ExecuteCommand, Operation
from detent.app.values import fitted, storable
from detent.errors import Invalid, Refused
from detent.kernel import commands as c
from detent.kernel import document_fields
from detent.kernel.entities import Checkpoint

log = logging.getLogger("detent.worker")

LONGEST_NAME = 200
STEP, EFFECT, WAIT = "step", "effect", "wait"


class Journal:
    """The checkpoints of a job, as one run of its handler reads and extends them."""

    def __init__(self, run: CurrentRun, client: EngineConnection) -> None:
        self.run = run
        self.client = client
        self.grant = run.held.grant
        #: Plan steps share the checkpoints of their job, so the names of each have a prefix.
        self.prefix = prefix_of(run)
        #: Names that the handler has used so far in this run.
        self.reached: set[str] = set()
        #: Whether the handler has passed the last recorded checkpoint.
        self.advanced = False
        #: Prefixes of names that an execution need not use again.
        self.optional: set[str] = set()
        self.suspension: Suspended | None = None
        #: What the run has spent and may still spend.
        self.charges = Charges()
        self._ordinals: Counter[str] = Counter()
        self._recorded: dict[str, Checkpoint] | None = None

    # -- finding ---------------------------------------------------------------------------

    def check(self) -> None:
        """Raise if the run is suspended or must end. Every method of `run` calls this first."""
        if self.suspension is not None:
            raise self.suspension
        self.run.require_lease()
        self.run.record_activity()

    def find(self, name: str, kind: str) -> Operation[Checkpoint | None]:
        """The checkpoint of that name, None if the job has not recorded it yet."""
        self.check()
        full = self.prefix + document_fields.text(name, "name", LONGEST_NAME)
        if full in self.reached:
            raise Refused(
                f"the name {name!r} was used before in this execution of {self.run.intent.name}. "
                "Give each step, effect, wait and subtask a name of its own",
                code="name_used_twice",
            )
        self.reached.add(full)
        if self._recorded is None:
            self._recorded = (
                (yield BlockingCall(self._load)) if self._may_have_checkpoints() else {}
            )
        known = self._recorded.get(full)
        if known is not None and known.kind != kind:
            raise CodeChanged(
                f"{name!r} was recorded as {_with_article(known.kind)} by an earlier execution of "
                f"this job, and is {_with_article(kind)} in the present code. "
                f"Give the {kind} another name."
            )
        self.advanced = self.advanced or known is None
        return known

    def numbered(self, key: str) -> str:
        """The next name of a call that a handler makes several times: its key and an ordinal.

        The names are the same in every execution if calls with the same key are made in the same
        order. The end of a long key is replaced by its digest.
        """
        self._ordinals[key] += 1
        return self._numbered(key)

    def _numbered(self, key: str) -> str:
        number = f"#{self._ordinals[key]}"
        if len(key) + len(number) > LONGEST_NAME:
            digest = hashlib.sha256(key.encode()).hexdigest()[:16]
            key = f"{key[: LONGEST_NAME - len(number) - len(digest) - 1]}~{digest}"
        return key + number

    def number_again(self, name: str, key: str) -> None:
        """Let the next call have this name, of a call that has recorded nothing."""
        if self._numbered(key) == name:  # no other call has been numbered since
            self._ordinals[key] -= 1
            self.reached.discard(self.prefix + name)

    def _may_have_checkpoints(self) -> bool:
        """False for the first run of a job without a plan: it has recorded nothing."""
        return self.run.step is not None or self.run.held.job.runs > 1

    def _load(self) -> dict[str, Checkpoint]:
        found = self.client.query(
            lambda view: list(view.job_checkpoints(self.grant.job_id)), self.run.held.expired
        )
        return {each.name: each for each in found if each.name.startswith(self.prefix)}

    # -- recording -------------------------------------------------------------------------

    def execute(self, command: c.Command, grant: c.Grant | None = None) -> Operation[Any]:
        """Execute a command while the lease is valid; raise Stopped if the lease is lost."""
        self.require_lease()
        try:
            return (yield ExecuteCommand(command, grant, self.run.held.expired))
        except Refused as refusal:
            if refusal.code != "stale_fence":
                raise
        raise self.lost()

    def require_lease(self) -> None:
        """Raise Stopped if the lease is lost: nothing may be started or recorded without it."""
        if self.run.stopped is Stop.LOST:
            raise self.lost()

    def lost(self) -> Stopped:
        """Stop everything that runs for the job here: another worker may have claimed it."""
        self.run.held.stop(Stop.LOST)
        return Stopped(Stop.LOST)

    def record(self, name: str, value: Any) -> Operation[None]:
        """Record a checkpoint."""
        yield from self.execute(
            c.RecordCheckpoint(self.grant, self.prefix + name, value, self.step_name)
        )

    @property
    def step_name(self) -> str | None:
        """The plan step that this run executes, None for a job without a plan."""
        return None if self.run.step is None else self.run.step.name

    def step(
        self, name: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Any
    ) -> Operation[Any]:
        """Call the function and record its result, or return the recorded result.

        The first execution returns the value as it was stored, as all later ones do.
        """
        known = yield from self.find(name, STEP)
        if known is not None:
            return fitted(known.value, returns_of(function))
        self.require_lease()
        value = yield Call(function, args, kwargs)
        plain = storable(value, f"the result of step {name!r}")
        failpoints.hit("step.done")
        yield from self.record(name, plain)
        failpoints.hit("step.recorded")
        return fitted(plain, returns_of(function))

    # -- changed code ----------------------------------------------------------------------

    def unreached(self) -> list[str]:
        """Recorded names that this execution has passed without using them."""
        if not self._recorded or not self.advanced:
            return []
        optional = tuple(self.prefix + each for each in self.optional)
        unused = self._recorded.keys() - self.reached
        return sorted(name for name in unused if not name.startswith(optional))

    def report_unreached(self) -> Operation[None]:
        """Warn, at the end of a run, that the present code no longer uses a recorded name."""
        names = [] if self.run.stopped else self.unreached()
        if names:
            note = (
                f"recorded by an earlier execution and not used by the present code: "
                f"{', '.join(names)}. A renamed step is executed again under its new name."
            )
            log.warning("run %s: %s", self.run.run_id, note)
            with contextlib.suppress(Refused, Stopped):
                yield from self.execute(c.ReportProgress(self.grant, self.run.run_id, None, note))

    # -- progress, output, evidence --------------------------------------------------------

    def progress(self, fraction: float | None, note: str | None) -> Operation[None]:
        """Report how much of the work is done, from 0 to 1, and a note."""
        self.check()
        if fraction is not None and not (isinstance(fraction, int | float) and 0 <= fraction <= 1):
            raise Invalid(
                f"progress must be a number from 0 to 1, not {fraction!r}.",
                field="progress",
                given=fraction,
                hint="Pass text as the note: run.progress(note=…).",
            )
        yield from self.execute(c.ReportProgress(self.grant, self.run.run_id, fraction, note))

    def log(self, text: str) -> Operation[None]:
        """Append a line to the output of the run."""
        self.check()
        line = text if text.endswith("\n") else f"{text}\n"
        yield BlockingCall(lambda: self.run.files.write(line))

    def evidence(self, name: str, content: Any) -> Operation[None]:
        """Store a file and record it as evidence of the run."""
        self.check()
        kept = yield BlockingCall(lambda: self.run.files.keep(name, content))
        failpoints.hit("evidence.archived")
        yield from self.execute(c.AddEvidence(self.grant, self.run.run_id, *kept))


def prefix_of(run: CurrentRun) -> str:
    """The prefix of a plan step's names: its name, and a digest of its work if it has an input.

    A later plan version with the same step and the same input finds what the step has recorded;
    with another input it is other work and starts without checkpoints.
    """
    step = run.step
    if step is None:
        return ""
    work = [step.intent if step.intent != step.name else None, step.input]
    if work == [None, None]:
        return f"{step.name}/"
    text = repr(storable(work, "input"))
    return f"{step.name}~{hashlib.sha256(text.encode()).hexdigest()[:8]}/"


def _with_article(kind: str) -> str:
    return f"an {kind}" if kind == EFFECT else f"a {kind}"
