"""Derives state transitions from events: which task, job, run or step changed, from what, and when.

An event has the new state; the old state is cached here for a bounded number of streams. A stream
that is not in the cache is read once from its beginning. Reads the store.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from detent.kernel.events import level_of
from detent.kernel.lifecycle import Lifecycle
from detent.kernel.lifecycles import LIFECYCLES
from detent.kernel.retention import JOB_ENDINGS, Ending
from detent.kernel.task_lifecycle import TaskLifecycle
from detent.kernel.traceparent import TraceContext, parse_traceparent
from detent.store.port import ReadTransaction, Store
from detent.store.types import LoggedEvent
from detent.task_lifecycles import SHIPPED

#: The maximum number of cached streams, and of events that are read for one.
MAX_STREAMS = 10_000
MAX_EVENTS = 10_000
#: The last events of a stream.
GONE = frozenset({"task_deleted", "job_deleted"})
#: The source state of a new task, job, run or step.
NOWHERE = "none"


class Place(NamedTuple):
    """A state, and since when it is current."""

    state: str
    since: int


class OptionFields(msgspec.Struct, frozen=True):
    traceparent: str | None = None


class EventFields(msgspec.Struct):
    """The fields of events that metrics and traces read. Other fields are not decoded."""

    intent: str = ""
    lifecycle: str = ""
    #: Of a migration to another version of the lifecycle.
    state: str | None = None
    task_id: str | None = None
    parent_id: str | None = None
    root_id: str = ""
    options: OptionFields = OptionFields()
    worker: str = ""
    resource: str | None = None
    session_id: str | None = None
    step: str | None = None
    attempt: int = 1
    outcome: str = ""
    reason: str | None = None
    error_class: str | None = None
    error: str | None = None
    wait: str | None = None
    cost: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    model: str | None = None
    plan: "PlanFields | None" = None


class PlanStepFields(msgspec.Struct):
    name: str = ""
    capabilities_required: Sequence[str] = ()


class PlanFields(msgspec.Struct):
    steps: Sequence[PlanStepFields] = ()


class Began(NamedTuple):
    """The begin of a run; `previous` is the run that it continues, if it is not the first."""

    step: str | None
    attempt: int
    worker: str
    previous: str | None
    resource: str | None = None
    #: The agent session.
    session: str | None = None


class Usage(NamedTuple):
    """What a run has cost, in micro-dollars and tokens, and its model."""

    cost: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    model: str | None = None

    def since(self, before: "Usage") -> "Usage":
        """What was added; totals never decrease."""
        return Usage(
            self.cost - before.cost,
            self.tokens_in - before.tokens_in,
            self.tokens_out - before.tokens_out,
            self.model,
        )


@dataclass(slots=True)
class Stream:
    """The cached data of the stream of a task or a job."""

    intent: str = ""
    #: The id of the lifecycle, for the stream of a task.
    lifecycle: str = ""
    task_id: str | None = None
    begun_at: int = 0
    places: dict[tuple[str, str], Place] = field(default_factory=dict)
    #: The parent task, and the root of the tree.
    parent_id: str | None = None
    root_id: str = ""
    #: The span that has submitted it.
    trace: TraceContext | None = None
    #: How often it has ended, and when it was created or last reopened.
    ends: int = 0
    opened_at: int = 0
    #: By step, the capabilities that it requires.
    capabilities: dict[str, str] = field(default_factory=dict)
    #: The begins of live runs, and by step the last run that ended.
    runs: dict[str, "Began"] = field(default_factory=dict)
    last: dict[str | None, str] = field(default_factory=dict)
    #: What live runs have cost so far.
    usage: dict[str, Usage] = field(default_factory=dict)


class Transition(NamedTuple):
    """An event with the transition that it caused, if any. `since`: when `source` was entered."""

    logged: LoggedEvent
    level: str
    stream: Stream
    fields: EventFields
    source: str | None = None
    target: str | None = None
    since: int = 0
    #: The begin of the run that this event ends.
    began: Began | None = None
    #: What this event adds to the cost of its run; of an event that ends a run, the whole cost.
    usage: Usage | None = None
    #: How the work ended with `target`; some of these states can be left again.
    ending: Ending | None = None
    #: Whether a person decides about the work in `target`.
    under_review: bool = False

    @property
    def subject(self) -> str:
        """The id of the step or run of the event, or else of the task or job."""
        return self.logged.subject or self.logged.stream

    @property
    def seconds(self) -> float:
        return (self.logged.at - self.since) / 1_000_000


#: Events whose data is decoded.
READ = frozenset(
    {
        "task_created",
        "job_created",
        "job_requeued",
        "job_failed",
        "plan_generated",
        "run_queued",
        "run_joined",
        "run_succeeded",
        "run_failed",
        "run_timed_out",
        "run_cancelled",
        "run_charged",
        "task_unblocked",
        "task_migrated",
    }
)
_decode = msgspec.json.Decoder(EventFields).decode
_NOTHING = EventFields()


class TransitionTracker:
    """Caches streams and derives transitions from batches of events. Not thread-safe."""

    def __init__(self, store: Store, most: int = MAX_STREAMS) -> None:
        self._store = store
        self._most = most
        self._streams: OrderedDict[str, Stream] = OrderedDict()
        self._lifecycles: dict[str, TaskLifecycle] = dict(SHIPPED)

    def transitions(self, batch: Sequence[LoggedEvent]) -> Iterator[Transition]:
        """The transitions of the events of a batch, in order.

        The store is read before the first transition is returned, so that the same batch can be
        given again after an error.
        """
        fields = [_fields(logged) for logged in batch]
        self._recall(batch)
        return self._transitions(zip(batch, fields, strict=True))

    def forget(self) -> None:
        """Clear the cache: it may include events that will be given again."""
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
        """Read the streams of the batch that are not new and not in the cache."""
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
        """Read a stream up to an event, then add it to the cache."""
        before = upto.position - 1
        stream = Stream()
        for logged in view.events(0, MAX_EVENTS, stream=upto.stream, upto=before):
            self._apply(stream, logged, _fields(logged))
        self._streams[upto.stream] = stream

    def _apply(self, stream: Stream, logged: LoggedEvent, fields: EventFields) -> Transition:
        level = level_of(logged.name)
        _learn(stream, logged, fields)
        transition = Transition(
            logged, level, stream, fields, usage=_charged(stream, logged, fields)
        )
        lifecycle = self._lifecycle(stream.lifecycle) if level == "task" else LIFECYCLES.get(level)
        if lifecycle is None:
            return transition
        key = (level, logged.subject or "")
        place = stream.places.get(key)
        legal = None if place is None else lifecycle.move.get((place.state, logged.name))
        target = legal or fields.state or lifecycle.targets.get(logged.name)
        if target is None:
            return transition
        if target in lifecycle.terminal:
            transition = _ended(transition)
        stream.places[key] = Place(target, logged.at)
        if level == "run" and target in lifecycle.terminal:
            del stream.places[key]
        if level in ("task", "job"):
            _open_or_end(stream, place.state if place else None, target, lifecycle, logged.at)
        transition = transition._replace(
            target=target,
            ending=_ending(lifecycle, target),
            under_review=isinstance(lifecycle, TaskLifecycle)
            and lifecycle.by_state[target].under_review,
        )
        if place is None or (legal is None and fields.state is None):
            # It is new: created by this event, or by a new version of the plan.
            return transition._replace(source=NOWHERE, since=logged.at)
        return transition._replace(source=place.state, since=place.since)

    def _lifecycle(self, lifecycle_id: str) -> Lifecycle | None:
        """The lifecycle of a task; the store is read for one that is new here."""
        if lifecycle_id not in self._lifecycles and lifecycle_id:
            with self._store.read() as view:
                self._lifecycles.update(view.lifecycles())
        return self._lifecycles.get(lifecycle_id)


def _fields(logged: LoggedEvent) -> EventFields:
    return _decode(logged.data) if logged.data and logged.name in READ else _NOTHING


def _learn(stream: Stream, logged: LoggedEvent, fields: EventFields) -> None:
    if logged.version == 1:
        stream.begun_at = stream.opened_at = logged.at
    if logged.name in ("task_created", "job_created"):
        stream.intent, stream.lifecycle = fields.intent, fields.lifecycle
        stream.task_id, stream.parent_id = fields.task_id, fields.parent_id
        stream.root_id = fields.root_id
        stream.trace = parse_traceparent(fields.options.traceparent)
    elif logged.name == "task_migrated":
        stream.lifecycle = fields.lifecycle
    elif logged.name == "plan_generated" and fields.plan is not None:
        stream.capabilities = {
            step.name: "+".join(sorted(step.capabilities_required)) for step in fields.plan.steps
        }
    elif logged.name == "run_queued":
        previous = stream.last.get(fields.step)
        stream.runs[logged.subject or ""] = Began(
            fields.step, fields.attempt, fields.worker, previous, fields.resource
        )
    elif logged.name == "run_joined" and logged.subject in stream.runs:
        began = stream.runs[logged.subject]
        stream.runs[logged.subject] = began._replace(session=fields.session_id)


def _charged(stream: Stream, logged: LoggedEvent, fields: EventFields) -> Usage | None:
    """What a charge adds to the cost of its run: the event has the totals of the run."""
    if logged.name != "run_charged":
        return None
    run = logged.subject or ""
    before = stream.usage.get(run, Usage())
    model = fields.model or before.model
    stream.usage[run] = Usage(fields.cost, fields.tokens_in, fields.tokens_out, model)
    return stream.usage[run].since(before)


def _open_or_end(
    stream: Stream, source: str | None, target: str, lifecycle: Lifecycle, at: int
) -> None:
    if source is not None and _ending(lifecycle, source) is not None:
        stream.opened_at = at
    if _ending(lifecycle, target) is not None:
        stream.ends += 1


def _ending(lifecycle: Lifecycle, state: str) -> Ending | None:
    """How a task or a job has ended in this state; some states can be left again."""
    if isinstance(lifecycle, TaskLifecycle):
        return lifecycle.by_state[state].ending
    return JOB_ENDINGS.get(state) if lifecycle is LIFECYCLES["job"] else None


def _ended(transition: Transition) -> Transition:
    """Record the end of a run, and add its begin to the transition."""
    if transition.level != "run":
        return transition
    began = transition.stream.runs.pop(transition.subject, None)
    if began is not None:
        transition.stream.last[began.step] = transition.subject
    usage = transition.stream.usage.pop(transition.subject, None)
    return transition._replace(began=began, usage=usage)
