"""The comments of a task with their replies, from its events, and their places in a diff."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from detent import views
from detent.operations import schemas
from detent.operations.context import Core
from detent.operations.review_diffs import TaskDiff
from detent.operations.reviewed_diff import content_of
from detent.review.comment_places import Anchor, Place, place_in
from detent.review.unified_diff import Diff
from detent.store.log_walk import events_of
from detent.store.port import ReadTransaction
from detent.store.types import LoggedEvent


class Reply(NamedTuple):
    """A reply to a comment. `run_id` is the run that replied; None for a person."""

    id: str
    author: str
    at: int
    text: str
    run_id: str | None


class Thread(NamedTuple):
    """A comment and its replies. `place` is where its lines are in the diff that is shown.

    `round` is the round in which it was written; the first one is 1.
    """

    id: str
    author: str
    at: int
    round: int
    text: str
    anchor: Anchor
    open: bool = True
    replies: tuple[Reply, ...] = ()
    place: Place | None = None


def threads_of(view: ReadTransaction, task_id: str) -> list[Thread]:
    """The comments of a task, oldest first."""
    return folded(events_of(view, task_id))


def folded(events: Iterable[LoggedEvent]) -> list[Thread]:
    """The comments that these events of one task have left."""
    threads: dict[str, Thread] = {}
    for logged in events:
        change = CHANGES.get(logged.name)
        if change is not None and logged.data:
            data = msgspec.json.decode(logged.data)
            threads[data["comment_id"]] = change(threads.get(data["comment_id"]), logged, data)
    return list(threads.values())


def _added(_: Thread | None, logged: LoggedEvent, data: Mapping[str, Any]) -> Thread:
    lines = (data["side"], data["start"], data["end"], tuple(data["quoted"]))
    anchor = Anchor(data["diff"], data["file"], *lines)
    author = data.get("by") or logged.actor
    return Thread(data["comment_id"], author, logged.at, data["round"] + 1, data["text"], anchor)


def _replied(thread: Thread | None, logged: LoggedEvent, data: Mapping[str, Any]) -> Thread:
    assert thread is not None
    run_id = data["run_id"]
    author = logged.actor if run_id is None else f"run:{run_id}"  # reported by it or its worker
    reply = Reply(data["reply_id"], author, logged.at, data["text"], run_id)
    return thread._replace(replies=(*thread.replies, reply))


def _resolved(thread: Thread | None, logged: LoggedEvent, data: Mapping[str, Any]) -> Thread:
    assert thread is not None
    return thread._replace(open=False)


def _reopened(thread: Thread | None, logged: LoggedEvent, data: Mapping[str, Any]) -> Thread:
    assert thread is not None
    return thread._replace(open=True)


CHANGES: Mapping[str, Callable[[Thread | None, LoggedEvent, Mapping[str, Any]], Thread]] = {
    "comment_added": _added,
    "comment_replied": _replied,
    "comment_resolved": _resolved,
    "comment_reopened": _reopened,
}


# ---- places ----------------------------------------------------------------------------------


class Places:
    """Finds the places of anchors in one of the diffs of a task; reads every other one once."""

    def __init__(self, core: Core, diffs: Sequence[TaskDiff], sha256: str | None) -> None:
        self._core, self._known = core, diffs
        self._diffs: dict[str, Diff | None] = {}
        self._now = None if sha256 is None else self._diff(sha256)

    def place(self, anchor: Anchor) -> Place | None:
        """Where the lines of the anchor are; None if they are not in the diff any more."""
        if self._now is None:
            return None
        return place_in(anchor, self._diff(anchor.diff), self._now)

    def _diff(self, sha256: str) -> Diff | None:
        if sha256 not in self._diffs:
            self._diffs[sha256] = content_of(self._core, self._known, sha256)
        return self._diffs[sha256]


def placed(threads: Iterable[Thread], places: Places) -> list[Thread]:
    """The comments with their places in a diff."""
    return [each._replace(place=places.place(each.anchor)) for each in threads]


# ---- as JSON ---------------------------------------------------------------------------------


def comment_schema(thread: Thread) -> schemas.Comment:
    anchor = thread.anchor
    return {
        "id": thread.id,
        "author": thread.author,
        "at": views.utc(thread.at),
        "round": thread.round,
        "state": "open" if thread.open else "resolved",
        "text": thread.text,
        "anchor": {
            "diff": anchor.diff,
            "file": anchor.file,
            "side": anchor.side,
            "start": anchor.start,
            "end": anchor.end,
            "quoted": list(anchor.quoted),
        },
        "place": place_schema(thread.place),
        "replies": [
            {
                "id": reply.id,
                "author": reply.author,
                "at": views.utc(reply.at),
                "text": reply.text,
                "run_id": reply.run_id,
            }
            for reply in thread.replies
        ],
    }


def place_schema(place: Place | None) -> schemas.CommentPlace | None:
    if place is None:
        return None
    return {"file": place.file, "side": place.side, "start": place.start, "end": place.end}
