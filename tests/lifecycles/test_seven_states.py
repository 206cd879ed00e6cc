"""A lifecycle of seven states from a file: installed, driven, killed, migrated and verified."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from detent.client import Client
from tests.e2e.installation import Installation, wait_until
from tests.sampling import sampled

FILE = Path(__file__).parent / "documents" / "seven_states.toml"
APP = """
import time
from pathlib import Path

import detent

app = detent.App()


@app.intent("build")
def build(run: detent.Run, marks: str) -> str:
    Path(marks).touch()
    while not Path(marks + ".go").exists():
        run.progress(0.5, "waiting")
        time.sleep(0.05)
    return "built"
"""


class Served(Installation):
    """An installation whose store is given, and whose leases are short."""

    def __init__(self, root: Path, store: str | None) -> None:
        super().__init__(root)
        self.store = store
        self.marks = root / "marks"
        (self.project / "own.py").write_text(APP)

    @property
    def environment(self) -> dict[str, str]:
        given = {} if self.store is None else {"DETENT_STORE_URL": self.store}
        soon = {"DETENT_WORKER_LEASE_MS": "3000", "DETENT_WORKER_HEARTBEAT_MS": "1000"}
        return super().environment | soon | given

    def install(self, text: str, name: str = "delivery.toml") -> Any:
        return self.run("lifecycle", "install", self.written(text, name))

    def written(self, text: str, name: str = "delivery.toml") -> str:
        file = self.project / name
        file.write_text(text)
        return str(file)

    def logged(self) -> list[str]:
        """The lines of the event log."""
        return self.run("events", "--json").stdout.splitlines()

    def submit(self, *arguments: str) -> str:
        about = ("build", "--lifecycle", "delivery", "--set", f"marks={self.marks}")
        return str(self.json("submit", *about, *arguments)["id"])


@pytest.fixture(params=sampled(["sqlite", "postgres"], 2))
def detent(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Served]:
    url = request.getfixturevalue("postgres_url") if request.param == "postgres" else None
    installation = Served(tmp_path, url)
    yield installation
    installation.stop()


def test_it_is_installed_driven_killed_and_verified(detent: Served) -> None:
    detent.start("--app", "own:app")
    installed = detent.json("lifecycle", "install", str(FILE))
    assert (installed["id"], installed["changed"]) == ("delivery", True)
    assert detent.json("lifecycle", "install", str(FILE))["changed"] is False
    assert "approval" in detent.run("lifecycle", "show", "delivery").stdout
    assert "task_sent_back" in detent.run("lifecycle", "diagram", "delivery").stdout

    task = detent.submit()
    wait_until(detent.marks.exists, "the handler has begun")
    assert detent.task(task)["state"] == "building"
    detent.kill()
    detent.start("--app", "own:app")
    detent.marks.with_name("marks.go").touch()
    detent.wait_for(task, "approval")

    assert [each["id"] for each in detent.json("inbox")["items"]] == [task]
    why = detent.json("why", task)
    assert {"task_approved", "task_sent_back"} <= set(why["events"])
    assert f"detent send {task} task_approved" in detent.run("why", task).stdout
    # The state of the response is that of now: a fast worker may have done the work again.
    detent.json("send", task, "task_sent_back", "--comment", "paint it red")
    assert detent.task(task)["rounds"] == 1
    detent.wait_for(task, "approval")
    refused = detent.run("send", task, "task_sent_back")
    assert refused.returncode != 0
    assert "1 round, which is its limit" in refused.stderr
    seen = detent.task(task)["version"]
    path = f"/api/tasks/{task}/events"
    stale = detent.post(path, {"event": "task_approved", "seen": seen - 1})
    assert stale.status_code == 409, stale.text
    done = detent.post(path, {"event": "task_approved", "seen": seen})
    assert done.json()["state"] == "delivered"

    draft = detent.submit("--hold")
    detent.wait_for(draft, "cancelled")
    with Client(detent.url, detent.token) as client:
        messages = list(client.follow(0, follow=False))
    names = [each["name"] for each in messages if each["type"] == "event"]
    assert {"lifecycle_installed", "task_sent_back", "task_approved"} <= set(names)
    ends = {each["task_id"]: each["state"] for each in messages if each["type"] == "task_completed"}
    assert ends == {task: "delivered", draft: "cancelled"}
    detent.kill()
    verified = detent.run("verify")
    assert verified.returncode == 0, verified.stdout + verified.stderr


def test_two_versions_with_live_tasks_and_a_migration_that_strands_none(detent: Served) -> None:
    detent.start("--app", "own:app")
    detent.json("lifecycle", "install", str(FILE))
    detent.marks.with_name("marks.go").touch()
    waiting = detent.submit()
    detent.wait_for(waiting, "approval")
    text = FILE.read_text()
    signed = text.replace("approval", "signature")
    moved = '\n[migrate]\napproval = "signature"\n'
    refused = detent.install("version = 2\n" + signed)
    assert refused.returncode != 0
    assert "stranded" in refused.stderr
    assert detent.install("version = 2\n" + signed + moved).returncode == 0
    young = detent.submit()
    detent.wait_for(young, "signature")
    assert detent.task(young)["lifecycle"] == "delivery@2"
    assert detent.install("version = 3\n" + signed).returncode == 0
    for option, count in (("--dry-run", 1), ("--json", 1), ("--json", 0)):
        done = detent.run("lifecycle", "migrate", "delivery", option)
        assert done.returncode == 1
        assert waiting in done.stdout
        assert "1 task would be" in done.stdout or json.loads(done.stdout)["migrated"] == count
    assert detent.task(waiting)["lifecycle"] == "delivery"
    assert detent.task(young)["lifecycle"] == "delivery@3"
    assert detent.install("version = 4\n" + signed + moved).returncode == 0
    dry = detent.json("lifecycle", "migrate", "delivery", "--dry-run")
    assert (dry["migrated"], dry["stranded"]) == (2, [])
    assert detent.json("lifecycle", "migrate", "delivery")["migrated"] == 2
    assert detent.json("lifecycle", "migrate", "delivery")["migrated"] == 0
    for task in (waiting, young):
        assert detent.json("send", task, "task_approved")["state"] == "delivered"
    rows = {row["name"]: row["tasks"] for row in detent.json("lifecycle", "list")["items"]}
    assert (rows["delivery"], rows["delivery@3"], rows["delivery@4"]) == (0, 0, 2)
    assert detent.stop() == 0
    assert detent.run("verify").returncode == 0


BAD = {
    "unknown predicate": (
        'when = "job_completed"',
        'when = "job_completed"\nif = ["moon_is_full"]',
        ("rules[1].if", "moon_is_full", "rounds_are_left"),
    ),
    "duplicate state": (
        "[states.queued]",
        '[states.draft]\nmeaning = "again"\n\n[states.queued]',
        ("states.draft", "second time"),
    ),
    "event that no one may send": (
        'event = "task_approved"\nto = "delivered"\nwho = ["person"]',
        'event = "task_approved"\nto = "delivered"\nwho = []',
        ("who",),
    ),
    "larger than its limit": ("[states.draft]", "#" * 70_000 + "\n[states.draft]", ("64 KiB",)),
}


@pytest.fixture
def local(tmp_path: Path) -> Served:
    """An installation without a server: commands use its store."""
    return Served(tmp_path, None)


@pytest.mark.parametrize("defect", BAD)
def test_bad_documents_are_refused_with_line_and_field(local: Served, defect: str) -> None:
    old, new, words = BAD[defect]
    text = FILE.read_text()
    assert old in text
    done = local.install(text.replace(old, new))
    assert done.returncode != 0
    assert "delivery.toml:" in done.stderr
    for word in words:
        assert word in done.stderr, done.stderr
    assert local.logged() == []
    assert "delivery" not in [row["name"] for row in local.json("lifecycle", "list")["items"]]


def test_a_lifecycle_that_tasks_have_is_not_removed(local: Served) -> None:
    local.json("lifecycle", "install", str(FILE))
    task = local.json("submit", "runQA", "--lifecycle", "delivery")["id"]
    before = len(local.logged())
    refused = local.run("lifecycle", "remove", "delivery")
    assert refused.returncode != 0
    assert "1 task has the lifecycle delivery" in refused.stderr
    assert len(local.logged()) == before
    local.json("cancel", task)
    local.json("delete", task)
    assert local.json("lifecycle", "remove", "delivery")["removed"] == ["delivery"]
    assert local.run("lifecycle", "show", "delivery").returncode != 0
