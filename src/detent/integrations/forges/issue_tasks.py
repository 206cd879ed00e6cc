"""Issues that become tasks: which of them do, and the task that each becomes.

The id of the task is made from the issue, so an issue becomes at most one task.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from detent.errors import Refused
from detent.integrations.forges.forge import Issue
from detent.integrations.forges.markers import is_own
from detent.kernel.entities import Task
from detent.kernel.task_lifecycle import Phase, TaskLifecycle
from detent.operations.context import Core
from detent.operations.registry import Caller
from detent.store.port import ReadTransaction
from detent.store.types import Query
from detent.submission.command import submit_task

MAX_TITLE = 200
#: How many tasks are read from the store at a time.
PAGE_SIZE = 500
#: How much of the digest of a repository's name is in an id.
DIGEST_LETTERS = 8


@dataclass(frozen=True, kw_only=True)
class IssueConfig:
    """Which issues of a tracker become tasks, and which tasks."""

    #: The task type of the issues of each repository.
    repositories: Mapping[str, str]
    #: How an issue becomes a task; empty: not in this way.
    label: str = ""
    assignee: str = ""
    command: str = ""
    #: The lifecycle of the tasks; None for the default one.
    lifecycle: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    interval_ms: int = 60_000


class Place(NamedTuple):
    """The issue that a task was made from."""

    repo: str
    issue: int


class IssueTask(NamedTuple):
    """A task that was made from an issue and has not ended."""

    task: Task
    version: int
    title: str
    place: Place
    phase: Phase


def task_id_of(core: Core, forge: str, place: Place) -> str:
    """The id of the task of an issue, which may not exist yet.

    The issue whose first id is taken gets the second one, so that no id of an existing task
    changes.
    """
    first, second = _ids(forge, place)
    with core.store.read() as view:
        rows = view.page(Query("tasks", {"id": [first, second]}, limit=2))
    own = {row["id"]: place_of(forge, row) == place for row in rows}
    return second if second in own or not own.get(first, True) else first


def _ids(forge: str, place: Place) -> tuple[str, str]:
    """The ids that the task of an issue may have.

    `a/b.c` and `a/b/c` look alike in the first one. The second has a digest of the name.
    """
    plain = re.sub(r"[^A-Za-z0-9._-]", ".", place.repo)
    digest = hashlib.sha256(place.repo.encode()).hexdigest()[:DIGEST_LETTERS]
    return f"{forge}.{plain}.{place.issue}", f"{forge}.{plain}-{digest}.{place.issue}"


def place_of(forge: str, row: Mapping[str, Any]) -> Place | None:
    """The issue that a task was made from; None if it is not of this forge.

    A caller can submit a task with any payload and can edit it. It cannot choose the source of a
    forge, and the id of an existing task does not change.
    """
    payload = row["payload"]
    given = payload.get("issue") if isinstance(payload, Mapping) else None
    if row["source"] != forge or not isinstance(given, Mapping):
        return None
    number = given.get("number")
    place = Place(str(given.get("repository")), number if isinstance(number, int) else 0)
    return place if row["id"] in _ids(forge, place) else None


def asks_for_task(issue: Issue, config: IssueConfig) -> bool:
    """Whether a label, the assignment or a comment makes the issue a task."""
    if not issue.open:
        return False
    labelled = bool(config.label) and config.label in issue.labels
    assigned = bool(config.assignee) and config.assignee in issue.assignees
    return labelled or assigned or any(_commands(each, config) for each in issue.notes)


def may_ask_for_task(issue: Issue, config: IssueConfig) -> bool:
    """Whether an issue asks for a task, as far as is known before its comments are read."""
    commented = issue.open and bool(config.command) and issue.has_notes
    return commented or asks_for_task(issue, config)


def _commands(note: Any, config: IssueConfig) -> bool:
    first = note.body.split(maxsplit=1)[:1]
    return bool(config.command) and note.trusted and not is_own(note) and first == [config.command]


def add_task(core: Core, tracker: str, issue: Issue, config: IssueConfig) -> str:
    """Submit the task of an issue, unless it exists; return its id."""
    given = {
        "id": task_id_of(core, tracker, Place(issue.repo, issue.number)),
        "intent": config.repositories[issue.repo],
        "lifecycle": config.lifecycle,
        "title": issue.title[:MAX_TITLE],
        "payload": {
            "title": issue.title,
            "body": issue.body,
            "issue": {
                "forge": tracker,
                "repository": issue.repo,
                "number": issue.number,
                "url": issue.url,
            },
        },
        "options": config.options,
        "run": True,
    }
    context = core.submission_context(Caller(tracker))
    submission = submit_task(context, given, source=tracker)
    try:
        core.engine.do(submission.command, submission.actor)
    except Refused as refusal:
        if refusal.code != "task_exists":
            raise
    return str(given["id"])


def find_task(view: ReadTransaction, tracker: str, task_id: str) -> IssueTask | None:
    """The task, if it is of this tracker and has not ended."""
    known = next(iter(view.tasks([task_id])), None)
    rows = view.page(Query("tasks", {"id": task_id}, limit=1))
    if known is None or not rows:
        return None
    task, version = known
    place = place_of(tracker, rows[0])
    lifecycle = view.lifecycles()[task.lifecycle]
    if place is None or task.state in lifecycle.terminal:
        return None
    return IssueTask(task, version, rows[0]["title"] or "", place, lifecycle.phase(task.state))


def live_tasks(core: Core, tracker: str) -> list[str]:
    """The tasks of a tracker that have not ended; of each lifecycle the oldest first."""
    with core.store.read() as view:
        return [
            str(row["id"])
            for each in view.lifecycles().values()
            for row in _live_rows(view, tracker, each)
        ]


def _live_rows(
    view: ReadTransaction, tracker: str, lifecycle: TaskLifecycle
) -> Iterator[Mapping[str, Any]]:
    states = [state for state in lifecycle.state_names if state not in lifecycle.terminal]
    where = {"source": tracker, "lifecycle": lifecycle.id, "state": states}
    query = Query("tasks", where, "created_at", limit=PAGE_SIZE)
    while rows := view.page(query):
        yield from rows
        query = query._replace(after=(rows[-1]["created_at"], rows[-1]["id"]))
