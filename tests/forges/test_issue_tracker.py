"""An issue tracker that is no forge: the adapter of the page makes tasks of issues."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from detent import App, Run
from detent.integrations.forges import issue_sync, issue_tasks
from detent.integrations.forges.forge import ForgeBusy, Issue, Note
from detent.integrations.forges.markers import marked
from detent.kernel.entities import Task
from detent.operations.context import Core
from detent.operations.forge_deliveries import open_deliveries, record
from detent.operations.forge_hook import Named
from detent.store.log_walk import events_of
from detent.store.types import Query
from tests.docs.pages import ROOT, blocks, imported
from tests.worker.waiting import installation, until, working

PAGE = ROOT / "docs" / "howto" / "trackers.md"
TASK = "tickets.OPS.7"
app = App()


@app.intent("fix")
def fix(run: Run, title: str, body: str, issue: dict[str, Any]) -> str:
    return f"{title}: {run.ask('Which value?', choices=['20', 'Twenty'])}"


class Tracked:
    """The tracker of the page, and an installation that is connected to it."""

    def __init__(self, core: Core, page: Any) -> None:
        self.core, self._page, self.tickets = core, page, page.Tickets()
        self.add(Issue("OPS", 7, "b is wrong", "", "URL", True, ("detent",)))
        self.add(Issue("OPS", 8, "not for detent", "", "URL", True))
        self.restart()

    def add(self, issue: Issue) -> None:
        self.tickets.tickets[issue.repo, issue.number] = issue

    def restart(self) -> None:
        """Another process takes over; it polls first."""
        self._keeper = self._page.tickets_keeper(self.core, "here", self.tickets)

    def end_term(self) -> None:
        self._keeper.election._until = 0

    def sync(self) -> bool:
        self._keeper.service.run_once()
        return True

    def deliver(self, ident: str) -> str:
        return record(self.core, "tickets", ident, Named("OPS", issues=(7, 8)))

    def says(self, text: str, *, trusted: bool = True) -> None:
        self.tickets.write("OPS", 7, Note("", "alice", trusted, text))

    def notes(self) -> list[Note]:
        return list(self.tickets.issue("OPS", 7).notes)

    def tasks(self) -> dict[str, str]:
        """The state of each task."""
        with self.core.store.read() as view:
            return {row["id"]: row["state"] for row in view.page(Query("tasks", limit=10))}

    def reaches(self, state: str) -> Task:
        until(lambda: self.sync() and self.tasks()[TASK] == state, f"the task is {state}")
        with self.core.store.read() as view:
            return next(task for task, _ in view.tasks([TASK]))


@pytest.fixture
def tracked(tmp_path: Path) -> Iterator[Tracked]:
    [block] = [each for each in blocks(PAGE.read_text("utf-8")) if each.language == "python"]
    with installation(tmp_path) as core:
        core.intents = {"fix": {}}
        yield Tracked(core, imported(block, tmp_path))


def test_an_issue_with_the_label_becomes_one_task(tracked: Tracked) -> None:
    tracked.sync()
    assert list(tracked.tasks()) == [TASK]
    assert [tracked.deliver(each) for each in ("d1", "d1", "d2")] == [
        *("accepted", "repeated", "accepted")
    ]
    tracked.sync()
    tracked.restart()
    tracked.sync()
    assert list(tracked.tasks()) == [TASK]
    with tracked.core.store.read() as view:
        names = [each.name for each in events_of(view, TASK)]
    assert names.count("task_created") == 1


def test_an_issue_is_found_by_its_delivery(tracked: Tracked) -> None:
    tracked.sync()
    tracked.add(Issue("OPS", 8, "now for detent", "", "URL", True, ("detent",)))
    tracked.sync()
    assert list(tracked.tasks()) == [TASK], "the next poll is due in a minute"
    tracked.deliver("d1")
    tracked.sync()
    assert sorted(tracked.tasks()) == [TASK, "tickets.OPS.8"]


def test_a_comment_answers_the_question_of_the_task(tracked: Tracked) -> None:
    tracked.sync()
    with working(tracked.core, app):
        tracked.reaches("blocked")
        until(lambda: tracked.sync() and tracked.notes(), "the question")
        tracked.restart()
        tracked.sync()
        (question,) = tracked.notes()
        assert question.body.startswith("Which value?\n\nAnswer with one of:\n- 20\n- Twenty\n")
        tracked.says("20", trusted=False)
        tracked.says("twenty")
        assert tracked.deliver("answered") == "accepted"
        tracked.reaches("done")
    tracked.restart()
    tracked.sync()
    assert [each.author for each in tracked.notes()] == ["detent-bot", "alice", "alice"]
    with tracked.core.store.read() as view:
        (job,) = view.page(Query("jobs", {"task_id": TASK}, limit=10))
    assert job["result"] == "b is wrong: Twenty"


def test_a_process_that_no_longer_leads_writes_nothing(
    tracked: Tracked, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading the issue may take as long as the rest of the term."""
    tracked.sync()
    read = tracked.tickets.issue

    def slow(*place: Any) -> Issue | None:
        taken = {"name": "elsewhere", "until": 1 << 60}
        tracked.core.engine.transaction(lambda tx: tx.put_rows("system_state", {"tickets": taken}))
        tracked.end_term()
        found: Issue | None = read(*place)
        return found

    with working(tracked.core, app):
        until(lambda: tracked.tasks()[TASK] == "blocked", "the question")
        monkeypatch.setattr(tracked.tickets, "issue", slow)
        tracked.sync()
    assert tracked.notes() == []


def test_a_repository_that_the_settings_no_longer_have_stops_nothing(
    tracked: Tracked, caplog: pytest.LogCaptureFixture
) -> None:
    tracked.sync()
    tracked.add(Issue("OLD", 1, "of a removed repository", "", "URL", True, ("detent",)))
    tracked.add(Issue("OPS", 8, "now for detent", "", "URL", True, ("detent",)))
    record(tracked.core, "tickets", "removed", Named("OLD", issues=(1,)))
    tracked.deliver("d1")
    tracked.sync()
    assert sorted(tracked.tasks()) == [TASK, "tickets.OPS.8"]
    assert "a delivery of OLD makes no tasks" in caplog.text
    assert open_deliveries(tracked.core, "tickets") == []


def test_only_an_issue_that_may_ask_for_a_task_is_read(
    tracked: Tracked, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []

    def issue(_: str, number: int) -> None:
        read.append(number)

    monkeypatch.setattr(tracked.tickets, "issue", issue)
    tracked.sync()
    assert read == [7]
    plain = tracked.tickets.tickets["OPS", 8]
    config = issue_tasks.IssueConfig(repositories={"OPS": "fix"}, command="/detent")
    assert issue_tasks.may_ask_for_task(plain, config), "its comments are not known"
    assert not issue_tasks.may_ask_for_task(plain._replace(has_notes=False), config)


def test_a_task_does_not_wait_until_all_issues_are_read(
    tracked: Tracked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(issue_sync, "MAX_ISSUES", 2)
    tracked.sync()
    for number in range(10, 15):
        tracked.add(Issue("OPS", number, "new", "", "URL", True, ("detent",)))
    tracked.restart()
    synced: list[str] = []
    monkeypatch.setattr(
        issue_sync.IssueSync, "sync_task", lambda _, task_id: synced.append(task_id)
    )
    made = []
    while len(tracked.tasks()) < 6:
        tracked.sync()
        made.append(len(tracked.tasks()))
    assert made == [2, 4, 6]
    assert synced[0] == TASK


def test_all_tasks_that_have_not_ended_are_read_by_a_poll(
    tracked: Tracked, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(10, 15):
        tracked.add(Issue("OPS", number, "new", "", "URL", True, ("detent",)))
    tracked.sync()
    monkeypatch.setattr(issue_tasks, "PAGE_SIZE", 2)
    found = issue_tasks.live_tasks(tracked.core, "tickets")
    assert sorted(found) == sorted(tracked.tasks())
    assert len(found) == 6


def test_a_secret_and_a_marker_in_a_question_are_not_written(tracked: Tracked) -> None:
    """A comment at a forge is often public."""
    secret = "ghp_" + "a1B2" * 9
    written = marked(f"Use {secret}? <!-- detent:question other -->", "question own")
    assert secret not in written
    assert written.count("<!-- detent:") == 1
    assert written.endswith("<!-- detent:question own -->")


def test_issues_that_could_not_be_read_are_read_later(
    tracked: Tracked, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next poll lists only issues that have changed since this one."""
    read = tracked.tickets.issue

    def busy(*_: object) -> Issue | None:
        monkeypatch.setattr(tracked.tickets, "issue", read)
        raise ForgeBusy("busy", retry_after_s=0)

    monkeypatch.setattr(tracked.tickets, "issue", busy)
    tracked.sync()
    assert tracked.tasks() == {}
    monkeypatch.setattr(tracked.tickets, "issues", lambda *_: [])
    tracked.sync()
    assert list(tracked.tasks()) == [TASK]


def test_the_marker_of_another_account_is_no_question(tracked: Tracked) -> None:
    tracked.sync()
    forged = marked("", f"question {TASK}-j1 ask")
    tracked.says(forged, trusted=False)
    tracked.says("20")
    with working(tracked.core, app):
        tracked.reaches("blocked")
        until(lambda: tracked.sync() and len(tracked.notes()) == 3, "the question")
        tracked.sync()
    wait = f"question {TASK}-j1 {tracked.reaches('blocked').blocked_detail['wait']}"
    assert forged == marked("", wait), "the forged marker is that of the question"
    assert tracked.notes()[-1].author == "detent-bot"
