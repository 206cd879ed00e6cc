"""What only GitLab has: secret tokens, separate numbers, jobs that may fail, ranges of lines."""

import base64
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks.webhooks import Webhook

from detent.errors import Misconfigured
from detent.integrations.forges.forge import NewRequest
from detent.integrations.forges.forge_config import connect_gitlab, gitlab_config
from detent.operations.forge_hook import Named
from detent.operations.gitlab_hook import ident, named, signed
from detent.settings import Settings
from tests.forges.forge_cases import BRANCH, REPO, SIGNING_KEY, GitLabCase, gitlab_case
from verification.gitlab.gitlab_state import NoteState, Refusal, StatusState

PROJECT = {"path_with_namespace": "group/sub/app"}


@pytest.fixture
def case(tmp_path: Path) -> Iterator[GitLabCase]:
    with gitlab_case(tmp_path) as made:
        assert isinstance(made, GitLabCase)
        made.push({"code.py": "a = 1\nb = 20\nc = 3\n"})
        made.forge.open_request(REPO, NewRequest("Fix b", "", BRANCH))
        yield made


# ---- deliveries --------------------------------------------------------------------------------


def test_a_secret_token_is_compared() -> None:
    assert signed("a secret", {"x-gitlab-token": "a secret"}, b"{}")
    for wrong in ("", "another", "a secret "):
        assert not signed("a secret", {"x-gitlab-token": wrong}, b"{}")
    assert not signed("a secret", {}, b"{}")


def test_a_signing_token_covers_the_id_and_the_time() -> None:
    at, body = datetime.now(UTC), '{"object_kind": "push"}'
    headers = {
        "webhook-id": "0123456789",
        "webhook-timestamp": str(int(at.timestamp())),
        "webhook-signature": Webhook(SIGNING_KEY).sign("0123456789", at, body),
    }
    assert signed(SIGNING_KEY, headers, body.encode())
    two = {**headers, "webhook-signature": f"v1,{'A' * 43}= {headers['webhook-signature']}"}
    assert signed(SIGNING_KEY, two, body.encode())
    for changed in ({"webhook-id": "0123456780"}, {"webhook-timestamp": "1"}):
        assert not signed(SIGNING_KEY, {**headers, **changed}, body.encode())
    token = {**headers, "x-gitlab-token": SIGNING_KEY, "webhook-signature": ""}
    assert not signed(SIGNING_KEY, token, body.encode()), "the token itself signs nothing"
    other = "whsec_" + base64.b64encode(b"x" * 32).decode()
    assert not signed(other, headers, body.encode())
    for broken in ("whsec_not base64", "whsec_é", "whsec_"):
        assert not signed(broken, headers, body.encode())


def test_the_signed_id_counts() -> None:
    ids = {"idempotency-key": "11111111", "x-gitlab-event-uuid": "22222222"}
    assert ident(ids) == "11111111"
    assert ident({"x-gitlab-event-uuid": "22222222"}) == "22222222"
    assert ident({**ids, "webhook-signature": "v1,x", "webhook-id": "33333333"}) == "33333333"
    assert ident({**ids, "webhook-signature": "v1,x"}) is None
    assert ident({"idempotency-key": "a b"}) is None


@pytest.mark.parametrize(
    ("payload", "named_in_it"),
    [
        ({"object_kind": "issue", "object_attributes": {"iid": 7}}, {"issues": (7,)}),
        (
            {"object_kind": "note", "issue": {"iid": 7}, "object_attributes": {"id": 1}},
            {"issues": (7,)},
        ),
        (
            {
                "object_kind": "note",
                "merge_request": {"iid": 7, "source_branch": "detent/t1"},
                "object_attributes": {"id": 1},
            },
            {"branches": ("detent/t1",), "requests": (7,)},
        ),
        (
            {
                "object_kind": "merge_request",
                "object_attributes": {"iid": 7, "source_branch": "detent/t1"},
            },
            {"branches": ("detent/t1",), "requests": (7,)},
        ),
        (
            {"object_kind": "pipeline", "object_attributes": {"ref": "detent/t1"}},
            {"branches": ("detent/t1",)},
        ),
        ({"object_kind": "build", "ref": "detent/t1"}, {"branches": ("detent/t1",)}),
        ({"object_kind": "push", "ref": "refs/heads/main"}, {"branches": ("main",)}),
        ({"object_kind": "issue", "object_attributes": {"iid": "7"}}, {}),
    ],
)
def test_a_delivery_names_branches_issues_and_requests(
    payload: dict[str, Any], named_in_it: dict[str, Any]
) -> None:
    found = named({}, {**payload, "project": PROJECT})
    assert found == Named("group/sub/app", **named_in_it)


# ---- merge requests ----------------------------------------------------------------------------


def test_a_number_means_an_issue(case: GitLabCase) -> None:
    assert case.forge.issue(REPO, 1) is None, "there is a merge request with this number"


def test_lists_have_all_their_pages(case: GitLabCase) -> None:
    numbers = [case.open_issue(f"issue {at}", "") for at in range(230)]
    assert sorted(each.number for each in case.forge.issues(REPO, None)) == numbers


def test_states_of_jobs(case: GitLabCase) -> None:
    states = ("success", "skipped", "manual", "created", "pending", "canceled", "failed")
    made = [StatusState(at, name, name) for at, name in enumerate(states)]
    made.append(StatusState(90, "may fail", "failed", allow_failure=True))
    made.append(StatusState(91, "other", "failed", "3 problems"))
    case.project.statuses[case.request.sha] = made
    found = case.forge.request(REPO, BRANCH)
    assert found is not None
    checks = {each.name: (each.state, each.log) for each in found.checks}
    assert checks == {
        **dict.fromkeys(("success", "skipped", "manual", "may fail"), ("passed", "")),
        **dict.fromkeys(("created", "pending"), ("pending", "")),
        **dict.fromkeys(("canceled", "failed"), ("failed", "")),
        "other": ("failed", "3 problems"),
    }


@pytest.mark.parametrize(
    ("position", "expected"),
    [
        ({"new_line": 3, "old_line": 3}, ("new.py", "after", 3, 3)),
        ({"new_line": None, "old_line": 2}, ("old.py", "before", 2, 2)),
        (
            {"new_line": 5, "line_range": {"start": {"new_line": 3}, "end": {"new_line": 5}}},
            ("new.py", "after", 3, 5),
        ),
        ({"position_type": "file"}, ("new.py", "after", 0, 0)),
    ],
)
def test_the_lines_of_a_comment(
    case: GitLabCase, position: dict[str, Any], expected: tuple[str, str, int, int]
) -> None:
    place = {"position_type": "text", "old_path": "old.py", "new_path": "new.py", **position}
    case.request.discussions["d1"] = [NoteState(1, "alice", "Why?", position=place)]
    case.request.discussions["d2"] = [NoteState(2, "alice", "A general comment")]
    found = case.forge.request(REPO, BRANCH)
    assert found is not None
    (thread,) = found.threads
    assert (thread.file, thread.side, thread.start, thread.end) == expected


def test_a_verdict_of_a_guest_is_not_trusted(case: GitLabCase) -> None:
    case.project.members["guest"] = 10
    case.review("approved", "guest")
    found = case.forge.request(REPO, BRANCH)
    assert found is not None
    assert [(each.author, each.trusted) for each in found.reviews] == [("guest", False)]


def test_an_approval_that_was_withdrawn_does_not_count(case: GitLabCase) -> None:
    case.review("approved")
    case.request.approved_by.clear()
    found = case.forge.request(REPO, BRANCH)
    assert found is not None
    assert found.reviews == ()


def test_the_local_gitlab_refuses_a_status_twice(case: GitLabCase) -> None:
    case.project.set_status("0" * 40, "x", "running")
    with pytest.raises(Refusal, match="Cannot transition status via :run from :running"):
        case.project.set_status("0" * 40, "x", "running")
    with pytest.raises(Refusal):
        case.project.set_status("0" * 40, "x", "pending")


# ---- settings ----------------------------------------------------------------------------------


def test_settings_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    repositories = ("group/sub/app=fix",)
    assert gitlab_config(Settings(gitlab_repositories=repositories)).repositories == {
        "group/sub/app": "fix"
    }
    with pytest.raises(Misconfigured, match=r"gitlab.merge must be one of merge, squash"):
        gitlab_config(Settings(gitlab_merge="rebase"))
    with pytest.raises(Misconfigured, match="GitLab is not configured"):
        connect_gitlab(Settings())
    monkeypatch.setitem(sys.modules, "gitlab", None)
    monkeypatch.delitem(sys.modules, "detent.integrations.forges.gitlab_forge", raising=False)
    with pytest.raises(Misconfigured) as refused:
        connect_gitlab(Settings(gitlab_token="env:X"))
    assert refused.value.hint == "Install it with: pip install 'detent[gitlab]'"
