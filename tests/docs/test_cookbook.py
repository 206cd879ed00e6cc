"""The recipes of the cookbook work as their pages say."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.agents.repository import git, make_repository
from tests.docs.pages import ROOT, Reader
from tests.e2e.installation import wait_until
from tests.integrations.slack_world import ADA, WEB
from verification.github.github_people import People
from verification.github.github_server import GitHubServer
from verification.slack.slack_server import SlackServer
from verification.slack.slack_server import serving as serving_slack

COOKBOOK = ROOT / "docs" / "cookbook"
#: Recipes whose page has a test of the handler.
WITH_A_TEST = (
    *("gpu-pool", "fan-out", "wait-for-payment", "compensation", "rate-limited-api", "large-file"),
    *("deploy-with-approval", "flaky-devices", "celery-app", "support-agent"),
)
#: Recipes that are followed with a running detent, and what their last command prints.
LIVE = {
    "dependency-updates": "requests==2.34.2",
    "best-of-three": "return sum(prices)",
    "budget-per-project": "1.80",
}
TOKEN = "github_pat_example"


@pytest.mark.parametrize("page", WITH_A_TEST)
def test_the_test_of_a_recipe_passes(tmp_path: Path, page: str) -> None:
    with Reader(tmp_path / "home") as reader:
        assert " passed" in reader.follow(COOKBOOK / f"{page}.md")


@pytest.mark.parametrize("page", LIVE)
def test_a_recipe_is_followed(tmp_path: Path, page: str) -> None:
    with Reader(tmp_path / "home") as reader:
        output = reader.follow(COOKBOOK / f"{page}.md")
    assert LIVE[page] in output[-400:]


def test_a_deployment_is_approved_in_slack(tmp_path: Path) -> None:
    slack = SlackServer()
    slack.add_channel(WEB)
    replaced = {
        "C0123ABCD": WEB,
        "U0123ABCD": ADA,
        "xoxb-example": slack.bot_token,
        "xapp-example": slack.app_token,
    }

    def click() -> None:
        [posted] = wait_until(lambda: slack.in_channel(WEB) or None, "the question is in Slack")
        slack.sockets.deliver(slack.press(ADA, posted, "option:1"))

    with serving_slack(slack) as url, Reader(tmp_path / "home", replaced) as reader:
        reader.environment |= {"DETENT_SLACK_URL": url, "DETENT_SLACK_INTERVAL_MS": "50"}
        with meanwhile(click):
            output = reader.follow(COOKBOOK / "slack-approval.md")
    assert "deployed 1.4.0" in output


def test_an_issue_becomes_a_merged_pull_request(tmp_path: Path) -> None:
    server = GitHubServer(tmp_path / "github", {TOKEN: "detent-bot"})
    repo = server.add_repo("acme/app")
    people = People(repo)
    people.open_issue("It is broken", labels=("detent",))

    def review() -> None:
        pull = wait_until(lambda: repo.pulls.get(max(repo.pulls, default=0)), "the request is open")
        first = repo.head_of(pull)
        people.check(pull, "tests", "failure", log="no test covers this")
        wait_until(lambda: repo.head_of(pull) != first or None, "the agent has pushed again")
        people.check(pull, "tests", "success")
        people.review(pull, "APPROVED")

    with server.serving() as url:
        address = url.replace("http://", f"http://x-access-token:{TOKEN}@")
        origin = make_repository(tmp_path / "origin", {"app.txt": "broken\n"})
        git(origin, "push", "--quiet", f"{address}/git/acme/app.git", "main")
        replaced = {"https://github.com": f"{address}/git"}
        with Reader(tmp_path / "home", replaced) as reader, meanwhile(review):
            reader.environment |= {"DETENT_GITHUB_URL": url, "DETENT_GITHUB_INTERVAL_MS": "100"}
            output = reader.follow(COOKBOOK / "pull-request-loop.md")
    assert output.count("task_checks_failed") == 1
    assert repo.git("show", "main:test.txt").stdout.strip() == "with a test"


@contextmanager
def meanwhile(act: Callable[[], None]) -> Iterator[None]:
    """A person who acts while the page is followed; what goes wrong there fails the test."""
    errors: list[BaseException] = []

    def run() -> None:
        try:
            act()
        except BaseException as error:
            errors.append(error)

    person = threading.Thread(target=run, daemon=True)
    person.start()
    yield
    person.join(timeout=120)
    assert errors == []
    assert not person.is_alive()


def test_every_recipe_is_in_the_index_and_is_tested() -> None:
    pages = {each.stem for each in COOKBOOK.glob("*.md")} - {"index"}
    index = (COOKBOOK / "index.md").read_text("utf-8")
    assert {page for page in pages if f"({page}.md)" not in index} == set()
    assert len(pages) == 15
    own = {"slack-approval", "pull-request-loop"}
    assert pages == {*WITH_A_TEST, *LIVE, *own}
