"""The sync with Notion by the keeper and by the command: over a real connection, one at a time."""

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from detent.cli.main import cli
from detent.engine import Engine
from detent.errors import Misconfigured
from detent.integrations.notion.notion_api import Notion
from detent.integrations.notion.notion_sync import connect, notion_keeper
from detent.kernel import commands as c
from detent.operations.context import Core
from detent.settings import Settings
from detent.store.store_url import open_store
from tests.gateway.installation import until
from tests.integrations.notion_world import PERSON, World
from verification.notion.notion_server import NotionServer, serving


def installed(tmp_path: Path, server: NotionServer, url: str) -> Settings:
    token = tmp_path / "notion-token"
    token.write_text(server.token)
    return Settings(
        store_data_dir=str(tmp_path),
        notion_token=f"file:{token}",
        notion_parent=server.parent,
        notion_url=url,
        notion_interval_ms=50,
    )


def test_the_service_runs_over_a_real_connection(tmp_path: Path) -> None:
    server = NotionServer()
    with serving(server) as url:
        settings = installed(tmp_path, server, url)
        store = open_store(settings.url)
        core = Core(store, Engine(store), settings, {"dig": {}})
        keeper = notion_keeper(core, "here")
        keeper.start()
        core.engine.do(c.SubmitTask("t1", "p", "board", "dig", "cli"), PERSON)
        until(lambda: len(server.rows("detent tasks")) == 1)
        keeper.stop()
        with store.read() as view:
            assert view.rows("system_state").get("notion") is None
        store.close()


def test_the_sync_stops_when_another_process_leads() -> None:
    world = World()
    keeper = notion_keeper(world.core, "here", world.sync().notion)
    world.submit("t1")
    taken = {"name": "elsewhere", "until": 1 << 60}
    assert keeper.election.acquire() is not None
    world.set_state(notion=taken)
    keeper.election._until = 0
    assert not keeper.work(0)
    assert world.server.asked == []


def test_pages_of_the_previous_leader_are_not_written_again() -> None:
    world = World()
    keeper = notion_keeper(world.core, "here", world.sync().notion)
    world.submit("t1")
    assert keeper.service.run_once() is False
    keeper.election._until = 0  # it was stopped, and its term is over
    world.set_state(notion=None)
    other = notion_keeper(world.core, "elsewhere", world.sync().notion)
    world.submit("t2")
    other.service.run_once()
    other.election.resign()
    world.core.engine.do(c.QueueTask("t2"), PERSON)
    keeper.service.run_once()
    assert set(world.rows("tasks")) == {"t1", "t2"}
    assert len(world.server.pages) == len({*world.rows("tasks")})


def prepared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: NotionServer, url: str
) -> None:
    """Set the environment of the command, and submit one task for it to sync."""
    settings = installed(tmp_path, server, url)
    for name in ("store_data_dir", "notion_token", "notion_parent", "notion_url"):
        monkeypatch.setenv(f"DETENT_{name.upper()}", getattr(settings, name))
    store = open_store(settings.url)
    Engine(store).do(c.SubmitTask("t1", "p", "board", "dig", "cli"), PERSON)
    store.close()


def test_the_command_syncs_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = NotionServer()
    with serving(server) as url:
        prepared(tmp_path, monkeypatch, server, url)
        done = CliRunner().invoke(cli, ["notion", "sync", "--once", "--json"])
        assert done.exit_code == 0, done.output
        assert '"created": 1' in done.stdout
        again = CliRunner().invoke(cli, ["notion", "sync", "--once"])
        assert "0 pages created, 0 updated" in again.output
    assert len(server.rows("detent tasks")) == 1


def test_the_command_reports_a_lost_response(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, send = NotionServer(), Notion._send

    def lost(notion: Notion, method: str, path: str, *rest: Any) -> Any:
        answer = send(notion, method, path, *rest)
        return None if path == "/v1/pages" else answer

    with serving(server) as url:
        prepared(tmp_path, monkeypatch, server, url)
        with monkeypatch.context() as patched:
            patched.setattr(Notion, "_send", lost)
            done = CliRunner().invoke(cli, ["notion", "sync", "--once"])
        assert (done.exit_code, type(done.exception)) == (6, SystemExit)
        assert "POST /v1/pages: no response [unavailable]" in done.stderr
        assert CliRunner().invoke(cli, ["notion", "sync", "--once"]).exit_code == 0
    assert len(server.rows("detent tasks")) == 1


def test_without_settings_it_says_what_to_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DETENT_STORE_DATA_DIR", str(tmp_path))
    done = CliRunner().invoke(cli, ["notion", "sync", "--once"])
    assert done.exit_code == 7
    assert "env:NAME or file:PATH" in done.output
    with pytest.raises(Misconfigured, match=r"notion\.parent is not set"):
        connect(Settings(notion_token="env:X"))
