"""Derives state transitions from events: which task, job, run or step changed, from what, and when.

The feed says where an event leads; where it came from is remembered here, for a bounded number of
streams. A stream that is met in its middle is read once from its beginning. Reads the store.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from detent.kernel.events import EVENTS
from detent.kernel.lifecycles import LIFECYCLES
from detent.store.port import ReadTransaction, Store
from detent.store.types import LoggedEvent

#: Streams that are remembered at once, and events of one that are read to remember it.
MAX_STREAMS = 10_000
MAX_EVENTS = 10_000
#: States in which a task or job is over, though some of them can be left again.
OVER: Mapping[str, frozenset[str]] = {
    "task": frozenset({"done", "completed", "failed", "timed_out", "cancelled", "budget_exceeded"}),
    "job": frozenset({"completed", "failed", "cancelled"}),
}
#: After these nothing comes that could transition.
GONE = frozenset({"task_deleted", "job_deleted"})
#: From where a thing comes that was just made.
NOWHERE = "none"


class Place(NamedTuple):
    """A state and since when."""

    state: str
    since: int


class EventFields(msgspec.Struct):
    """The few fields of events that anything here looks at. The rest is not even decoded."""

    intent: str = ""
    lifecycle: str = ""
    task_id: str | None = None
    parent_id: str | None = None
    worker: str = ""
    step: str | None = None
    attempt: int = 1
    outcome: str = ""
    reason: str | None = None
    error_class: str | None = None
    error: str | None = None
    wait: str | None = None
    cost: int = 0
    plan: "PlanFields | None" = None


class PlanStepFields(msgspec.Struct):
    name: str = ""
    capabilities_required: Sequence[str] = ()


class PlanFields(msgspec.Struct):
    steps: Sequence[PlanStepFields] = ()


class Began(NamedTuple):
    """How a run began; `previous` is the run that it goes on from, if it is not the first."""

    step: str | None
    attempt: int
    worker: str
    previous: str | None


@dataclass(slots=True)
class Stream:
    """What is remembered of a task's or a job's stream."""

    intent: str = ""
    #: `board` or `review` for a task's stream.
    lifecycle: str = ""
    task_id: str | None = None
    begun_at: int = 0
    places: dict[tuple[str, str], Place] = field(default_factory=dict)
    #: The task that it is a part of.
    parent_id: str | None = None
    #: How often it has ended, and since when it is open: somebody may open it again.
    ends: int = 0
    opened_at: int = 0
    #: By step, what it asks of a resource.
    capabilities: dict[str, str] = field(default_factory=dict)
    #: Live runs as they began, and by step the last run that ended.
    runs: dict[str, "Began"] = field(default_factory=dict)
    last: dict[str | None, str] = field(default_factory=dict)


class Transition(NamedTuple):
    """An event with the transition that it caused, if any. `since`: when `source` was entered."""

    logged: LoggedEvent
    level: str
    stream: Stream
    fields: EventFields
    source: str | None = None
    target: str | None = None
    since: int = 0
    #: How the run began that this event ends.
    began: Began | None = None

    @property
    def subject(self) -> str:
        """The step or run that it is about; else the task or job."""
        return self.logged.subject or self.logged.stream

    @property
    def seconds(self) -> float:
        return (self.logged.at - self.since) / 1_000_000


#: Events whose content is looked at.
READ = frozenset(
    {
        "task_created",
        "job_created",
        "job_requeued",
        "job_failed",
        "plan_generated",
        "run_queued",
        "run_succeeded",
        "run_failed",
        "run_timed_out",
        "run_cancelled",
        "run_charged",
        "task_unblocked",
    }
)
_decode = msgspec.json.Decoder(EventFields).decode
_NOTHING = EventFields()


class TransitionTracker:
    """Remembers streams. One thread at a time."""

    def __init__(self, store: Store, most: int = MAX_STREAMS) -> None:
        self._store = store
        self._most = most
        self._streams: OrderedDict[str, Stream] = OrderedDict()

    def transitions(self, batch: Sequence[LoggedEvent]) -> Iterator[Transition]:
        """Every event of the batch, in order.

        What may fail is done before the first of them: the same batch can be given again.
        """
        fields = [_fields(logged) for logged in batch]
        self._recall(batch)
        return self._transitions(zip(batch, fields, strict=True))

    def forget(self) -> None:
        """Drop all streams: they may include events that will be given again."""
        self._streams.clear()

    def _transitions(
        self, batch: Iterable[tuple[LoggedEvent, EventFields]]
    ) -> Iterator[Transition]:
        for logged, fields in batch:
            yield self._apply(self._stream(logged.stream), logged, fields)
            if logged.name in GONE:
                del self._streams[logged.stream]
        while len(self._streams) > self._most:
            self._streams.popitem(last=False)

    def _stream(self, name: str) -> Stream:
        found = self._streams.get(name)
        if found is None:
            found = self._streams[name] = Stream()
        self._streams.move_to_end(name)
        return found

    def _recall(self, batch: Sequence[LoggedEvent]) -> None:
        """Read the beginning of every stream that the batch goes on with and nobody remembers."""
        first: dict[str, LoggedEvent] = {}
        for logged in batch:
            first.setdefault(logged.stream, logged)
        unknown = [
            each for each in first.values() if each.version > 1 and each.stream not in self._streams
        ]
        if unknown:
            with self._store.read() as view:
                for each in unknown:
                    self._read(view, each)

    def _read(self, view: ReadTransaction, upto: LoggedEvent) -> None:
        """Remember a stream once all of its beginning is read."""
        before = upto.position - 1
        stream = Stream()
        for logged in view.events(0, MAX_EVENTS, stream=upto.stream, upto=before):
            self._apply(stream, logged, _fields(logged))
        self._streams[upto.stream] = stream

    def _apply(self, stream: Stream, logged: LoggedEvent, fields: EventFields) -> Transition:
        kind = EVENTS.get(logged.name)
        level = kind.level if kind is not None else ""
        _learn(stream, logged, fields)
        transition = Transition(logged, level, stream, fields)
        lifecycle = LIFECYCLES.get(stream.lifecycle or "board" if level == "task" else level)
        target = lifecycle.targets.get(logged.name) if lifecycle is not None else None
        if lifecycle is None or target is None:
            return transition
        if target in lifecycle.terminal:
            transition = _ended(transition)
        key = (level, logged.subject or "")
        place = stream.places.get(key)
        stream.places[key] = Place(target, logged.at)
        if level == "run" and target in lifecycle.terminal:
            del stream.places[key]
        if level in OVER:
            _open_or_end(stream, place.state if place else None, target, level, logged.at)
        if place is None or (place.state, logged.name) not in lifecycle.move:
            # Made just now: by its creation, or by a new version of the plan.
            return transition._replace(source=NOWHERE, target=target, since=logged.at)
        return transition._replace(source=place.state, target=target, since=place.since)


def _fields(logged: LoggedEvent) -> EventFields:
    return _decode(logged.data) if logged.data and logged.name in READ else _NOTHING


def _learn(stream: Stream, logged: LoggedEvent, fields: EventFields) -> None:
    if logged.version == 1:
        stream.begun_at = stream.opened_at = logged.at
    if logged.name in ("task_created", "job_created"):
        stream.intent, stream.lifecycle = fields.intent, fields.lifecycle
        stream.task_id, stream.parent_id = fields.task_id, fields.parent_id
    elif logged.name == "plan_generated" and fields.plan is not None:
        stream.capabilities = {
            step.name: "+".join(sorted(step.capabilities_required)) for step in fields.plan.steps
        }
    elif logged.name == "run_queued":
        previous = stream.last.get(fields.step)
        stream.runs[logged.subject or ""] = Began(
            fields.step, fields.attempt, fields.worker, previous
        )


def _open_or_end(stream: Stream, source: str | None, target: str, level: str, at: int) -> None:
    if source in OVER[level]:
        stream.opened_at = at
    if target in OVER[level]:
        stream.ends += 1


def _ended(transition: Transition) -> Transition:
    """Note the end of a run, and say how it began."""
    if transition.level != "run":
        return transition
    began = transition.stream.runs.pop(transition.subject, None)
    if began is not None:
        transition.stream.last[began.step] = transition.subject
    return transition._replace(began=began)
