"""Deliberately broken variants of the forges, by name, each with the check that must notice it."""

import hmac
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

from detent.engine import Engine
from detent.errors import Unauthorized
from detent.integrations.forges import question_comments, request_events
from detent.integrations.forges.forge import Issue, Note, PullRequest, Review
from detent.integrations.forges.request_events import Pushed, Sent
from detent.kernel.entities import Task
from detent.operations import forge_deliveries, github_hook
from detent.operations.context import Core
from detent.operations.forge_hook import Named
from detent.settings import Settings
from detent.store.memory import MemoryStore
from detent.testing.clock import VirtualClock
from verification.github.github_people import Delivery, delivery
from verification.mutant import Mutant, Patches

SECRET = "hook-secret"
OLD, NEW = "a" * 40, "b" * 40

# ---- mutants ---------------------------------------------------------------------------------


def unsigned_delivery_is_accepted() -> Patches:
    """The signature of a delivery is not compared."""
    yield patch.object(hmac, "compare_digest", lambda *_: True)


def replay_is_accepted() -> Patches:
    """A delivery that was received before is recorded again."""
    record = forge_deliveries.record

    def again(core: Core, tracker: str, ident: str, named: Named) -> str:
        rows = {f"{tracker}:delivery:{ident}": None}
        core.engine.transaction(lambda tx: tx.put_rows(forge_deliveries.TABLE, rows))
        return record(core, tracker, ident, named)

    yield patch.object(forge_deliveries, "record", again)


def stale_state_is_applied() -> Patches:
    """A verdict about an older commit sends the agent back to work."""

    def changes(request: PullRequest, *, unread: bool) -> Sent | None:
        asked = any(each.verdict == "changes_requested" for each in request.reviews)
        return Sent("task_changes_requested") if asked or unread else None

    yield patch.object(request_events, "_changes", changes)


def effect_is_repeated_after_a_crash() -> Patches:
    """What an earlier process has written to the forge is not looked for."""
    yield patch.object(question_comments, "has_marker", lambda *_: False)


# ---- checks ----------------------------------------------------------------------------------


def _received(*deliveries: Delivery) -> list[str]:
    """The states of deliveries at an installation; `refused` for one that is not signed."""
    with tempfile.TemporaryDirectory() as directory:
        secret = Path(directory) / "secret"
        secret.write_text(SECRET)
        store = MemoryStore(VirtualClock())
        settings = Settings(
            github_webhook_secret=f"file:{secret}", github_repositories=("acme/app=fix",)
        )
        core = Core(store, Engine(store), settings)
        found = []
        for each in deliveries:
            try:
                hook = github_hook.GITHUB_HOOK
                received = forge_deliveries.receive(core, hook, each.headers, each.body)
                found.append(received["status"])
            except Unauthorized:
                found.append("refused")
        return found


def _delivery(secret: str) -> Delivery:
    return delivery(secret, "issues", {"repository": {"full_name": "acme/app"}})


def only_signed_deliveries_count() -> None:
    assert _received(_delivery("another secret"), _delivery(SECRET)) == ["refused", "accepted"]


def a_delivery_counts_once() -> None:
    given = _delivery(SECRET)
    assert _received(given, given) == ["accepted", "repeated"]


def only_the_last_commit_counts() -> None:
    review = Review("1", "alice", True, "changes_requested", OLD)
    request = PullRequest(
        "acme/app", 2, "URL", "open", "b", "main", NEW, conflict=False, reviews=(review,)
    )
    assert request_events.next_event("open", Pushed("b", NEW), request) is None


class _Crash(Exception):
    """The process is killed."""


class _Tracker:
    """A tracker with one issue, whose client is killed after its first comment arrived."""

    name = "github"

    def __init__(self) -> None:
        self.issue = Issue("acme/app", 1, "t", "", "", True)
        self.crashes = True

    def account(self) -> str:
        return "detent-bot"

    def comment(self, _repo: str, _number: int, body: str) -> None:
        note = Note(str(len(self.issue.notes)), "detent-bot", True, body)
        self.issue = self.issue._replace(notes=(*self.issue.notes, note))
        if self.crashes:
            self.crashes = False
            raise _Crash


def a_comment_is_written_once() -> None:
    asked = {"wait": "q", "text": "Which?"}
    task = Task(
        *("t", "default", "pull_request", "blocked", 0, "fix", "github", "P2", "t"),
        job_id="t-j1",
        blocked_by="question",
        blocked_detail=asked,
    )
    question = question_comments.question_of(task)
    assert question is not None
    tracker: Any = _Tracker()
    store = MemoryStore(VirtualClock())
    core = Core(store, Engine(store))
    for _ in range(3):
        with suppress(_Crash):
            question_comments.sync_question(
                core, tracker, task, question, tracker.issue, lambda: None
            )
    assert len(tracker.issue.notes) == 1


# ---- both ------------------------------------------------------------------------------------


MUTANTS: Mapping[str, Mutant] = {
    each.patches.__name__.replace("_", "-"): each
    for each in (
        Mutant(unsigned_delivery_is_accepted, only_signed_deliveries_count),
        Mutant(replay_is_accepted, a_delivery_counts_once),
        Mutant(stale_state_is_applied, only_the_last_commit_counts),
        Mutant(effect_is_repeated_after_a_crash, a_comment_is_written_once),
    )
}
