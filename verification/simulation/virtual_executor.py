"""How a virtual worker executes a plan: with `PlanRun`, which real workers use too.

The auditor sees each of its commands. Others act between its commands, and between what the steps
do.
"""

from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zlib import crc32

from detent.app.retried_calls import never
from detent.app.run_interface import Stop
from detent.engine import Claimed, CommandRequest
from detent.errors import DetentError, Unavailable
from detent.kernel import commands as c
from detent.store.port import ReadTransaction
from detent.worker.active_run import ActiveRun, HeldJob, PlanWork
from detent.worker.critic import UNKNOWN_CRITIC
from detent.worker.engine_client import EngineClient
from detent.worker.plan_runner import NOTHING, PlanRun
from detent.worker.run_files import RunFiles
from detent.worker.runners.registry import Runners
from verification.simulation.planned_work import APPS, PROVIDER_NAMES, script
from verification.simulation.time_records import Leases
from verification.simulation.virtual_process import Process

if TYPE_CHECKING:
    from verification.simulation.virtual_worker import Worker

#: A critic's words on a run that ended well, and the classes by which others fail.
WORDS = (
    "retry",
    "switch_resource",
    "switch_resource",
    *("replan",) * 4,
    "needs_user",
    "perhaps",
    UNKNOWN_CRITIC,
)
CLASSES = ("error", "network", "rate_limit", "resource", "resource", "needs_user")
LONGEST_NAP_US = 30_000_000
LONGEST_LIMIT_US = 60_000_000
#: How often others act before the driver tells something, and how often it is stopped then for
#: longer than its lease.
BETWEEN, STOPPED = 0.2, 0.2
#: How often there is a pause after one thing that a step did: with one after each, hardly a plan
#: would come to its second step before its lease has run out.
PAUSE = 0.3
#: One in this many plans is carried out by a worker that reads its own clock.
LOOKING = 3


class AuditedEngineClient(EngineClient):
    """Tells the engine what the driver wants to tell; others may act before each time."""

    def __init__(self, process: Process, leases: Leases | None) -> None:
        super().__init__(process.engine, process.name)
        self.process, self.leases = process, leases

    def read(self) -> AbstractContextManager[ReadTransaction]:
        self.process.store.begin()
        return super().read()

    def execute(
        self,
        command: c.Command,
        grant: c.Grant | None = None,
        lease_over: Callable[[], bool] = never,
    ) -> Any:
        if isinstance(command, c.StartStep) and self.leases is not None:
            self.leases.require(command.grant, f"step {command.step} was started, a step")
        while True:
            if self.process.faults.rng.random() < BETWEEN:
                self.process.faults.between(STOPPED)
            (result,) = self.process.ask(CommandRequest(command, self.process.actor(), grant=grant))
            if isinstance(result, Unavailable) and not lease_over():
                continue
            if isinstance(result, DetentError):
                raise result
            return result.value


class PlanExecution:
    """One claimed job with a plan, until it leaves the worker's hands."""

    def __init__(self, worker: "Worker", claimed: Claimed) -> None:
        self.worker, self.rng, self.process = worker, worker.rng, worker.process
        self.claimed = claimed
        #: Some read their own clock. The others are as one that is stopped between the look and
        #: what follows, for whom the fence is all there is.
        looks = crc32(repr(claimed.grant).encode()) % LOOKING == 0
        self.leases = worker.leases if looks else None
        self.held = HeldJob(claimed, worker.leases.ends_s(claimed.grant) if looks else float("inf"))
        app = APPS[self.process.abilities]
        self.plan = PlanRun(
            self.held, app, AuditedEngineClient(self.process, self.leases), _files, Runners()
        )

    def life(self) -> Iterator[None]:
        """Until it is over; a worker lets go of what it cannot report before its lease ends."""
        try:
            yield from self._life()
        except Unavailable:
            if not self.held.expired():
                raise

    def _life(self) -> Iterator[None]:
        live: dict[str, tuple[ActiveRun, Generator[None, None, c.Report | None]]] = {}
        work = self.plan.advance()
        yield
        while True:
            for run in work.runs:
                live[run.run_id] = (run, self._step(run))
            if work.planner:
                work = self.plan.make_plan()
                yield
                continue
            if not live or not self._still_at_it():
                return
            work = self._go_on(live)
            if self.rng.random() < PAUSE:
                yield

    def _go_on(
        self, live: dict[str, tuple[ActiveRun, Generator[None, None, c.Report | None]]]
    ) -> PlanWork:
        """One step does its next thing; sometimes the plan is checked as well."""
        if self.plan.pending and self.rng.random() < 0.2:
            return self.plan.advance()
        run_id = self.rng.choice(list(live))
        run, doing = live[run_id]
        try:
            next(doing)
        except StopIteration as ended:
            del live[run_id]
            return self.plan.ended(run, ended.value)
        return NOTHING

    def _still_at_it(self) -> bool:
        """Heartbeats, wishes to cancel, a stop of the worker; False: it forgets the job, or has
        given it back."""
        calm = self.worker.calm
        drawn = 0.4 if calm else self.rng.random()
        if drawn < 0.35:
            self._beat()
        elif drawn < 0.5:
            if self.process.cancel_wanted(self.held.job.id):
                self.held.stop(Stop.CANCEL)
        elif drawn < 0.51:
            self.plan.hand_back()
            return False
        return calm or drawn < 0.985

    def _beat(self) -> None:
        if self.held.expired():
            return
        with suppress(Unavailable):
            kept = self.worker.renew(self.worker.hands)
            if self.leases is not None:
                self.held.ends_s = self.leases.ends_s(self.held.grant)
            if self.held.grant[:2] not in kept and self.rng.random() < 0.5:
                self.held.stop(Stop.LOST)  # otherwise it has not noticed: its reports are refused

    # -- a step ----------------------------------------------------------------------------

    def _step(self, run: ActiveRun) -> Generator[None, None, c.Report | None]:
        """What one run of a step does; the report of its end, None if there is none to make."""
        grant, run_id, step = self.held.grant, run.run_id, run.step
        assert step is not None
        version, done = self.process.found(grant.job_id)
        for act in script(grant.job_id, version, step.name):
            yield
            if run.stopped is not None:
                return self._stopped(run.stopped)
            if act == "effect":
                if self.leases is not None:
                    self.leases.require(grant, f"step {step.name} had an effect, a step")
                self.process.auditor.performed_step(grant, run_id, step.name, run.resource)
            elif act == "spend":
                report = yield from self.worker.spend(self.claimed, run_id)
                if report is not None:
                    return report
            elif f"{act}:{step.name}:{version}" not in done:
                return self._nap(run, act, version)
        yield
        return self._stopped(run.stopped) if run.stopped else self._end(run)

    def _stopped(self, why: Stop) -> c.Report | None:
        reports = {Stop.CANCEL: c.ConfirmCancel, Stop.HAND_BACK: c.HandBack}
        return reports[why](self.held.grant) if why in reports else None

    def _nap(self, run: ActiveRun, kind: str, version: int) -> c.SuspendRun:
        step = run.step
        assert step is not None
        name = f"{kind}:{step.name}:{version}"
        until = self.process.now() + self.rng.randrange(LONGEST_NAP_US)
        return c.SuspendRun(
            *(self.held.grant, run.run_id, name, kind),
            needs=(f"go-{name}",) if kind == "signal" else (),
            due_at=until if kind == "timer" or self.rng.random() < 0.3 else None,
            hold_resource_us=step.hold_resource_ms * 1_000,
        )

    def _end(self, run: ActiveRun) -> c.Report:
        grant, run_id = self.held.grant, run.run_id
        drawn = 0.0 if self.worker.calm else self.rng.random()
        if run.resource in PROVIDER_NAMES and not self.worker.calm:
            return self._end_with_provider(run_id)
        if drawn < 0.6:
            return c.CompleteRun(grant, run_id, run_id, decision=self.rng.choice((None, "accept")))
        if drawn < 0.8:
            return c.CompleteRun(grant, run_id, run_id, decision=self.rng.choice(WORDS))
        word = self.rng.choice(WORDS) if self.rng.random() < 0.3 else None
        if drawn < 0.97:
            error_class = self.rng.choice(CLASSES)
            return c.FailRun(grant, run_id, error_class, "it failed", decision=word)
        return c.TimeOutRun(grant, run_id, decision=word)

    def _end_with_provider(self, run_id: str) -> c.Report:
        """Providers often fail: more than half of their runs end with a failure of theirs."""
        grant, drawn = self.held.grant, crc32(f"{run_id}/end".encode()) % 8
        if drawn < 2:
            return c.FailRun(grant, run_id, "network", "it failed")
        if drawn < 4:
            reset_at = self._reset_at(run_id)
            return c.FailRun(grant, run_id, "rate_limit", "it failed", reset_at=reset_at)
        if drawn < 5:
            return c.TimeOutRun(grant, run_id, limit="idle")
        return c.CompleteRun(grant, run_id, run_id)

    def _reset_at(self, run_id: str) -> int | None:
        """Some limits state no reset, some one in the past, and one in a year that is far away."""
        drawn = crc32(run_id.encode())
        near = self.process.now() + drawn % LONGEST_LIMIT_US - LONGEST_LIMIT_US // 4
        return (near, near, None, near + 10**15)[drawn % 4]


def _files(_: HeldJob, run_id: str) -> RunFiles:
    """Nothing is ever written: files are made when a run first leaves something behind."""
    return RunFiles(Path("runs"), run_id)
