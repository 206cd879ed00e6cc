"""The messages of the live feed as JSON: the events of the log, `task_completed`, `task_question`.

A frame is a batch of messages in one of two forms: a JSON array for WebSockets, or server-sent
events.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from detent import views
from detent.kernel.lifecycles import LIFECYCLES
from detent.kernel.wait_kinds import PEOPLE
from detent.store.port import Store
from detent.store.types import LoggedEvent

#: Events that end a task or stop it until a person acts, and the state that each leads to.
ENDINGS: Mapping[str, str] = {
    "task_ready": "ready",
    "task_accepted": "completed",
    "task_failed": "failed",
    "task_timed_out": "timed_out",
    "task_cancelled": "cancelled",
    "task_budget_exceeded": "budget_exceeded",
    "task_blocked": "blocked",
}
#: The event whose state depends on the lifecycle: done on the board, completed under review.
COMPLETED = "task_completed"


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
    """An event of the log; with the lifecycle of its task if the message needs it."""

    logged: LoggedEvent
    lifecycle: str | None = None


def with_lifecycles(store: Store, batch: Sequence[LoggedEvent]) -> list[FeedEvent]:
    """The events with the lifecycles that their messages need. Reads the store."""
    tasks = {each.stream for each in batch if each.name == COMPLETED}
    if not tasks:
        return [FeedEvent(each) for each in batch]
    with store.read() as view:
        lifecycles = {task.id: task.lifecycle for task, _ in view.tasks(tasks)}
    return [FeedEvent(each, lifecycles.get(each.stream)) for each in batch]


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
    state = _ending(each)
    if state is None:
        return
    place = {"task_id": logged.stream, "position": logged.position}
    yield Message("task_completed", note("task_completed", **place, state=state))
    data = event["data"] or {}
    if logged.name == "task_blocked" and data.get("reason") in PEOPLE:
        detail = data.get("detail") or {}
        asked = {"question": detail.get("text"), "options": detail.get("options")}
        yield Message("task_question", note("task_question", **place, **asked))


def _ending(each: FeedEvent) -> str | None:
    """The state that the event has led its task to, if the feed has a message for it."""
    if each.logged.name != COMPLETED:
        return ENDINGS.get(each.logged.name)
    return LIFECYCLES[each.lifecycle or "board"].targets[COMPLETED]


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
