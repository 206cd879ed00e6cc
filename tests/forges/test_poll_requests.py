"""A poll asks GitHub what has changed. A request of what has not changed does not count."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from detent.integrations.forges.github_forge import GitHubForge
from detent.integrations.forges.github_responses import KeptResponses
from tests.agents.scene import Step
from tests.forges.conftest import FILES
from tests.forges.world import REPO, TOKEN, World, world

FIX: list[Step] = [{"write": {"code.py": "a = 1\nb = 20\nc = 3\n"}}, {"commit": "fix b"}]


@pytest.fixture
def polling(tmp_path: Path) -> Iterator[World]:
    """An installation that polls in every pass."""
    with world(tmp_path, FILES, github_interval_ms=1) as made:
        yield made


def counted(w: World) -> list[str]:
    """The requests of one poll that count for the limit of GitHub."""
    before = len(w.server.counted)
    w.sync()
    return w.server.counted[before:]


def test_a_poll_without_changes_counts_the_list_of_issues_and_the_comments(polling: World) -> None:
    w = polling
    w.agent(FIX)
    with w.s.working():
        w.opened()
        w.sync(2)
        unchanged = ["GET /repos/acme/app/issues", "POST /graphql"]
        assert [counted(w), counted(w)] == [unchanged, unchanged]
        # A check does not change the pull request, and is seen by the next poll.
        w.people.check(w.pull, "tests", "success")
        read = counted(w)
        assert read[-1].endswith("/check-runs")
        w.people.review(w.pull, "APPROVED")
        w.reaches("approved", "github.acme.app.1")


def test_a_comment_on_a_page_that_was_not_there_is_read(w: World) -> None:
    """The page before it is unchanged, and GitHub's response about it names no next page."""
    forge = GitHubForge(w.server.url, TOKEN)
    issue = w.people.open_issue("long")
    for number in range(100):
        w.people.comment(issue, f"comment {number}")
    try:
        for known in (100, 101):
            found = forge.issue(REPO, issue.number)
            assert found is not None
            assert len(found.notes) == known
            w.people.comment(issue, "the next one")
    finally:
        forge.close()


class Pages:
    """A request for pages of ten bytes, each with a tag."""

    def __init__(self) -> None:
        self.full: list[int] = []

    def get(self, page: int, headers: dict[str, str]) -> Any:
        tag = {"etag": f"tag {page}"}
        if headers.get("If-None-Match") == tag["etag"]:
            return SimpleNamespace(status_code=304, headers=tag, content=b"")
        self.full.append(page)
        return SimpleNamespace(status_code=200, headers=tag, content=b"0123456789")


def test_only_the_responses_that_were_used_last_are_kept() -> None:
    pages, kept = Pages(), KeptResponses(max_bytes=25)
    for page in (1, 2, 1, 3, 1, 2):  # with the third, the second is the oldest
        assert kept.get(pages.get, page).content == b"0123456789"
    assert pages.full == [1, 2, 3, 2]
