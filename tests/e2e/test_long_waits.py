"""Days pass between processes that are killed and started again, on SQLite and on PostgreSQL."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.e2e.installation import DEADLINE_S, wait_until
from tests.e2e.moved import Moved

HOUR_S = 3_600
DAY_S = 24 * HOUR_S
PHONES = ("phone-1", "phone-2", "phone-3")

APP = """
from pathlib import Path

import detent

app = detent.App()


def mark(effects: str, word: str) -> str:
    with Path(effects).open("a") as file:
        file.write(word + "\\n")
    return word


@app.intent("patient")
def patient(run: detent.Run, effects: str) -> list[str]:
    before = run.step("before", mark, effects, "before")
    run.sleep(7 * 24 * 3600)
    return [before, run.step("after", mark, effects, "after")]


@app.intent("asking")
def asking(run: detent.Run, effects: str) -> list[str]:
    before = run.step("before", mark, effects, "before")
    reply = run.ask("Ship it?", ["yes", "no"])
    return [before, reply, run.step("after", mark, effects, "after")]


@app.intent("dial", capabilities_required=["phone"])
def dial(run: detent.Run, effects: str) -> str:
    mark(effects, run.resource)
    if run.resource != "phone-3":
        raise detent.ResourceFailed(f"{run.resource} has no line")
    return "connected"
"""


class Waiting(Moved):
    """With the app above, on a store of this test's."""

    def __init__(self, root: Path, url: str) -> None:
        super().__init__(root)
        self.store = url
        (self.project / "own.py").write_text(APP)

    @property
    def environment(self) -> dict[str, str]:
        own = {"DETENT_STORE_URL": self.store, "DETENT_KEEPER_INTERVAL_MS": "100"}
        return super().environment | own

    def up(self) -> None:
        self.start("--app", "own:app")

    def submit(self, intent: str) -> str:
        body = {"intent": intent, "payload": {"effects": str(self.effects(intent))}, "run": True}
        return str(self.post("/api/tasks", body).json()["id"])

    def put(self, path: str, body: dict[str, Any]) -> None:
        headers = {"Authorization": f"Bearer {self.token}"}
        answer = httpx2.put(self.url + path, json=body, headers=headers, timeout=DEADLINE_S)
        assert answer.status_code == 200, answer.text

    def effects(self, intent: str) -> Path:
        return self.home / f"{intent}.effects"

    def marks(self, intent: str) -> list[str]:
        return self.effects(intent).read_text().splitlines()

    def result(self, task_id: str) -> Any:
        job = self.get(f"/api/jobs/{task_id}-j1")
        assert job["attempt"] == 1
        return job["result"]

    def parked(self, task_id: str) -> None:
        """Its job waits, and the keeper has run all checks twice since."""

        def look() -> bool:
            return bool(self.get(f"/api/jobs/{task_id}-j1")["state"] == "parked")

        wait_until(look, f"the job of {task_id} is parked")
        for _ in range(2):
            self.keeper_passes()
        assert look()

    def keeper_passes(self) -> None:
        before = self.heartbeat()
        wait_until(lambda: self.heartbeat() != before, "a pass of the keeper")

    def heartbeat(self) -> str:
        return str(self.get("/api/state")["values"]["last_heartbeat"])


@pytest.fixture(params=["sqlite", "postgres"])
def detent(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Waiting]:
    url = "" if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    made = Waiting(tmp_path, url)
    made.up()
    yield made
    made.stop()


SWITCH = ("step_failed_resource", "step_switching_resource", "step_leased", "step_running")


def test_a_week_of_sleep_an_answer_after_days_and_a_resource_that_fails(detent: Waiting) -> None:
    """One story for all three: starting a process is what takes its time here."""
    for name in PHONES:
        detent.put(f"/api/resources/{name}", {"capabilities": ["phone"]})
    asleep, asked, dialled = (detent.submit(each) for each in ("patient", "asking", "dial"))
    detent.wait_for(dialled, "ready")
    detent.wait_for(asked, "blocked")
    detent.parked(asleep)

    detent.kill()
    detent.pass_time(3 * DAY_S)
    detent.up()
    detent.parked(asleep)
    assert detent.task(asked)["blocked_by"] == "question"
    answered = detent.post(f"/api/tasks/{asked}/answer", {"answer": "yes"})
    assert answered.json()["outcome"] == "answered"
    detent.wait_for(asked, "ready")

    detent.kill()
    detent.pass_time(3 * DAY_S)
    detent.up()
    detent.parked(asleep)
    assert detent.marks("patient") == ["before"]
    detent.pass_time(DAY_S + HOUR_S)  # this time while it runs
    detent.wait_for(asleep, "ready")

    assert detent.marks("patient") == ["before", "after"]
    assert detent.marks("asking") == ["before", "after"]
    assert detent.marks("dial") == list(PHONES)
    assert detent.result(asleep) == ["before", "after"]
    assert detent.result(asked) == ["before", "yes", "after"]
    events = detent.get(f"/api/jobs/{dialled}-j1/events")["events"]
    assert [each["name"] for each in events if each["name"].startswith("step_")] == [
        *("step_pending", "step_leased", "step_running"),
        *SWITCH,
        *SWITCH,
        "step_succeeded",
    ]
    assert all(row["in_use"] == 0 for row in detent.get("/api/resources")["items"])
    verified = detent.run("verify", "--accept-unsealed")  # days went by while no keeper ran
    assert verified.returncode == 0, verified.stdout
