"""What a worker holds: claimed jobs, and the runs of them, each of which can be told to stop."""

from collections.abc import Callable, Mapping
from enum import StrEnum
from time import monotonic
from typing import TYPE_CHECKING, Any

from detent.clock import since_boot_s
from detent.engine import Claimed
from detent.kernel.entities import Job, Task
from detent.kernel.plan import PlanStep
from detent.worker.failures import Stopped

if TYPE_CHECKING:
    from detent.worker.intent import Intent
    from detent.worker.run_files import RunFiles


GRACE_S = 10.0


class Stop(StrEnum):
    """Why a run must end before it is done."""

    CANCEL = "cancel"
    LOST = "lost"
    RUN_LIMIT = "run"
    IDLE_LIMIT = "idle"
    HAND_BACK = "hand_back"


def outweighs(why: Stop, before: Stop | None) -> bool:
    """The first reason counts, but a lost lease outweighs every other one."""
    return before is None or (why is Stop.LOST and before is not Stop.LOST)


class Hold:
    """A job in this worker's hands, with everything that runs for it."""

    __slots__ = (
        *("_stopped", "attempts", "claimed_s", "ends_s", "grant", "job", "payload", "plan", "task"),
    )

    def __init__(self, claimed: Claimed, ends_s: float = float("inf")) -> None:
        self.grant = claimed.grant
        self.job: Job = claimed.job
        self.task: Task | None = claimed.task
        self.payload: Any = claimed.payload
        self.claimed_s = monotonic()
        #: When its lease ends by this machine's own clock, `since_boot_s`, unless it is renewed.
        self.ends_s = ends_s
        #: Live attempts by run id; several only for a plan.
        self.attempts: dict[str, Attempt] = {}
        #: The driver of its plan, if it has one.
        self.plan: Any = None
        self._stopped: Stop | None = None

    def expired(self) -> bool:
        """Its lease is over, whatever the store knows: another worker may have the job."""
        return since_boot_s() >= self.ends_s

    @property
    def stopped(self) -> Stop | None:
        """Why everything that runs for it must end. Under a lease that is over nothing starts."""
        return Stop.LOST if self.expired() else self._stopped

    def is_live(self) -> bool:
        """Something still runs for it, or its plan goes on."""
        return bool(self.attempts) or (self.plan is not None and not self.plan.over)

    def stop(self, why: Stop) -> None:
        """Tell everything that runs for the job to end."""
        if outweighs(why, self._stopped):
            self._stopped = why
            for attempt in list(self.attempts.values()):
                attempt.stop(why)


class Attempt:
    """One run to carry out."""

    __slots__ = (
        *("hold", "run_id", "intent", "payload", "number", "step", "results", "resource", "files"),
        *("stopped_s", "started_s", "sign_s", "run_s", "idle_s", "grace_s"),
        *("_on_stop", "_open", "_stopped"),
    )

    def __init__(
        self,
        hold: Hold,
        run_id: str,
        intent: "Intent[..., Any]",
        files: "RunFiles",
        *,
        payload: Any = None,
        number: int = 1,
        step: PlanStep | None = None,
        results: Mapping[str, Any] | None = None,
        resource: str | None = None,
    ) -> None:
        self.hold, self.run_id, self.intent, self.files = hold, run_id, intent, files
        self.payload, self.number = payload, number
        self.step, self.results, self.resource = step, results, resource
        self._stopped: Stop | None = None
        self.stopped_s = 0.0
        #: Between asking a process to end and making it.
        self.grace_s = GRACE_S
        self.started_s: float | None = None
        #: When it last gave a sign of life: output, progress, a checkpoint.
        self.sign_s = 0.0
        self.run_s, self.idle_s = limits_of(hold.job, intent, step)
        self._on_stop: Callable[[Stop], None] | None = None
        self._open = [True]
        hold.attempts[run_id] = self
        if hold.stopped is not None:
            self.stop(hold.stopped)

    def start(self) -> None:
        self.started_s = self.sign_s = monotonic()

    def sign(self) -> None:
        self.sign_s = monotonic()

    @property
    def stopped(self) -> Stop | None:
        """Why it must end; also when its lease is over and nobody has asked it yet."""
        return Stop.LOST if self.hold.expired() else self._stopped

    def require_lease(self) -> None:
        """Raise Stopped if the run must end: called right before something is started."""
        why = self.stopped
        if why is not None:
            raise Stopped(why)

    def stop(self, why: Stop) -> None:
        """Ask it to end."""
        if outweighs(why, self._stopped):
            self._stopped = why
            self.stopped_s = monotonic()
            if self._on_stop is not None:
                self._on_stop(why)

    def on_stop(self, act: Callable[[Stop], None]) -> None:
        """What ends the work when it must stop; called at once if it must already, maybe twice."""
        self._on_stop = act
        why = self.stopped
        if why is not None:
            act(why)

    def end(self) -> bool:
        """True for whoever ends it first, and only then: one run has one report."""
        try:
            self._open.pop()
        except IndexError:
            return False
        self.hold.attempts.pop(self.run_id, None)
        return True

    @property
    def ended(self) -> bool:
        return not self._open


def limits_of(
    job: Job, intent: "Intent[..., Any]", step: PlanStep | None
) -> tuple[float | None, float | None]:
    """Limits in seconds, whole and without a sign of life: what was said nearest counts."""
    options = job.options
    run_ms = (step and step.timeout_ms) or options.get("run_timeout_ms") or intent.run_timeout_ms
    idle_ms = options.get("idle_timeout_ms") or intent.idle_timeout_ms
    return (run_ms / 1_000 if run_ms else None), (idle_ms / 1_000 if idle_ms else None)
