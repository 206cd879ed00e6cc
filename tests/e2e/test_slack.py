"""Slack with a real `detent up`: Socket Mode, requests over HTTP, and kills around a message."""

import os
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from detent import failpoints
from detent.engine import Engine
from detent.operations.leader_election import LEADER_ROLES
from detent.store.store_url import open_store
from tests.e2e.installation import Installation, wait_until
from tests.integrations.slack_world import ADA, WEB
from verification.slack.slack_server import Posted, SlackServer, serving
from verification.slack.slack_sockets import NotAcknowledged

CONFIG = """
[intents.build]
command = ["true"]

[slack]
bot_token = "file:{secrets}/bot"
app_token = "file:{secrets}/app"
signing_secret = "file:{secrets}/signing"
channels = ["{channel} project=web"]
users = ["{user}=ada"]
url = "{url}"
interval_ms = 20
"""
APP = """
from detent import App, Run

app = App()


@app.intent("deploy")
def deploy(run: Run) -> str:
    return run.ask("Which region?", choices=["eu", "us"])
"""


class Scene(Installation):
    """An installation whose failpoints a test can enable, with its Slack."""

    failpoint = ""
    slack: SlackServer

    @property
    def environment(self) -> dict[str, str]:
        armed = {failpoints.VARIABLE: self.failpoint, failpoints.TESTING: "1"}
        own = armed if self.failpoint else {}
        return {**super().environment, **own, "PYTHONPATH": os.pathsep.join([str(self.project)])}

    def submit(self, intent: str) -> str:
        body = {"intent": intent, "project": "web", "title": intent, "run": True}
        answer = self.post("/api/tasks", body)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])

    def message(self, text: str) -> Posted:
        """The only message with this text, as soon as it exists."""

        def look() -> Posted | None:
            found = [each for each in self.slack.in_channel(WEB) if each.text == text]
            assert len(found) <= 1, "a message exists twice"
            return found[0] if found else None

        return wait_until(look, f"the message {text!r}")

    def press(self, text: str, action: str) -> None:
        self.slack.sockets.deliver(self.slack.press(ADA, self.message(text), action))

    def died(self) -> None:
        """Wait for the process, which a failpoint kills."""
        assert self.process is not None
        assert self.process.wait(60) == -9
        self._close()
        store = open_store(str(self.data / "detent.db"))
        store_roles = dict.fromkeys(LEADER_ROLES)  # instead of waiting for the end of its terms
        Engine(store).transaction(lambda tx: tx.put_rows("system_state", store_roles))
        store.close()


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    slack = SlackServer()
    slack.add_channel(WEB)
    with serving(slack) as url:
        made = Scene(tmp_path)
        made.slack, made.data = slack, made.project / ".detent"
        tokens = {"bot": slack.bot_token, "app": slack.app_token, "signing": slack.signing_secret}
        for name, token in tokens.items():
            (tmp_path / name).write_text(token)
        text = CONFIG.format(secrets=tmp_path, channel=WEB, user=ADA, url=url)
        (made.project / "detent.toml").write_text(text)
        (made.project / "regions.py").write_text(APP)
        yield made
        made.stop()


def with_ada(scene: Scene) -> None:
    body = {"name": "ada", "scopes": ["read", "review", "operate"]}
    assert scene.post("/api/tokens", body).status_code == 201


def test_a_task_is_finished_from_slack(scene: Scene) -> None:
    scene.start("--app", "regions:app")
    with_ada(scene)
    task_id = scene.submit("deploy")
    scene.press("Question: deploy", "option:2")
    scene.press("Review: deploy", "reject")
    assert scene.slack.sockets.deliver(scene.slack.submit(ADA, "Both regions")) == {}
    scene.slack.sockets.disconnect()
    scene.press("Question: deploy", "option:1")
    payload = scene.slack.press(ADA, scene.message("Review: deploy"), "accept")
    headers, body = scene.slack.signed(payload)
    url = f"{scene.url}/slack/interactions"
    forged = {**headers, "X-Slack-Signature": "v0=" + "0" * 64}
    assert httpx2.post(url, headers=forged, content=body).status_code == 401
    assert scene.task(task_id)["state"] == "ready"
    for _ in range(2):
        assert httpx2.post(url, headers=headers, content=body).status_code == 200
    assert scene.wait_for(task_id, "completed")["comment"] == "Both regions"
    scene.message("Accepted by ada")
    assert len(scene.slack.in_channel(WEB)) == 4
    assert scene.slack.notices == []


def test_a_killed_process_posts_one_message(scene: Scene) -> None:
    scene.failpoint = "slack.posted:kill"
    scene.start()
    scene.submit("build")
    scene.died()
    scene.failpoint = ""
    scene.start()
    posted = scene.message("Review: build")
    wait_until(lambda: posted.edits == 1, "the new process has found the message")
    assert scene.slack.called.count("chat.postMessage") == 1


def test_a_click_is_sent_again_after_a_kill(scene: Scene) -> None:
    scene.failpoint = "slack.applied:kill"
    scene.start()
    with_ada(scene)
    task_id = scene.submit("build")
    scene.slack.sockets.acknowledged_s = 0.2
    payload = scene.slack.press(ADA, scene.message("Review: build"), "accept")
    scene.slack.sockets.connected_s = 1
    with pytest.raises(NotAcknowledged):
        scene.slack.sockets.deliver(payload)
    scene.died()
    scene.failpoint = ""
    scene.start()
    scene.slack.sockets.acknowledged_s = scene.slack.sockets.connected_s = 20
    scene.slack.sockets.deliver(payload)
    scene.message("Accepted by ada")
    events = scene.get(f"/api/tasks/{task_id}/events")["events"]
    assert [each["name"] for each in events].count("task_accepted") == 1
