"""What is shown in Slack about items that wait for a person, read from the store. Reads only."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from detent.errors import DetentError
from detent.kernel.entities import Task
from detent.operations.actions import PERSON, actions_on, events_on
from detent.operations.budgets import with_ancestors
from detent.operations.context import Core
from detent.operations.registry import Caller
from detent.operations.review_diffs import event_data
from detent.operations.review_page import review
from detent.operations.waiting_work import Row, WaitingFilter, kinds_of, waiting_work
from detent.operations.why_reasons import budget_raises
from detent.store.port import ReadTransaction
from detent.store.types import Query

#: The caller that reads; it has snoozed nothing.
READER = Caller("slack")
#: The beginning of an action that sends an event of the task's lifecycle.
SEND = "send"
#: The kinds of items whose message shows the error of the job.
FAILURES = ("failure", "quarantine")
#: How many events are read to find out how an item was settled.
MAX_EVENTS = 1_000
#: By the event that settled an item, what is shown, and the field of the event that is quoted.
SETTLED_BY: Mapping[str, tuple[str, str]] = {
    "task_accepted": ("Accepted", "comment"),
    "task_accepting": ("Accepted", "comment"),
    "task_rejected": ("Rejected", "comment"),
    "task_answered": ("Answered", "answer"),
    "wait_ended": ("Answered", "value"),
    "wait_completed": ("Answered", "value"),
    "budget_raised": ("Budget raised", ""),
    "task_unblocked": ("Continued", ""),
    "task_retried": ("Retried", ""),
    "task_queued": ("Queued again", ""),
    "task_resumed": ("Resumed", ""),
    "task_cancelled": ("Stopped", ""),
    "task_deleted": ("Deleted", ""),
    "job_cancelled": ("Stopped", ""),
    "job_deleted": ("Deleted", ""),
}


class Item(NamedTuple):
    """A task that waits for a person, or a question of a job.

    `key` is the same as long as the task waits for the same reason: it has one message in each
    channel. `mark` changes whenever what is shown may have changed.
    """

    key: str
    kind: str
    row: Row
    #: The stream of its events: the id of the task or of the job.
    stream: str
    version: int
    mark: str
    #: The name of the question of a job; None for a task.
    question: str | None = None

    @property
    def detail(self) -> Mapping[str, Any]:
        """What the item says itself: the text of a question and its options, or an error."""
        found: Mapping[str, Any] = self.row["blocked_detail"]
        return found


class Reference(NamedTuple):
    """What a button is about; its value. Slack sends it back when a person uses the button."""

    #: The task or the job that the action is for.
    id: str
    #: The version of the task that was shown; None for the question of a job.
    version: int | None
    #: The name of the question, and the SHA-256 of the diff, that were shown.
    question: str | None = None
    diff: str | None = None

    def encoded(self) -> str:
        return json.dumps(self, separators=(",", ":"))


def reference_from(text: str) -> Reference:
    return msgspec.json.decode(text, type=Reference)


class Offer(NamedTuple):
    """A legal action, and what it is for."""

    action: str
    reference: Reference


class Details(NamedTuple):
    """What a message shows in addition to the row: legal actions, the review or the error."""

    offers: Sequence[Offer]
    review: Mapping[str, Any] | None = None
    #: Why the task has failed.
    error: str = ""


class Settlement(NamedTuple):
    """How an item was settled: what happened, by whom, and a comment or an answer."""

    what: str
    actor: str = ""
    quoted: str = ""


class Waiting(NamedTuple):
    """All items, and whether the list is complete."""

    items: Sequence[Item]
    complete: bool


# ---- the items -------------------------------------------------------------------------------


def waiting_items(view: ReadTransaction) -> Waiting:
    """The items of the inbox that have a task or a job."""
    found = waiting_work(view, READER, WaitingFilter())
    kinds = kinds_of(view, found.tasks)
    jobs = [row["job_id"] for row in (*found.tasks, *found.questions) if row["job_id"]]
    versions = {job.id: version for job, version in view.jobs(jobs)} if jobs else {}
    budgets = _budget_versions(view, [row for row in found.tasks if row["blocked_by"] == "budget"])
    tasks = [
        _task_item(row, kinds[row["id"]], versions.get(row["job_id"], 0), budgets.get(row["id"]))
        for row in found.tasks
    ]
    questions = [_question_item(row, versions.get(row["job_id"], 0)) for row in found.questions]
    return Waiting([*tasks, *questions], found.beyond == 0)


def _task_item(row: Row, kind: str, job_version: int, budgets: str | None) -> Item:
    wait = row["blocked_detail"].get("wait")
    key = f"{row['id']}@{row['state_at']}" + (f"/{wait}" if wait else "")
    mark = f"{row['version']}.{job_version}.{budgets or ''}"
    return Item(key, kind, row, row["id"], row["version"], mark)


def _question_item(row: Row, version: int) -> Item:
    shown = {**row, "id": row["job_id"], "title": "", "blocked_detail": row["detail"]}
    key = f"{row['job_id']}?{row['name']}"
    return Item(key, "question", shown, row["job_id"], version, str(row["begun_at"]), row["name"])


def _budget_versions(view: ReadTransaction, rows: Iterable[Row]) -> dict[str, str]:
    """By task id, the versions of the tasks above, whose budgets may be spent too."""
    return {
        task.id: ".".join(str(view.version_of(each.id)) for each in with_ancestors(view, task)[1:])
        for task, _ in view.tasks([row["id"] for row in rows])
    }


def still_waits(view: ReadTransaction, key: str) -> bool:
    """Whether a task is still in the state in which it waited, by the key of its item."""
    task_id, _, since = key.partition("@")
    rows = view.page(Query("tasks", {"id": [task_id]}, limit=1))
    return any(str(row["state_at"]) == since.partition("/")[0] for row in rows)


# ---- one item --------------------------------------------------------------------------------


def details_of(core: Core, item: Item) -> Details:
    """The legal actions on an item now, and what a reviewer needs."""
    if item.question is not None:
        return Details([Offer("answer", Reference(item.stream, None, item.question))])
    with core.store.read() as view:
        found = next(iter(view.tasks([item.stream])), None)
        if found is None:
            return Details([])
        task, version = found
        legal = actions_on(view, [task])[task.id]
        events = events_on(view, [task], PERSON)[task.id]
        raises = list(_raises(view, task))
        error = _error(view, task) if item.kind in FAILURES else ""
    reviewed = _review(core, task.id) if item.kind == "review" else None
    diff = None if reviewed is None or reviewed["diff"] is None else reviewed["diff"]["sha256"]
    own = Reference(task.id, version, task.blocked_detail.get("wait"), diff)
    sent = [f"{SEND}:{event}" for event in events]
    return Details([*raises, *(Offer(each, own) for each in (*legal, *sent))], reviewed, error)


def _error(view: ReadTransaction, task: Task) -> str:
    """The error of the last job of a task."""
    jobs = view.jobs([task.job_id]) if task.job_id else ()
    return next((job.error or "" for job, _ in jobs), "")


def _raises(view: ReadTransaction, task: Task) -> Iterator[Offer]:
    """The spent budgets of the tasks above, which must be raised for the task to continue."""
    if task.blocked_by == "budget":
        for each in budget_raises(view, task):
            yield Offer("raise", Reference(each.id, view.version_of(each.id)))


def _review(core: Core, task_id: str) -> Mapping[str, Any] | None:
    try:
        return dict(review(core, READER, task_id=task_id))
    except DetentError:  # deleted since, or its diff cannot be read: the message has no summary
        return None


def settlement_of(
    view: ReadTransaction, stream: str, question: str | None, version: int, position: int
) -> Settlement:
    """How an item was settled: from the first event after the version that was shown."""
    for event in view.events(position, MAX_EVENTS, stream=stream):
        if event.version <= version or event.name not in SETTLED_BY:
            continue
        data = event_data(event)
        if question is not None and data.get("wait", event.subject) not in (None, question):
            continue  # another question of the job
        what, field = SETTLED_BY[event.name]
        quoted = data.get(field)
        text = quoted if isinstance(quoted, str) else json.dumps(quoted, ensure_ascii=False)
        return Settlement(what, event.actor, "" if quoted is None else text)
    return Settlement("Settled")
