"""What the auditor records about money: costs, reservations, and by how much a budget is exceeded.

From the words of the log alone; no rule of the kernel is asked. Pure.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from detent.kernel import commands as c
from detent.kernel import events as e

#: What one call of a run may cost at most.
MAX_CALL = 30
ENDS_OF_RUNS = (e.RunSucceeded, e.RunFailed, e.RunTimedOut, e.RunCancelled)


@dataclass(slots=True)
class Account:
    """The money of one task: `drawing` are the runs that were at work when it was used up."""

    parent: str | None
    budget: int | None
    spent: int = 0
    drawing: frozenset[str] = frozenset()

    @property
    def used_up(self) -> bool:
        return self.budget is not None and self.spent >= self.budget

    @property
    def overshoot(self) -> int:
        return 0 if self.budget is None else max(0, self.spent - self.budget)


@dataclass(slots=True)
class MoneyRecords:
    """Kept act by act; `note` says what is wrong with an act, if anything is."""

    accounts: dict[str, Account] = field(default_factory=dict)
    task_of: dict[str, str] = field(default_factory=dict)
    costs: Counter[str] = field(default_factory=Counter)
    #: Live runs, and the tasks that each draws on.
    live: dict[str, tuple[str, ...]] = field(default_factory=dict)
    #: By live run, what it may cost in all.
    reserved: dict[str, int] = field(default_factory=dict)

    def line(self, task_id: str | None) -> Iterator[str]:
        """A task and those above it."""
        while task_id is not None:
            yield task_id
            task_id = self.accounts[task_id].parent

    def note(self, command: c.Command, records: Sequence[e.Record], answer: Any) -> str | None:
        """Every cost is charged to each task of its line once; no run starts without money."""
        owed: Counter[str] = Counter()
        began: dict[str, str] = {}
        waits: set[str] = set()
        for record in records:
            event, stream = record.event, record.stream
            if isinstance(event, e.RunStarted):
                began[record.subject or ""] = stream
                self.live[record.subject or ""] = tuple(self.line(self.task_of.get(stream)))
            elif isinstance(event, ENDS_OF_RUNS):
                self.live.pop(record.subject or "", None)
                self.reserved.pop(record.subject or "", None)
            elif isinstance(event, e.RunReserved):
                wrong = self._reserve(record.subject or "", event)
                if wrong is not None:
                    return wrong
            elif isinstance(event, e.RunCharged):
                owed.update(self._owed(record, event))
            elif isinstance(event, e.TaskCharged):
                owed[stream] -= event.amount
                wrong = self._charge(stream, event)
                if wrong is not None:
                    return wrong
            elif isinstance(event, e.WaitBegun) and event.kind == "funds":
                waits.add(stream)
            else:
                self._learn(stream, event)
        unpaid = {task: amount for task, amount in owed.items() if amount}
        if unpaid:
            return f"of a cost these were not charged once: {unpaid}"
        penniless = (self._penniless(stream) for stream in began.values() if stream not in waits)
        return next(filter(None, penniless), None) or self._reported(command, answer)

    def _can_spend(self, run_id: str, task_id: str) -> int:
        """What a run can still spend of a task's budget: its reservation, within the budgets of the
        tasks between the two. A budget that is set later stops the run before its reservation."""
        line = self.live[run_id]
        below = [self.accounts[each] for each in line[: line.index(task_id)]]
        left = [each.budget - each.spent for each in below if each.budget is not None]
        return max(0, min(self.reserved[run_id] - self.costs[run_id], *left, 1 << 62))

    def _reserve(self, run_id: str, event: e.RunReserved) -> str | None:
        """Nothing is promised twice: what is spent and reserved below a budget is within it."""
        self.reserved[run_id] = event.amount
        own = self.live[run_id]
        if event.amount - self.costs[run_id] <= 1:
            return None  # nothing, or the least amount, which everybody gets
        for task_id in own:
            account = self.accounts[task_id]
            held = sum(
                self._can_spend(run, task_id)
                for run in self.reserved
                if run == run_id or (task_id in self.live[run] and self.live[run][0] not in own)
            )
            if account.budget is not None and account.spent + held > account.budget:
                return f"more than the budget of {task_id} is reserved: {account}, {held}"
        return None

    def _learn(self, stream: str, event: e.Event) -> None:
        if isinstance(event, e.TaskCreated):
            self.accounts[stream] = Account(event.parent_id, event.budget)
        elif isinstance(event, e.JobCreated) and event.task_id is not None:
            self.task_of[stream] = event.task_id
        elif isinstance(event, e.BudgetRaised):
            self.accounts[stream].budget = event.budget

    def _owed(self, record: e.Record, event: e.RunCharged) -> dict[str, int]:
        run_id = record.subject or ""
        added = event.cost - self.costs[run_id]
        self.costs[run_id] = event.cost
        return dict.fromkeys(self.line(self.task_of.get(record.stream)), added)

    def _charge(self, task_id: str, event: e.TaskCharged) -> str | None:
        """A run that was active when its budget was used up may finish its current call."""
        account = self.accounts[task_id]
        before = account.used_up
        account.spent += event.amount
        if account.used_up and not before:
            account.drawing = frozenset(run for run, line in self.live.items() if task_id in line)
        if account.overshoot > MAX_CALL * len(account.drawing):
            return f"{task_id} is over its budget by more than the last calls: {account}"
        return None

    def _penniless(self, job_id: str) -> str | None:
        """Before a run starts, there is something left in every budget above it."""
        for task_id in self.line(self.task_of.get(job_id)):
            if self.accounts[task_id].used_up:
                return f"a run of {job_id} began, and {task_id} has {self.accounts[task_id]}"
        return None

    def _reported(self, command: c.Command, answer: Any) -> str | None:
        """A run is notified as soon as it, or a task above it, has spent too much."""
        if not isinstance(command, c.ChargeRun) or answer not in ("ok", "exceeded"):
            return None
        line = self.line(self.task_of.get(command.grant.job_id))
        over = [task_id for task_id in line if self.accounts[task_id].overshoot]
        return (
            None if (answer == "exceeded") == bool(over) else f"answered {answer}, over are {over}"
        )
