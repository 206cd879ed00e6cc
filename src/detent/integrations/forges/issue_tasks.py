"""Issues that become tasks: which of them do, and the task that each becomes.

The id of the task is made from the issue, so an issue becomes at most one task.
"""

import hashlib
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from detent.errors import Refused
from detent.integrations.forges.forge import Issue
from detent.integrations.forges.forge_config import ForgeConfig
from detent.integrations.forges.markers import is_own
from detent.operations.context import Core
from detent.operations.registry import Caller
from detent.store.types import Query
from detent.submission.command import submit_task

LIFECYCLE = "pull_request"
MAX_TITLE = 200
#: How much of the digest of a repository's name is in an id.
DIGEST_LETTERS = 8


class Place(NamedTuple):
    """The issue that a task was made from."""

    repo: str
    issue: int


def task_id_of(core: Core, forge: str, place: Place) -> str:
    """The id of the task of an issue, which may not exist yet.

    `a/b.c` and `a/b/c` look alike in an id. The repository whose issue comes second gets an id
    with a digest of its name, so that no id of an existing task changes.
    """
    plain = re.sub(r"[^A-Za-z0-9._-]", ".", place.repo)
    digest = hashlib.sha256(place.repo.encode()).hexdigest()[:DIGEST_LETTERS]
    first, second = f"{forge}.{plain}.{place.issue}", f"{forge}.{plain}-{digest}.{place.issue}"
    with core.store.read() as view:
        rows = view.page(Query("tasks", {"id": [first, second]}, limit=2))
    places = {row["id"]: place_of(forge, row["payload"]) for row in rows}
    return second if second in places or places.get(first) not in (None, place) else first


def place_of(forge: str, payload: Any) -> Place | None:
    """The issue that a task was made from, by its payload; None if it is not of this forge."""
    given = payload.get("issue") if isinstance(payload, Mapping) else None
    if not isinstance(given, Mapping) or given.get("forge") != forge:
        return None
    return Place(str(given["repository"]), int(given["number"]))


def asks_for_task(issue: Issue, config: ForgeConfig) -> bool:
    """Whether a label, the assignment or a comment makes the issue a task."""
    if not issue.open:
        return False
    labelled = bool(config.label) and config.label in issue.labels
    assigned = bool(config.assignee) and config.assignee in issue.assignees
    return labelled or assigned or any(_commands(each, config) for each in issue.notes)


def _commands(note: Any, config: ForgeConfig) -> bool:
    first = note.body.split(maxsplit=1)[:1]
    return bool(config.command) and note.trusted and not is_own(note) and first == [config.command]


def add_task(core: Core, forge: str, issue: Issue, intent: str) -> str:
    """Submit the task of an issue, unless it exists; return its id."""
    place = Place(issue.repo, issue.number)
    caller = Caller(forge)
    given = {
        "id": task_id_of(core, forge, place),
        "intent": intent,
        "lifecycle": LIFECYCLE,
        "title": issue.title[:MAX_TITLE],
        "payload": {
            "title": issue.title,
            "body": issue.body,
            "issue": {
                "forge": forge,
                "repository": issue.repo,
                "number": issue.number,
                "url": issue.url,
            },
        },
        "options": {"on_accept": "push"},
        "run": True,
    }
    submission = submit_task(core.submission_context(caller), given, source=forge)
    try:
        core.engine.do(submission.command, submission.actor)
    except Refused as refusal:
        if refusal.code != "task_exists":
            raise
    return str(given["id"])
