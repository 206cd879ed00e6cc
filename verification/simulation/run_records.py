"""What the auditor records about waits, leases, effects and outcomes, from the log's own words.

Nothing here asks a rule of the kernel. Pure.
"""

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field

from detent.kernel import commands as c
from detent.kernel import events as e
from verification.model_search.scenarios import Role

LEASE_US = 10_000_000
#: What every job may do; the auditor compares retries with it.
ROLE = Role({"error": 1, "network": 1, "timeout": 1, "lost": 3}, rate_limit=True, max_rounds=2)

ANSWERS = c.AnswerTask | c.AnswerJob
PUSHES = c.RetryTask | c.UnblockTask | c.RetryJob | c.QueueTask
#: Also who goes to sleep for money that was raised a moment before wakes immediately.
RAISES = c.RaiseBudget | c.EditTask | c.SuspendRun
BY_TIME = ("due", "expired", "default", "available")
#: Waits of detent itself for what work lacks: any wake-up ends them.
POLLS = ("funds", "resource", "retry")
MONEY = ("budget", "funds")


@dataclass(slots=True)
class OpenWait:
    """A wait that a run has begun: what must have happened before it may end."""

    kind: str
    needs: tuple[str, ...]
    due_at: int | None
    #: The step of a plan that waits, if one does.
    step: str | None = None


@dataclass(slots=True)
class RunRecords:
    """Kept event by event; each `note` answers what is wrong with an event, if anything is."""

    leases: dict[tuple[str, int], int] = field(default_factory=dict)
    waits: dict[tuple[str, str], OpenWait] = field(default_factory=dict)
    signals: set[tuple[str, str]] = field(default_factory=set)
    #: Steps that were recorded as done, and by job the ones that each grant found done.
    recorded: dict[str, set[str]] = field(default_factory=dict)
    found: dict[c.Grant, frozenset[str]] = field(default_factory=dict)
    effects: Counter[tuple[str, str, c.Grant]] = field(default_factory=Counter)
    #: Which actor's command left events behind.
    heard: Counter[str] = field(default_factory=Counter)

    def note(self, record: e.Record, command: c.Command) -> str | None:
        event, job_id, name = record.event, record.stream, record.subject or ""
        if isinstance(event, e.JobRunning):
            grant = c.Grant(job_id, event.fence, event.nonce)
            self.leases[job_id, event.fence] = record.at + LEASE_US
            self.found[grant] = frozenset(self.recorded.get(job_id, ()))
        elif isinstance(event, e.WaitBegun):
            self.waits[job_id, name] = OpenWait(event.kind, event.needs, event.due_at, event.step)
        elif isinstance(event, e.RunQueued) and event.step is not None:
            return self._taken_up(job_id, event.step)
        elif isinstance(event, e.SignalReceived):
            self.signals.add((job_id, name))
        elif isinstance(event, e.WaitCompleted):
            found = self._wait_over(record, command, event.wait, event.outcome)
            self._drop(job_id, POLLS)
            return found
        elif isinstance(event, e.WaitEnded):
            return self._wait_over(record, command, name, event.outcome)
        elif isinstance(event, e.WaitPostponed):
            self.waits[job_id, name].due_at = event.due_at
        elif isinstance(event, e.CheckpointRecorded):
            return self._step_done(job_id, name)
        elif isinstance(event, e.JobCancelled | e.JobFailed | e.JobCompleted):
            self._drop(job_id)
        return None

    def _drop(self, job_id: str, kinds: Collection[str] | None = None) -> None:
        """Waits of a job that nothing has to end any more."""
        own = [(key, wait.kind) for key, wait in self.waits.items() if key[0] == job_id]
        for key, kind in own:
            if kinds is None or kind in kinds:
                del self.waits[key]

    def _taken_up(self, job_id: str, step: str) -> str | None:
        """P10: a step that waits is left alone, whatever the others of its plan do."""
        open_waits = [key for key, wait in self.waits.items() if wait.step == step]
        waiting = next((key for key in open_waits if key[0] == job_id), None)
        return None if waiting is None else f"{step} of {job_id} runs and waits for {waiting}"

    def _wait_over(
        self, record: e.Record, command: c.Command, name: str, outcome: str
    ) -> str | None:
        """P10: by its time, its signals, an answer, money, a person; nothing else ends a wait."""
        wait = self.waits.pop((record.stream, name), None)
        if wait is None:
            return f"{record.stream} woke from {name}, for which it did not wait"
        heard = all((record.stream, each) in self.signals for each in wait.needs)
        fair = {
            "signalled": bool(wait.needs) and heard,
            "answered": isinstance(command, ANSWERS),
            "raised": isinstance(command, RAISES) and wait.kind in MONEY,
            "unblocked": isinstance(command, PUSHES) and wait.kind in ("resource", *MONEY),
        }
        if outcome in BY_TIME:
            fair[outcome] = wait.due_at is not None and wait.due_at <= record.at
        return None if fair.get(outcome) else f"{record.stream} woke from {wait} as {outcome}"

    def _step_done(self, job_id: str, name: str) -> str | None:
        done = self.recorded.setdefault(job_id, set())
        if name in done:
            return f"the step {name} of {job_id} was completed twice"
        done.add(name)
        return None

    def reclaimed(self, job_id: str, fence: int, at: int) -> str | None:
        """P14: only an expired lease is taken away; an acknowledged heartbeat counts."""
        until = self.leases.get((job_id, fence), 0)
        return (
            f"{job_id} was reclaimed at {at}, its lease ran until {until}" if at < until else None
        )

    def performed(self, grant: c.Grant, name: str) -> str | None:
        """P6: who began after a step was completed does not do it again, and no run does it twice.

        An older claim that was lost may still be at it: it was in flight.
        """
        self.effects[grant.job_id, name, grant] += 1
        if name in self.found.get(grant, ()):
            return f"the step {name} of {grant.job_id} ran again under {grant}"
        if self.effects[grant.job_id, name, grant] > 1:
            return f"the step {name} of {grant.job_id} ran twice under {grant}"
        return None

    def undone(self) -> list[tuple[str, str]]:
        """Steps that are recorded as done and were never performed."""
        performed = {(job_id, name) for job_id, name, _ in self.effects}
        return [
            (job_id, name)
            for job_id, names in self.recorded.items()
            for name in names
            if (job_id, name) not in performed
        ]
