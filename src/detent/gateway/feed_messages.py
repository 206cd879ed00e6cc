"""The messages of the live feed as JSON: the events of the log, `task_completed`, `task_question`.

A frame is a batch of messages in one of two forms: a JSON array for WebSockets, or server-sent
events.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

from detent import views
from detent.kernel.events import EVENTS, level_of
from detent.kernel.task_events import TASK_EVENTS
from detent.kernel.task_lifecycle import Phase, TaskLifecycle
from detent.kernel.wait_kinds import PEOPLE
from detent.store.port import Store
from detent.store.stale_reads import read_stale
from detent.store.types import LoggedEvent
from detent.task_lifecycles import SHIPPED


class Filter(NamedTuple):
    """Which messages a reader gets."""

    project: str | None = None
    task: str | None = None
    #: Names of events and types of messages; empty for all.
    names: frozenset[str] = frozenset()

    def admits(self, logged: LoggedEvent) -> bool:
        if self.project not in (None, logged.project):
            return False
        if self.task is None or logged.stream == self.task:
            return True
        return logged.stream.startswith(f"{self.task}-j")


class FeedEvent(NamedTuple):
    """An event of the log; with the state that it led its task to, if that needs a message."""

    logged: LoggedEvent
    state: str | None = None


def with_states(store: Store, batch: Sequence[LoggedEvent]) -> list[FeedEvent]:
    """The events with the states that their messages need. Reads the store."""
    tasks = {each.stream for each in batch if _may_stop(each.name)}
    if not tasks:
        return [FeedEvent(each) for each in batch]
    with read_stale(store, batch[-1].position) as view:
        known = view.lifecycles()
        rows = {task.id: (known[task.lifecycle], task.state) for task, _ in view.tasks(tasks)}
    return [FeedEvent(each, _stopped(each, *rows.get(each.stream, GONE))) for each in batch]


#: The lifecycle and the state of a task that was deleted.
GONE = (None, "")
#: Events of tasks that continue them, whatever their lifecycle is.
CONTINUED = frozenset(
    {"task_created", "task_queued", "task_started", "task_unblocked", "task_answered"}
)


def _may_stop(name: str) -> bool:
    """Whether the event may end a task, or stop it until a person acts."""
    known = name in TASK_EVENTS or (level_of(name) == "task" and name not in EVENTS)
    return known and name not in CONTINUED


def _stopped(logged: LoggedEvent, lifecycle: TaskLifecycle | None, present: str) -> str | None:
    """The state that the event led to if its task ended, is blocked or is under review there.

    If it can lead to several states, the present one tells which.
    """
    if not _may_stop(logged.name):
        return None
    for each in SHIPPED.values() if lifecycle is None else (lifecycle,):
        targets = dict.fromkeys(row.target for row in each.rows if row.event == logged.name)
        for name in sorted(targets, key=lambda target: target != present)[:1]:
            state = each.by_state[name]
            if state.ending is not None or state.under_review or state.phase is Phase.BLOCKED:
                return name
    return None


class Message(NamedTuple):
    """One message: the name that a filter selects it by, and its JSON text."""

    name: str
    text: str


class EventMessages(NamedTuple):
    """An event with its messages."""

    logged: LoggedEvent
    messages: tuple[Message, ...]


def encoded(batch: Iterable[FeedEvent]) -> list[EventMessages]:
    return [EventMessages(each.logged, tuple(_messages(each))) for each in batch]


def _messages(each: FeedEvent) -> Iterable[Message]:
    logged = each.logged
    event = views.event(logged)
    yield Message(logged.name, note("event", **event))
    if each.state is None:
        return
    place = {"task_id": logged.stream, "position": logged.position}
    yield Message("task_completed", note("task_completed", **place, state=each.state))
    data = event["data"] or {}
    if logged.name == "task_blocked" and data.get("reason") in PEOPLE:
        detail = data.get("detail") or {}
        asked = {"question": detail.get("text"), "options": detail.get("options")}
        yield Message("task_question", note("task_question", **place, **asked))


def note(kind: str, **content: Any) -> str:
    """One message as JSON."""
    return msgspec.json.encode({"type": kind, **content}).decode()


# ---- frames ----------------------------------------------------------------------------------

#: Positions with their messages.
Groups = Sequence[tuple[int, Sequence[str]]]
Form = Callable[[Groups], str]


class Frame(NamedTuple):
    """A batch of messages in one form, and the cursor after it."""

    text: str
    cursor: int


def as_array(groups: Groups) -> str:
    """A frame of a WebSocket: a JSON array of messages."""
    return "[" + ",".join(text for _, texts in groups for text in texts) + "]"


def as_stream(groups: Groups) -> str:
    """Server-sent events. Only the last message of a position has its id, so a cut loses none."""
    lines = []
    for position, texts in groups:
        lines += [f"data: {text}\n\n" for text in texts]
        lines[-1] = f"id: {position}\n{lines[-1]}"
    return "".join(lines)


def frame(batch: Iterable[EventMessages], chosen: Filter, form: Form, cursor: int) -> Frame | None:
    """The frame of the messages that match the filter; None if there are none."""
    groups: list[tuple[int, Sequence[str]]] = []
    for each in batch:
        if chosen.admits(each.logged):
            texts = [
                message.text
                for message in each.messages
                if not chosen.names or message.name in chosen.names
            ]
            if texts:
                groups.append((each.logged.position, texts))
    if not groups:
        return None
    groups.append((cursor, [note("cursor", cursor=cursor)]))
    return Frame(form(groups), cursor)


def single(form: Form, kind: str, cursor: int, **content: Any) -> Frame:
    """A frame with one message about the connection: hello, cursor, resync or bye."""
    return Frame(form([(cursor, [note(kind, cursor=cursor, **content)])]), cursor)
