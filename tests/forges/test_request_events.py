"""Which event a task gets from the current state of its pull request."""

from typing import Any

import pytest

from detent.integrations.forges.forge import Check, PullRequest, Review
from detent.integrations.forges.request_events import (
    Pushed,
    can_be_merged,
    next_event,
)
from detent.kernel.task_lifecycle import Phase
from detent.task_lifecycles import OPTIONAL
from detent.task_lifecycles.document_file import read_document

OURS, OLD, THEIRS = "a" * 40, "b" * 40, "c" * 40
PUSHED = Pushed("detent/t", OURS)
FAILED = Check("tests", "failed", "E  assert 1 == 2")
PASSED, PENDING = Check("tests", "passed"), Check("lint", "pending")
APPROVED = Review("1", "alice", True, "approved", OURS)


def request(**given: Any) -> PullRequest:
    fields = {"head": OURS, "conflict": False, **given}
    state = fields.pop("state", "open")
    head = fields.pop("head")
    return PullRequest("acme/app", 2, "URL", state, "detent/t", "main", head, **fields)


def asked(commit: str = OURS, **given: Any) -> Review:
    return Review("2", "bob", True, "changes_requested", commit, "No.")._replace(**given)


def event(state: str, found: PullRequest, *, unread: bool = False) -> str | None:
    sent = next_event(state, PUSHED, found, unread=unread)
    return None if sent is None else sent.event


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (request(), None),
        (request(state="merged"), "task_merged"),
        (request(state="closed"), "task_closed"),
        (request(has_branch=False, checks=(FAILED,)), "task_needs_person"),
        (request(checks=(FAILED,)), "task_checks_failed"),
        (request(checks=(FAILED, PENDING)), None),
        (request(reviews=(asked(),)), "task_changes_requested"),
        (request(reviews=(asked(trusted=False),)), None),
        (request(conflict=True), "task_conflicted"),
        (request(conflict=None, reviews=(APPROVED,)), None),
        (request(reviews=(APPROVED,), checks=(PASSED,)), "task_approved"),
        (request(reviews=(APPROVED,), checks=(PENDING,)), None),
        (request(reviews=(APPROVED._replace(trusted=False),)), None),
        (request(reviews=(APPROVED, asked(OLD))), None),
        (request(reviews=(APPROVED._replace(commit=OLD),), checks=(PASSED,)), None),
    ],
)
def test_an_open_request(found: PullRequest, expected: str | None) -> None:
    assert event("open", found) == expected


def test_comments_on_lines_that_the_agent_has_not_read_send_it_back() -> None:
    assert event("open", request(), unread=True) == "task_changes_requested"


def test_what_is_about_an_older_commit_is_not_applied_again() -> None:
    assert event("open", request(reviews=(asked(OLD),))) is None


def test_commits_of_others_stop_what_would_send_the_agent_back() -> None:
    sent = next_event("open", PUSHED, request(head=THEIRS, checks=(FAILED,)))
    assert sent is not None
    assert sent.event == "task_needs_person"
    assert "others have pushed to it" in str(sent.comment)
    approved = APPROVED._replace(commit=THEIRS)
    assert event("open", request(head=THEIRS, reviews=(approved,))) == "task_approved"


def test_a_request_is_open_when_it_shows_the_pushed_commit() -> None:
    assert event("pushed", request()) == "task_opened"
    assert event("pushed", request(head=OLD)) is None


def test_an_approval_that_was_withdrawn_needs_a_person() -> None:
    assert event("approved", request(reviews=(APPROVED,))) is None
    assert event("approved", request()) == "task_needs_person"
    stale = next_event("approved", PUSHED, request(head=THEIRS, reviews=(APPROVED,)))
    assert stale == (
        "task_needs_person",
        f"URL was approved before its last commit, {THEIRS[:12]}.",
    )


def test_a_person_who_must_decide_is_left_alone_until_the_end() -> None:
    assert event("needs_person", request(checks=(FAILED,))) is None
    assert event("needs_person", request(state="merged")) == "task_merged"


def test_the_log_of_each_failed_check_is_in_the_comment() -> None:
    sent = next_event("open", PUSHED, request(checks=(FAILED, PASSED, Check("lint", "failed"))))
    assert sent is not None
    assert "assert 1 == 2" in str(sent.comment)
    assert str(sent.comment).endswith("lint")


def test_only_the_pushed_commit_is_merged() -> None:
    ready = request(reviews=(APPROVED,), checks=(PASSED,))
    assert can_be_merged("approved", PUSHED, ready)
    assert not can_be_merged("open", PUSHED, ready)
    assert not can_be_merged("approved", PUSHED, ready._replace(head=THEIRS))
    assert not can_be_merged("approved", PUSHED, ready._replace(conflict=None))
    assert not can_be_merged("approved", PUSHED, ready._replace(checks=(FAILED,)))
    old = APPROVED._replace(commit=OLD)
    assert not can_be_merged("approved", PUSHED, ready._replace(reviews=(old,)))


def test_every_event_is_a_row_of_the_lifecycle() -> None:
    lifecycle = read_document(OPTIONAL["pull_request"].read_text(encoding="utf-8"))[1]
    idle = [state.name for state in lifecycle.states if state.phase is Phase.IDLE]
    found = [
        (state, sent.event)
        for state in idle
        if state not in lifecycle.terminal and state != "pending"
        for given in (
            request(),
            request(state="merged"),
            request(state="closed"),
            request(checks=(FAILED,)),
            request(reviews=(asked(),)),
            request(conflict=True),
            request(reviews=(APPROVED,), checks=(PASSED,)),
            request(head=THEIRS, conflict=True),
        )
        if (sent := next_event(state, PUSHED, given)) is not None
    ]
    assert len(found) > 20
    assert [each for each in found if each not in lifecycle.move] == []
