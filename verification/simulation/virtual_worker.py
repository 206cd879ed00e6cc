"""Virtual workers: claim, work, report, with a pause after every transaction.

They die, hang past their leases, and report late. What a job does follows from its id.
"""

import random
from collections.abc import Generator, Iterator

from detent.engine import Claimed, CommandRequest, CommandResult
from detent.engine.batch import Result
from detent.errors import Unavailable
from detent.kernel import commands as c
from verification.model_search.observer import Hand
from verification.model_search.scenarios import late
from verification.simulation.money_records import MAX_CALL
from verification.simulation.run_records import ROLE
from verification.simulation.virtual_executor import PlanExecution
from verification.simulation.virtual_process import Process

STEPS = ("effect", "effect", "effect", "signal", "timer", "question", "gather", "child")
#: Part of the id of a job that another has started; such a one starts none itself.
BELOW = ":below:"
LONGEST_TIMER_US = 90_000_000
#: How often a worker claims more than it can start, how much more, and how often it then hands back
#: what it has not started.
CLAIMS_AHEAD, MAX_AHEAD, HANDS_BACK = 0.1, 6, 0.3
#: How many reports a worker sends that has lost its job and has just noticed it.
LATE_REPORTS = 4


def script(job_id: str) -> list[str]:
    """The names of what a job does, one after the other: effects, waits, and work below it."""
    rng = random.Random(job_id)
    steps = STEPS[:-2] if BELOW in job_id else STEPS
    return [f"{rng.choice(steps)}-{number}" for number in range(rng.randint(1, 4))]


def child_of(job_id: str, name: str) -> str:
    """The id of the job that a step starts and waits for; the same each time it is tried."""
    return f"{job_id}{BELOW}{name}"


class Worker:
    """One process that works; `hands` are the grants that it believes to hold."""

    mortal = True

    def __init__(self, process: Process, rng: random.Random) -> None:
        self.process = process
        self.rng = rng
        #: Its own, so that claims ahead do not change what else happens until the first of them.
        self._ahead = random.Random(f"{process.name} claims ahead")
        self.hands: list[c.Grant] = []
        self.leases = process.leases()

    @property
    def calm(self) -> bool:
        return not self.process.faults.on

    def life(self) -> Generator[None]:
        self.hands = []
        while True:
            claimed = self._claim()
            yield
            while claimed:
                each, *claimed = claimed
                if each.job.run_id is None:
                    yield from PlanExecution(self, each).life()
                else:
                    yield from self._work(each)
                if claimed and not self.calm and self._ahead.random() < HANDS_BACK:
                    claimed = yield from self._hand_back(claimed)
            self.hands = []

    def _claim(self) -> list[Claimed]:
        try:
            begun = self.leases.begin()
            ahead = 0 if self.calm or self._ahead.random() >= CLAIMS_AHEAD else MAX_AHEAD
            claimed = self.process.claim(20 if self.calm else self.rng.randint(1, 2), ahead)
        except Unavailable:
            return []
        self.hands = [each.grant for each in claimed]
        self.leases.given(begun, (grant[:2] for grant in self.hands))
        return claimed

    def _hand_back(self, claimed: list[Claimed]) -> Generator[None, None, list[Claimed]]:
        """Hand back jobs that have not started, in one batch; those that are left are kept."""
        asks = [CommandRequest(c.HandBack(each.grant), self.process.actor()) for each in claimed]
        results = self.process.ask(*asks)
        yield
        taken = [isinstance(result, CommandResult) for result in results]
        self.process.auditor.counts["handed back unstarted"] += sum(taken)
        return [
            each
            for each, result in zip(claimed, results, strict=True)
            if isinstance(result, Unavailable)
        ]

    # -- working ---------------------------------------------------------------------------

    def _work(self, claimed: Claimed) -> Iterator[None]:
        grant = claimed.grant
        _, done = self.process.found(grant.job_id)
        yield
        yield from self._reserve(claimed, claimed.job.run_id or "")
        for name in script(grant.job_id):
            if name in done:
                continue
            if not (yield from self._still_at_it(claimed)):
                return
            if name.startswith("child") and not (yield from self._start(claimed, name)):
                return
            if name.startswith("gather") and claimed.task is None:
                continue
            if name.startswith("gather") and not (yield from self._submit(claimed, name)):
                return
            if not name.startswith("effect"):
                yield from self._report(self._suspension(claimed, name))
                return
            self.process.auditor.performed(grant, name)
            yield
            if not (yield from self._report(c.RecordCheckpoint(grant, name))):
                return
        if (yield from self._still_at_it(claimed)):
            report = yield from self.spend(claimed, claimed.job.run_id or "")
            yield from self._end(claimed) if report is None else self._report(report)

    def _still_at_it(self, claimed: Claimed) -> Generator[None, None, bool]:
        """Sends a heartbeat and reads what people want; True if the work goes on."""
        drawn = 1.0 if self.calm else self.rng.random()
        if drawn < 0.4:
            return (yield from self._beat(claimed))
        if self.calm or drawn < 0.6:
            wanted = self.process.cancel_wanted(claimed.job.id)
            yield
            if wanted:
                yield from self._report(c.ConfirmCancel(claimed.grant))
            return not wanted
        if drawn < 0.63:
            yield from self._report(c.HandBack(claimed.grant))
            return False
        return drawn >= 0.66  # in between it just forgets the job: its lease runs out

    def renew(self, grants: list[c.Grant]) -> set[tuple[str, int]]:
        begun = self.leases.begin()
        kept = self.process.renew(grants)
        self.leases.given(begun, kept)
        return kept

    def _beat(self, claimed: Claimed) -> Generator[None, None, bool]:
        try:
            kept = self.renew(self.hands)
        except Unavailable:
            return True
        yield
        if claimed.grant[:2] in kept or self.rng.random() < 0.6:
            return True  # also one who lost it may not have noticed
        yield from self._late(claimed)
        return False

    def _late(self, claimed: Claimed) -> Iterator[None]:
        """Several kinds of reports with a grant that no longer holds; a keeper sends none."""
        hand = Hand(claimed.grant, claimed.job.run_id or "")
        reports = [each.command for each in late(0, hand) if isinstance(each.command, c.Report)]
        for report in self.rng.sample(reports, LATE_REPORTS):
            yield from self._report(report)

    # -- reporting -------------------------------------------------------------------------

    def _report(self, command: c.Command) -> Generator[None, None, bool]:
        """True if it was taken. What the store cannot take now is reported again later."""
        result = yield from self._tell(command)
        return isinstance(result, CommandResult)

    def _tell(self, command: c.Command) -> Generator[None, None, Result]:
        while True:
            (result,) = self.process.ask(CommandRequest(command, self.process.actor()))
            yield
            if not isinstance(result, Unavailable):
                return result

    def spend(self, claimed: Claimed, run_id: str) -> Generator[None, None, c.Report | None]:
        """Calls that cost money, each settled after it was made; what to report if that was too
        much. A run checks its budget after a call, so the last one may overshoot.
        """
        task, total = claimed.task, 0
        if self.calm or task is None or (task.budget is None and task.parent_id is None):
            return None
        yield from self._reserve(claimed, run_id)
        for _ in range(self.rng.randint(0, 3)):
            total += self.rng.randint(1, MAX_CALL)
            result = yield from self._tell(c.ChargeRun(claimed.grant, run_id, total))
            if isinstance(result, CommandResult) and result.value == "exceeded":
                return _over_budget(claimed, run_id)
        return None

    def _reserve(self, claimed: Claimed, run_id: str) -> Iterator[None]:
        """Before it spends: what it may, out of the budgets of its task and of those above."""
        if claimed.task is not None and not self.calm:
            yield from self._tell(c.ReserveFunds(claimed.grant, run_id))

    def _start(self, claimed: Claimed, name: str) -> Generator[None, None, bool]:
        """A job below; True unless the grant no longer holds."""
        job = claimed.job
        made = c.SubmitJob(
            child_of(job.id, name), job.project, "dig", parent_job_id=job.id, options=ROLE.options
        )
        return (yield from self._add(claimed, made))

    def _submit(self, claimed: Claimed, name: str) -> Generator[None, None, bool]:
        """A subtask; True unless the grant no longer holds."""
        job, task = claimed.job, claimed.task
        assert task is not None
        made = c.SubmitTask(
            *(child_of(job.id, name), job.project, task.lifecycle, "dig", "cli"),
            parent_id=task.id,
            options=ROLE.options,
        )
        return (yield from self._add(claimed, made))

    def _add(self, claimed: Claimed, made: c.Command) -> Generator[None, None, bool]:
        """Submit work below, under the grant; True unless that no longer holds."""
        while True:
            ask = CommandRequest(made, self.process.actor(), grant=claimed.grant)
            (result,) = self.process.ask(ask)
            yield
            if not isinstance(result, Unavailable):
                return isinstance(result, CommandResult) or result.code != "stale_fence"

    def _subtasks(self, claimed: Claimed) -> tuple[str, ...]:
        """What is below its task now: it wants to know how each of that ends."""
        task_id = claimed.job.task_id or ""
        below = self.process.auditor.world.children.get(task_id, ())
        return tuple(f"task:{each}" for each in below)

    def _suspension(self, claimed: Claimed, name: str) -> c.SuspendRun:
        kind = name.partition("-")[0]
        needs: tuple[str, ...] = (f"go-{name}",) if kind == "signal" else ()
        run_id, detail = claimed.job.run_id or "", {"outcomes": True}
        if kind == "gather":
            needs = self._subtasks(claimed) or needs
            return c.SuspendRun(claimed.grant, run_id, name, "subtasks", needs, detail=detail)
        if kind == "child":
            kind, needs = "subtasks", (f"job:{child_of(claimed.job.id, name)}",)
        due_at = None
        if kind == "timer" or (kind == "signal" and self.rng.random() < 0.3):
            due_at = self.process.now() + self.rng.randrange(LONGEST_TIMER_US)
        return c.SuspendRun(claimed.grant, run_id, name, kind, needs, due_at)

    def _end(self, claimed: Claimed) -> Iterator[None]:
        grant, run_id = claimed.grant, claimed.job.run_id or ""
        drawn = 0.0 if self.calm else self.rng.random()
        if drawn < 0.7:
            yield from self._report(c.CompleteRun(grant, run_id, "done"))
        elif drawn < 0.95:
            error_class = self.rng.choice(("error", "network", "rate_limit"))
            yield from self._report(c.FailRun(grant, run_id, error_class, "it failed"))
        else:
            yield from self._report(c.TimeOutRun(grant, run_id))


def _over_budget(claimed: Claimed, run_id: str) -> c.Report:
    """As the policy of the job says: it ends, or waits until a person raises the budget."""
    if claimed.job.options.get("on_budget_exceeded") == "ask":
        wait, detail = f"budget:{run_id}", {"exceeded": True}
        return c.SuspendRun(claimed.grant, run_id, wait, "budget", detail=detail)
    return c.FailRun(claimed.grant, run_id, "budget", "its budget is spent")
