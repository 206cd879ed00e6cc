"""One process of the simulation: its own engine on its own store of the shared file.

Whatever it asks goes past the auditor, which sees each request before and each answer after.
"""

from collections.abc import Sequence
from functools import partial
from itertools import count
from pathlib import Path

from detent.engine import Claimed, CommandRequest, Engine, Lifetimes, due_timers
from detent.engine.batch import Result
from detent.engine.claims import Ahead, ClaimRequest
from detent.kernel import commands as c
from detent.kernel.plan import frontier
from detent.kernel.plan_steps import CONTINUING
from detent.operations.context import Core
from detent.store.sqlite import SqliteStore
from detent.testing.clock import VirtualClock
from verification.simulation.auditor import Auditor
from verification.simulation.injected_faults import Faults, FaultyStore
from verification.simulation.planned_work import INTENT, STEP_INTENTS
from verification.simulation.run_records import LEASE_US
from verification.simulation.time_records import Leases, own_s

MAX_DUE = 20


class Process:
    """Dies and comes back with nothing but its name; what it knew is gone, the file is not."""

    def __init__(
        self,
        name: str,
        path: Path,
        clock: VirtualClock,
        faults: Faults,
        auditor: Auditor,
        abilities: tuple[str, ...] = STEP_INTENTS,
    ) -> None:
        self.name = name
        #: The intents of steps that it can run, if it is a worker.
        self.abilities = abilities
        self.faults = faults
        self.auditor = auditor
        self._path = path
        self._clock = clock
        self._serial = count(1)
        self._open()

    def _open(self) -> None:
        self.store = FaultyStore(SqliteStore(self._path, self._clock), self.faults)
        self.engine = Engine(self.store, Lifetimes(LEASE_US), partial(own_s, self._clock))
        self.core = Core(self.store, self.engine)

    def close(self) -> None:
        self.store.close()

    def restart(self) -> None:
        self.auditor.counts["deaths"] += 1
        self.close()
        self._open()

    def now(self) -> int:
        """The store's time as this process last read it."""
        return max(self._clock.now, self.store.now)

    def leases(self) -> Leases:
        return Leases(self._clock)

    def actor(self, root_id: str | None = None) -> c.Actor:
        """A name for one request, so that the log tells which events it made."""
        return c.Actor(f"{self.name}#{next(self._serial)}", root_id)

    # -- asking ----------------------------------------------------------------------------

    def ask(self, *asks: CommandRequest) -> list[Result]:
        """Several callers in parallel: they are posted one by one and go into one batch."""
        self.store.begin()
        for ask in asks:
            self.auditor.asked(ask)
        before = self.auditor.data_version()
        futures = [self.engine.enqueue([ask]) for ask in asks]
        try:
            self.engine.serve(futures[-1])
        finally:  # also when it died: answers until then have been delivered
            for ask, future in zip(asks, futures, strict=True):
                answer = future.result()[0] if future.done() else None
                self.auditor.answered(ask, answer, before if len(asks) == 1 else None)
        return [future.result()[0] for future in futures]

    def claim(self, limit: int, ahead: int = 0) -> list[Claimed]:
        """What a worker does when it has room: first what is due, then a claim.

        `ahead`: how many jobs it claims beyond its slots.
        """
        self.store.begin()
        self.engine.transaction(lambda tx: due_timers.run(tx, MAX_DUE, self.engine.lifetimes))
        nonce = f"{self.name}/{next(self._serial)}"
        further = Ahead({INTENT: 1.0}, float(ahead), ahead, workers=2) if ahead else None
        claimed = self.engine.claim(
            ClaimRequest(self.name, nonce, limit, (INTENT, *self.abilities), ahead=further)
        )
        self.auditor.counts["claimed ahead"] += max(len(claimed) - limit, 0)
        self.auditor.claimed(claimed)
        for each in claimed:
            if each.job.plan_version > 0 and not each.job.plan_wanted:
                self._can_run(each.job.id)
        return claimed

    def _can_run(self, job_id: str) -> None:
        """A plan with steps that can start was claimed by a worker that has one of the intents."""
        with self.store.read() as view:
            plan, steps = view.plans([job_id])[job_id], list(view.steps([job_id]))
        first = set(frontier(plan, {step.name: step.state for step in steps}))
        on_the_way = {step.name for step in steps if step.state in CONTINUING}
        intents = {step.intent for step in plan.steps if step.name in first | on_the_way}
        self.auditor.counts["plans for some workers"] += len(intents) == 1
        assert not first or not intents.isdisjoint(self.abilities), (
            f"{self.name} claimed {job_id}, whose next steps need {intents}"
        )

    def renew(self, grants: Sequence[c.Grant]) -> set[tuple[str, int]]:
        self.store.begin()
        kept = self.engine.renew(self.name, [grant[:2] for grant in grants])
        self.auditor.renewed(kept, self.store.now + LEASE_US)
        return kept

    def found(self, job_id: str) -> tuple[int, set[str]]:
        """What a run finds when it begins: the version of the plan, and what is done."""
        self.store.begin()
        with self.store.read() as view:
            version = next(job.plan_version for job, _ in view.jobs([job_id]))
            return version, {each.name for each in view.job_checkpoints(job_id) if each.done}

    def cancel_wanted(self, job_id: str) -> bool:
        self.store.begin()
        with self.store.read() as view:
            return any(job.cancel_reason is not None for job, _ in view.jobs([job_id]))

    def version(self, task_id: str) -> int | None:
        """The version of a task, as a client reads it before deciding."""
        self.store.begin()
        with self.store.read() as view:
            return next((version for _, version in view.tasks([task_id])), None)
