"""What every forge must do: the same tests for GitHub and GitLab, each with its local server."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from detent.errors import Misconfigured
from detent.integrations.forges.forge import (
    Check,
    ForgeBusy,
    ForgeRefused,
    NewRequest,
    PullRequest,
    Status,
)
from tests.forges.forge_cases import BRANCH, CASES, REPO, ForgeCase

NEW = NewRequest("Fix b", "Closes #1.", BRANCH)


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ForgeCase]:
    with CASES[request.param](tmp_path) as made:
        yield made


def opened(case: ForgeCase) -> PullRequest:
    """An open request, after the forge has computed its conflicts."""
    case.push({"code.py": "a = 1\nb = 20\nc = 3\n"})
    case.forge.open_request(REPO, NEW)
    case.forge.request(REPO, BRANCH)
    return current(case)


def current(case: ForgeCase) -> PullRequest:
    found = case.forge.request(REPO, BRANCH)
    assert found is not None
    return found


# ---- issues ------------------------------------------------------------------------------------


def test_the_account_of_the_token(case: ForgeCase) -> None:
    assert case.forge.account() == "detent-bot"


def test_an_issue_has_its_comments_and_who_may_be_trusted(case: ForgeCase) -> None:
    number = case.open_issue("b is wrong", "It must be 20.", "detent", "bug")
    case.write(number, "/detent please")
    case.write(number, "me too", "guest", trusted=False)
    found = case.forge.issue(REPO, number)
    assert found is not None
    assert (found.repo, found.number, found.title) == (REPO, number, "b is wrong")
    assert (found.body, found.open, found.labels) == ("It must be 20.", True, ("detent", "bug"))
    notes = [(each.author, each.trusted, each.body) for each in found.notes]
    assert notes == [("alice", True, "/detent please"), ("guest", False, "me too")]
    assert case.forge.issue(REPO, 99) is None


def test_open_issues_are_listed_by_their_last_change(case: ForgeCase) -> None:
    numbers = [case.open_issue(f"issue {at}", "") for at in range(40)]
    assert sorted(each.number for each in case.forge.issues(REPO, None)) == numbers
    assert list(case.forge.issues(REPO, "2030-01-01T00:00:00Z")) == []


def test_a_comment_is_written_by_one_request(case: ForgeCase) -> None:
    number = case.open_issue("b is wrong", "")
    case.forge.comment(REPO, number, "Which b?")
    found = case.forge.issue(REPO, number)
    assert found is not None
    assert [(each.author, each.body) for each in found.notes] == [("detent-bot", "Which b?")]
    assert case.changes() == 1


# ---- requests ----------------------------------------------------------------------------------


def test_a_request_is_opened_and_read(case: ForgeCase) -> None:
    head = case.push({"code.py": "a = 1\nb = 20\nc = 3\n"})
    assert case.forge.request(REPO, BRANCH) is None
    case.forge.open_request(REPO, NEW)
    first = current(case)
    assert (first.branch, first.base, first.head) == (BRANCH, "main", head)
    assert first.state == "open"
    assert (current(case).conflict, current(case).has_branch) == (False, True)
    with pytest.raises(ForgeRefused):
        case.forge.open_request(REPO, NEW)


def test_a_branch_without_commits_has_no_request(case: ForgeCase) -> None:
    assert case.forge.branch_head(REPO, BRANCH) is None
    with pytest.raises(ForgeRefused):
        case.forge.open_request(REPO, NEW)
    head = case.push({"new.py": "x = 1\n"})
    assert case.forge.branch_head(REPO, BRANCH) == head


def test_a_conflict_is_found(case: ForgeCase) -> None:
    opened(case)
    case.push({"code.py": "a = 1\nb = 200\nc = 3\n"}, "main")
    assert current(case).conflict is None
    assert current(case).conflict is True
    with pytest.raises(ForgeRefused):
        case.forge.merge(current(case), "merge")


def test_checks_of_the_last_commit(case: ForgeCase) -> None:
    opened(case)
    for name, state in (("lint", "passed"), ("tests", "failed"), ("build", "pending")):
        case.check(name, state, "1 failed, 3 passed")
    found = {each.name: each for each in current(case).checks}
    assert {name: each.state for name, each in found.items()} == {
        "lint": "passed",
        "tests": "failed",
        "build": "pending",
    }
    assert found["tests"].log.strip() == "1 failed, 3 passed"
    case.check("tests", "passed")
    assert Check("tests", "passed") in [each._replace(url="") for each in current(case).checks]
    case.push({"code.py": "a = 1\nb = 21\nc = 3\n"})
    assert current(case).checks == ()


def test_verdicts_are_about_the_commit_that_was_reviewed(case: ForgeCase) -> None:
    first = opened(case)
    case.review("changes_requested")
    (asked,) = current(case).reviews
    assert (asked.author, asked.trusted, asked.verdict) == ("alice", True, "changes_requested")
    assert asked.commit == first.head
    case.push({"code.py": "a = 1\nb = 22\nc = 3\n"})
    (old,) = current(case).reviews
    assert (old.id, old.commit) == (asked.id, first.head), "the new commit is not reviewed"
    case.review("approved")
    (now,) = current(case).reviews
    assert (now.verdict, now.commit == current(case).head) == ("approved", True)
    assert now.id != asked.id


def test_comments_are_not_seen_without_their_review(case: ForgeCase) -> None:
    """A reviewer publishes while the request is being read."""
    opened(case)
    read = ("/graphql", "/discussions", "/reviews", "/reviewers")

    def publish(when: str, what: str) -> None:
        if when == "after" and what.endswith(read):
            case.server.hook = lambda *_: None
            case.comment_on_line("code.py", 2, "Why 20?")
            case.review("changes_requested", text="See the line.")

    case.server.hook = publish
    found = current(case)
    assert (len(found.threads), len(found.reviews)) == (0, 1)
    (review,) = current(case).reviews
    assert (review.body, review.commit) == ("See the line.", found.head)


def test_comments_on_lines_are_answered_and_resolved(case: ForgeCase) -> None:
    opened(case)
    case.comment_on_line("code.py", 2, "Why 20?")
    request = current(case)
    (thread,) = request.threads
    assert (thread.file, thread.side, thread.start, thread.end) == ("code.py", "after", 2, 2)
    assert [(each.author, each.trusted) for each in thread.notes] == [("alice", True)]
    case.forge.reply(request, thread, "Because of the issue.")
    case.forge.resolve(request, thread)
    (after,) = current(case).threads
    assert ([each.body for each in after.notes], after.resolved) == (
        ["Why 20?", "Because of the issue."],
        True,
    )


def test_the_status_of_detent_is_no_check(case: ForgeCase) -> None:
    head = opened(case).head
    assert case.forge.status(REPO, head) is None
    for status in (Status("pending", "works"), Status("passed", "done")):
        case.forge.set_status(REPO, head, status)
        assert case.forge.status(REPO, head) == status
    case.forge.set_status(REPO, head, Status("passed", "done"))
    assert current(case).checks == ()


def test_a_merge_is_bound_to_the_commit(case: ForgeCase) -> None:
    stale = opened(case)
    case.push({"code.py": "a = 1\nb = 23\nc = 3\n"})
    assert case.forge.merge(stale, "merge") is False
    current(case)
    request = current(case)
    assert case.forge.merge(request, "merge") is True
    assert current(case).state == "merged"
    assert case.repo.git("show", "main:code.py").stdout == "a = 1\nb = 23\nc = 3\n"
    with pytest.raises(ForgeRefused):
        case.forge.merge(request, "merge")


def test_a_closed_request_and_its_branch(case: ForgeCase) -> None:
    opened(case)
    case.close_request()
    assert (current(case).state, current(case).has_branch) == ("closed", True)
    case.delete_branch()
    assert (current(case).state, current(case).has_branch) == ("closed", False)


# ---- faults ------------------------------------------------------------------------------------


def test_a_revoked_token_names_the_setting(case: ForgeCase) -> None:
    case.revoke()
    with pytest.raises(Misconfigured) as refused:
        case.forge.issue(REPO, 1)
    assert refused.value.setting == f"{case.forge.name}.token"


def test_an_unknown_repository_is_refused(case: ForgeCase) -> None:
    with pytest.raises(ForgeRefused) as refused:
        list(case.forge.issues("acme/other", None))
    assert refused.value.http_status == 404


def test_a_rate_limit_says_when_to_continue(case: ForgeCase) -> None:
    case.answer(429, {"Retry-After": "7"})
    with pytest.raises(ForgeBusy) as busy:
        case.forge.issue(REPO, 1)
    assert busy.value.retry_after_s == 7


def test_a_fault_of_the_server_is_not_a_refusal(case: ForgeCase) -> None:
    number = case.open_issue("b is wrong", "")
    case.answer(502, {})
    with pytest.raises(ForgeBusy):
        case.forge.comment(REPO, number, "Which b?")
    assert case.changes() == 1, "nothing is sent again"


# ---- deliveries --------------------------------------------------------------------------------


def test_a_delivery_must_be_signed(case: ForgeCase) -> None:
    headers, body = case.delivery()
    assert case.hook.signed(case.secret, headers, body)
    assert not case.hook.signed(case.secret, headers, body + b" ")
    assert not case.hook.signed(case.secret, {}, body)
    assert not case.hook.signed(case.secret[:-4] + "AAA=", headers, body)


def test_a_delivery_has_an_id_and_names_its_branch(case: ForgeCase) -> None:
    first, second = case.delivery(), case.delivery()
    assert case.hook.ident(first.headers) != case.hook.ident(second.headers)
    assert case.hook.ident(first.headers) == case.hook.ident(dict(first.headers))
    assert case.hook.ident({}) is None
    named = case.hook.named(first.headers, json.loads(first.body))
    assert named is not None
    assert (named.repo, named.branches) == (REPO, (BRANCH,))
    payloads: list[Any] = [{}, [], None, {"project": 1, "repository": []}]
    for payload in payloads:
        assert case.hook.named(first.headers, payload) is None
