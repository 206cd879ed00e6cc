"""The types that the modules of the worker share: HeldJob, ActiveRun, Runner and HeldPlan.

A claimed job is a HeldJob until it leaves the worker. Each run that the worker executes for it is
an ActiveRun. A Runner executes one kind of handler. They are in one module because each refers to
the others.
"""

from collections.abc import Callable, Mapping
from time import monotonic
from typing import Any, NamedTuple, Protocol

from detent.app.failures import Stopped
from detent.app.intent import Intent
from detent.app.run_interface import Stop
from detent.boot_time import since_boot_s
from detent.engine import Claimed
from detent.kernel.commands import Report
from detent.kernel.entities import Job, Task
from detent.kernel.plan import PlanStep, is_whole_job
from detent.kernel.traceparent import run_traceparent
from detent.worker.engine_client import EngineClient
from detent.worker.run_files import RunFiles

GRACE_S = 10.0


class Runner(Protocol):
    """Executes runs of one intent, many at the same time.

    A runner whose run must stop (`run.on_stop`) ends it soon.
    """

    #: Whether runs are awaited on the event loop of the worker instead of using a thread.
    asynchronous: bool
    #: Whether a run certainly ends when it is stopped; if not, the worker abandons it, fenced.
    stoppable: bool

    def execute(self, run: "ActiveRun", client: EngineClient) -> Report:
        """Execute the run and return its report; blocks until the run has ended."""

    async def execute_async(self, run: "ActiveRun", client: EngineClient) -> Report:
        """Execute the run and return its report."""


#: Makes the files of a run of a held job, by the id of the run.
MakeFiles = Callable[["HeldJob", str], RunFiles]


class PlanWork(NamedTuple):
    """What the worker must execute next for a plan."""

    runs: tuple["ActiveRun", ...] = ()
    #: Whether the planner must be called.
    planner: bool = False


class HeldPlan(Protocol):
    """The plan of a held job: decides which plan steps start (`plan_runner` implements it)."""

    held: "HeldJob"
    #: Whether the job has left this worker.
    over: bool
    #: Whether a plan step without a run may start later, so that the plan must be checked again.
    pending: bool

    def advance(self) -> PlanWork: ...

    def make_plan(self) -> PlanWork: ...

    def ended(self, run: "ActiveRun", report: Report | None) -> PlanWork: ...

    def hand_back(self) -> None: ...


def outweighs(why: Stop, before: Stop | None) -> bool:
    """The first reason to stop counts, but a lost lease replaces every other reason."""
    return before is None or (why is Stop.LOST and before is not Stop.LOST)


class HeldJob:
    """A job that this worker has claimed, with its lease and its runs."""

    __slots__ = (
        *("_stopped", "claimed_s", "ends_s", "grant", "job", "payload", "plan", "runs", "task"),
    )

    def __init__(self, claimed: Claimed, ends_s: float = float("inf")) -> None:
        self.grant = claimed.grant
        self.job: Job = claimed.job
        self.task: Task | None = claimed.task
        self.payload: Any = claimed.payload
        self.claimed_s = monotonic()
        #: When the lease ends by this machine's own clock, `since_boot_s`, unless it is renewed.
        self.ends_s = ends_s
        #: Live runs by id; several only for a plan.
        self.runs: dict[str, ActiveRun] = {}
        #: Its plan, if it has one.
        self.plan: HeldPlan | None = None
        self._stopped: Stop | None = None

    def expired(self) -> bool:
        """Whether the lease has ended by this machine's clock: another worker may have the job."""
        return since_boot_s() >= self.ends_s

    @property
    def stopped(self) -> Stop | None:
        """Why its runs must end, None if they may go on. Nothing starts under an expired lease."""
        return Stop.LOST if self.expired() else self._stopped

    def is_live(self) -> bool:
        """Whether a run is active, or the plan has not ended."""
        return bool(self.runs) or (self.plan is not None and not self.plan.over)

    def stop(self, why: Stop) -> None:
        """Stop all runs of the job."""
        if outweighs(why, self._stopped):
            self._stopped = why
            for run in list(self.runs.values()):
                run.stop(why)


class ActiveRun:
    """One run that this worker executes: of a job, or of a plan step."""

    __slots__ = (
        *("held", "run_id", "intent", "runner", "payload", "attempt", "step", "results"),
        *("resource", "files", "stopped_s", "started_s", "active_s", "run_s", "idle_s", "grace_s"),
        *("_on_stop", "_ended", "_stopped"),
    )

    def __init__(
        self,
        held: HeldJob,
        run_id: str,
        intent: Intent[..., Any],
        files: RunFiles,
        *,
        runner: Runner | None = None,
        payload: Any = None,
        attempt: int = 1,
        step: PlanStep | None = None,
        results: Mapping[str, Any] | None = None,
        resource: str | None = None,
    ) -> None:
        self.held, self.run_id, self.intent, self.files = held, run_id, intent, files
        #: None if this worker has no handler for the intent.
        self.runner = runner
        self.payload, self.attempt = payload, attempt
        self.step, self.results, self.resource = step, results, resource
        self._stopped: Stop | None = None
        self.stopped_s = 0.0
        #: How long a process may take to end after SIGTERM, before SIGKILL.
        self.grace_s = GRACE_S
        self.started_s: float | None = None
        #: When it was last active: output, progress, a checkpoint.
        self.active_s = 0.0
        self.run_s, self.idle_s = limits_of(held.job, intent, step)
        self._on_stop: Callable[[Stop], None] | None = None
        self._ended = False
        held.runs[run_id] = self
        if held.stopped is not None:
            self.stop(held.stopped)

    @property
    def whole_job(self) -> bool:
        """Whether the run does all the work of its job: its step, if any, is the only one."""
        return self.step is None or is_whole_job(self.held.job)

    @property
    def traceparent(self) -> str | None:
        """The trace context for what the run starts or submits."""
        job, exported = self.held.job, self.intent.app.installation().settings.traces_enabled
        owner = job.task_id or job.id
        return run_traceparent(job.options, owner, self.run_id, exported=exported)

    def start(self) -> None:
        """Note that the execution begins now."""
        self.started_s = self.active_s = monotonic()

    def record_activity(self) -> None:
        """Note that the run is active, for its idle limit."""
        self.active_s = monotonic()

    @property
    def stopped(self) -> Stop | None:
        """Why the run must end, None if it may go on; LOST as soon as the lease has expired."""
        return Stop.LOST if self.held.expired() else self._stopped

    def require_lease(self) -> None:
        """Raise Stopped if the run must end. Call it right before something is started."""
        why = self.stopped
        if why is not None:
            raise Stopped(why)

    def stop(self, why: Stop) -> None:
        """Tell the run to end."""
        if outweighs(why, self._stopped):
            self._stopped = why
            self.stopped_s = monotonic()
            if self._on_stop is not None:
                self._on_stop(why)

    def on_stop(self, callback: Callable[[Stop], None]) -> None:
        """Set what ends the work. Called immediately if the run must end; may be called twice."""
        self._on_stop = callback
        why = self.stopped
        if why is not None:
            callback(why)

    def end(self) -> bool:
        """Mark the run as ended. True for the first caller only: a run has one report.

        Only one of several threads can remove it from the runs of its job.
        """
        self._ended = True
        return self.held.runs.pop(self.run_id, None) is not None

    @property
    def ended(self) -> bool:
        return self._ended


def limits_of(
    job: Job, intent: Intent[..., Any], step: PlanStep | None
) -> tuple[float | None, float | None]:
    """The run limit and the idle limit in seconds: of the plan step, the job, or the intent."""
    options = job.options
    run_ms = (step and step.timeout_ms) or options.get("run_timeout_ms") or intent.run_timeout_ms
    idle_ms = options.get("idle_timeout_ms") or intent.idle_timeout_ms
    return (run_ms / 1_000 if run_ms else None), (idle_ms / 1_000 if idle_ms else None)
