"""The commands of the page about GitHub work, against the GitHub of tests."""

from pathlib import Path

from tests.docs.pages import ROOT, Reader
from verification.github.github_people import People
from verification.github.github_server import GitHubServer

PAGE = ROOT / "docs" / "howto" / "github.md"


def test_the_issue_of_the_page_becomes_a_task(tmp_path: Path) -> None:
    server = GitHubServer(tmp_path / "github", {"github_pat_example": "detent-bot"})
    People(server.add_repo("acme/app")).open_issue("b is wrong", labels=("detent",))
    with server.serving() as url, Reader(tmp_path / "home") as reader:
        reader.replaced["https://api.github.com"] = url
        output = reader.follow(PAGE)
    assert "ok     github: the account detent-bot works on acme/app" in output
    assert "ok     github webhook: deliveries are accepted at /hooks/github" in output
    assert "changes_requested" in output
    assert "b is wrong" in output
