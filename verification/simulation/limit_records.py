"""What the auditor books of pauses, rates and schedules, from the log's own words. Pure.

Nothing starts between the set and the end of a pause. Starts under a rate are counted in windows
that begin with a start, so in any time of that length there are at most twice as many. A schedule
that makes up for every missed time has fired as often as its times have come, and never more often.
"""

from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from detent.kernel import events as e

S_US = 1_000_000


@dataclass(slots=True)
class Grid:
    """The times of a schedule: an anchor plus multiples of `step_us`."""

    anchor_at: int
    step_us: int

    def passed(self, at: int) -> int:
        """How many times have come."""
        return (at - self.anchor_at) // self.step_us


@dataclass(slots=True)
class LimitRecords:
    """`note` says what is wrong with a record; None if nothing is."""

    #: By name of a limit: until when it is paused, None without end.
    paused: dict[str, int | None] = field(default_factory=dict)
    rates: dict[str, tuple[int, int]] = field(default_factory=dict)
    starts: dict[str, deque[int]] = field(default_factory=dict)
    #: By job, the limits that apply to it.
    names: dict[str, tuple[str, ...]] = field(default_factory=dict)
    schedules: dict[str, Grid] = field(default_factory=dict)
    fired: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)

    def note(self, record: e.Record) -> str | None:
        event, name = record.event, record.subject or ""
        if isinstance(event, e.JobCreated):
            key = () if event.concurrency_key is None else (f"key:{event.concurrency_key}",)
            self.names[record.stream] = (
                *("all", f"intent:{event.intent}", f"project:{event.project}"),
                *key,
            )
        elif isinstance(event, e.JobRunning):
            return next(self._started(record), None)
        elif isinstance(event, e.PauseSet):
            self.counts["pauses"] += 1
            self.paused[name] = event.until
        elif isinstance(event, e.PauseEnded):
            return self._ended(record, event, name)
        elif isinstance(event, e.LimitSet) and event.rate is not None:
            self.rates[name] = event.rate, (event.per_s or 1) * S_US
            self.starts[name] = deque()
        elif isinstance(event, e.LimitSet | e.LimitEnded):
            self.rates.pop(name, None)
        elif isinstance(event, e.TaskCreated) and event.source == "schedule":
            return self._fired(record, event)
        return None

    def _started(self, record: e.Record) -> Iterator[str]:
        for name in self.names[record.stream]:
            if name in self.paused:
                yield f"{record.stream} has started while {name} is paused"
            if name in self.rates:
                rate, length = self.rates[name]
                recent = self.starts[name]
                recent.append(record.at)
                while recent[0] <= record.at - length:
                    recent.popleft()
                self.counts["starts under a rate"] += 1
                if len(recent) > 2 * rate:
                    yield f"{len(recent)} starts under {name} within {length} us, at most {rate}"

    def _ended(self, record: e.Record, event: e.PauseEnded, name: str) -> str | None:
        if name not in self.paused:
            return f"the pause of {name} has ended and was not there"
        until = self.paused.pop(name)
        if event.outcome != "expired":
            return None
        self.counts["pauses expired"] += 1
        if until is None or record.at < until:
            return f"the pause of {name} has expired at {record.at}, before {until}"
        return None

    def _fired(self, record: e.Record, event: e.TaskCreated) -> str | None:
        self.counts["schedules fired"] += 1
        self.fired[event.title] += 1
        times = self.schedules[event.title].passed(record.at)
        if self.fired[event.title] > times:
            return f"{event.title} has fired {self.fired[event.title]} times, {times} have come"
        return None

    def behind(self, at: int) -> str | None:
        """Which schedule has not fired once for each time that had come by the last pass of a
        keeper; `at` is the store's time in that pass.
        """
        for name, grid in self.schedules.items():
            if self.fired[name] != grid.passed(at):
                return f"{name} has fired {self.fired[name]} times, {grid.passed(at)} have come"
        return None
