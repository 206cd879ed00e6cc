"""Slack as part of an installation: the gateway's path, Socket Mode, `detent doctor`."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from detent.cli.slack_check import slack_faults
from detent.engine import Engine
from detent.errors import Misconfigured
from detent.gateway.server import Server
from detent.integrations.slack.slack_messages import STATUS
from detent.integrations.slack.slack_socket import SlackSocket
from detent.operations.context import Core
from detent.operations.registry import OWNER, call
from detent.service import integrations, slack_receiver
from detent.settings import Settings
from detent.store.memory import MemoryStore
from tests.gateway.installation import until
from tests.integrations.slack_world import ADA, OPS, WEB, SlackWorld, settings_for, slack_world
from verification.slack.slack_server import SlackServer, serving


@pytest.fixture
def world(tmp_path: Path) -> Iterator[SlackWorld]:
    with slack_world(tmp_path) as made:
        yield made


def faults(world: SlackWorld, **more: Any) -> list[tuple[str, str]]:
    own = world.core.settings
    names = Settings.__dataclass_fields__
    settings = Settings(**{**{name: getattr(own, name) for name in names}, **more})
    with world.core.store.read() as view:
        return list(slack_faults(view, settings))


def test_the_doctor_finds_nothing_where_everything_works(world: SlackWorld) -> None:
    assert faults(world) == []


def test_the_doctor_names_what_does_not_work(world: SlackWorld) -> None:
    world.server.channels[WEB].member = False
    silent = {"slack_app_token": "", "slack_signing_secret": ""}
    users = (f"{ADA}=nora",)
    channels = (WEB, OPS, "C0NONE001")
    found = faults(world, slack_channels=channels, slack_users=users, **silent)
    assert [what for what, _ in found] == [
        "slack.app_token and slack.signing_secret are not set: messages have no buttons",
        f"the app is not in channel {WEB}",
        "Slack refused conversations.info in C0NONE001: channel_not_found",
        f"slack.users gives {ADA} the token nora, which does not exist",
    ]
    assert all(remedy for _, remedy in found)
    world.server.revoked.add(world.server.bot_token)
    ((what, remedy),) = faults(world)
    assert "token_revoked" in what
    assert "slack.bot_token" in remedy


def test_the_doctor_names_the_last_error_of_the_service(world: SlackWorld) -> None:
    world.review()
    world.server.revoked.add(world.server.bot_token)
    world.sync()
    world.server.revoked.clear()
    ((what, remedy),) = faults(world)
    assert what.startswith("Slack refused chat.postMessage: token_revoked (")
    assert remedy


def test_without_the_package_the_error_names_the_extra(
    world: SlackWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [each for each in sys.modules if each.startswith("detent.integrations.slack")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "slack_sdk", None)
    ((_, remedy),) = faults(world)
    load = slack_receiver(world.core)
    assert load is not None
    for use in (lambda: integrations(world.core), load):
        with pytest.raises(Misconfigured) as refused:
            use()
        assert refused.value.hint == remedy
        assert remedy.endswith("pip install --upgrade 'detent[slack]'")


def test_the_path_exists_only_with_a_signing_secret(tmp_path: Path) -> None:
    store = MemoryStore()
    core = Core(store, Engine(store), Settings(gateway_port=0, store_data_dir=str(tmp_path)))
    assert slack_receiver(core) is None
    server = Server(core, None, None, None, slack_receiver(core))
    url = f"http://127.0.0.1:{server.start()}/slack/interactions"
    try:
        assert httpx2.post(url, content=b"payload={}").status_code == 401
        token = call("create_token", core, OWNER, name="t", scopes=["admin"])["token"]
        headers = {"Authorization": f"Bearer {token}"}
        assert httpx2.post(url, content=b"payload={}", headers=headers).status_code == 404
    finally:
        server.stop()


def test_a_refused_app_token_is_reported_and_tried_again(tmp_path: Path) -> None:
    server = SlackServer()
    with serving(server) as url:
        server.revoked.add(server.app_token)
        store = MemoryStore()
        core = Core(store, Engine(store), settings_for(url, server, tmp_path))
        socket = SlackSocket(core)
        socket.start()

        def status() -> Any:
            with store.read() as view:
                return view.rows("system_state").get(STATUS)

        until(lambda: status() is not None)
        assert "token_revoked" in status()["socket"]["error"]
        server.revoked.clear()
        until(lambda: socket.connected and server.sockets.count == 1 and status() is None)
        socket.stop()
        until(lambda: server.sockets.count == 0)
