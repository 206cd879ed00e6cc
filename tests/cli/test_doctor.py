"""The doctor: each ill is found by name, with a remedy, and a healthy installation has none."""

import json
import os
import re
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest
from click.testing import Result

from detent.cli import config_checks, doctor_checks
from detent.cli.doctor_checks import check_installation
from detent.cli.finding import Finding
from detent.engine import Engine
from detent.operations.leader_election import TERM_US
from detent.settings import Settings
from detent.store.clock import HostClock
from detent.store.sqlite import SqliteStore
from detent.testing.clock import VirtualClock
from detent.testing.conformance.work_actions import submit_job
from tests import ports

Run = Callable[..., Result]


@pytest.fixture
def free_port(monkeypatch: pytest.MonkeyPatch) -> int:
    port = ports.free_port()
    monkeypatch.setenv("DETENT_GATEWAY_PORT", str(port))
    return port


@pytest.fixture
def store(data: Path, free_port: int) -> SqliteStore:
    """A database, closed again; its path is what matters."""
    made = SqliteStore(data / "detent.db")
    made.close()
    return made


def ills(run: Run) -> dict[str, dict[str, Any]]:
    """What is wrong, by name; each with something to do."""
    shown = json.loads(run("doctor", "--json", code=1).stdout)["findings"]
    wrong = {each["name"]: each for each in shown if not each["well"]}
    assert all(each["remedy"] for each in wrong.values())
    return wrong


def test_a_healthy_installation_has_no_ills(run: Run, store: SqliteStore) -> None:
    shown = run("doctor").stdout
    assert "FAIL" not in shown
    for name in ("versions", "permissions", "disk", "port", "clock", "schema", "durability"):
        assert f"ok     {name}: " in shown


def test_before_the_first_start_nothing_is_wrong_and_nothing_is_made(
    run: Run, data: Path, free_port: int
) -> None:
    run("doctor")
    assert not data.exists()


@pytest.mark.parametrize("name", [".", "token", "detent.db"])
def test_what_others_can_reach(run: Run, data: Path, store: SqliteStore, name: str) -> None:
    (data / "token").touch(0o600)
    run("doctor")
    (data / name).chmod(0o755)
    wrong = ills(run)
    assert list(wrong) == ["permissions"]
    assert wrong["permissions"]["remedy"].startswith("chmod 7" if name == "." else "chmod 6")


def test_a_port_that_is_taken(run: Run, store: SqliteStore, free_port: int) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", free_port))
        taken.listen()
        assert str(free_port) in ills(run)["port"]["what"]


def test_a_gateway_that_is_gone(run: Run, data: Path, store: SqliteStore) -> None:
    (data / "server.json").write_text('{"url": "http://x", "pid": 1, "started": 1}')
    assert "process 1" in ills(run)["gateway"]["what"]


def test_a_full_disk(run: Run, store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor_checks, "FREE_BYTES", 1 << 62)
    assert list(ills(run)) == ["disk"]


def test_a_schema_that_is_newer(run: Run, data: Path, store: SqliteStore) -> None:
    again = SqliteStore(data / "detent.db")
    with again.write() as tx:
        tx._all("INSERT INTO schema_migrations VALUES (999, 'later', 'x', 1)")
    again.close()
    assert "newer" in ills(run)["database"]["what"]


def test_a_file_that_is_no_database(run: Run, data: Path, store: SqliteStore) -> None:
    (data / "detent.db").write_bytes(b"x" * 5_000)
    assert "cannot be opened" in ills(run)["database"]["what"]


def test_a_schema_that_waits(run: Run, data: Path, free_port: int) -> None:
    data.mkdir(mode=0o700)
    (data / "detent.db").touch(0o600)
    connection = apsw.Connection(str(data / "detent.db"))
    connection.execute("CREATE TABLE other (x)")
    connection.close()
    assert ills(run)["schema"]["remedy"] == "Upgrade it: detent db upgrade"


def clocks(data: Path, now: int) -> list[Finding]:
    settings = Settings(store_data_dir=str(data), gateway_port=0)
    return [each for each in check_installation(settings, lambda: now) if each.name == "clock"]


def test_a_clock_that_went_back(data: Path, store: SqliteStore) -> None:
    now = HostClock()()
    assert [each.well for each in clocks(data, now)] == [True, True]
    assert "differ by 60" in clocks(data, now - 60_000_000)[1].what
    assert [each.well for each in clocks(data, now - 60_000_000)] == [True, False]
    assert not clocks(data, 1_000_000)[0].well


def test_a_write_with_a_fast_clock(run: Run, data: Path, store: SqliteStore) -> None:
    now = HostClock()()
    again = SqliteStore(data / "detent.db", VirtualClock(now + 3_600_000_000))
    submit_job(Engine(again))
    again.close()
    _, found = clocks(data, now)
    assert not found.well
    assert re.match(r"the store's time is 3[56]\d\d s ahead", found.what)
    assert "detent db clock --reset" in found.remedy
    run("db", "clock", "--reset")
    assert [each.well for each in clocks(data, HostClock()())] == [True, True]


def with_worker(data: Path, keeper: bool = True, **fields: Any) -> None:
    again = SqliteStore(data / "detent.db")
    term_us = TERM_US if keeper else -1
    with again.write() as tx:
        known = {"host": socket.gethostname(), "pid": os.getpid(), "seen_at": tx.now()}
        tx.put_rows("workers", {"w1": {**known, "intents": ["dig"], **fields}})
        tx.put_rows("system_state", {"keeper": {"name": "k1", "until": tx.now() + term_us}})
    submit_job(Engine(again), intent="dig")
    again.close()


def test_work_that_a_worker_can_do(run: Run, data: Path, store: SqliteStore) -> None:
    with_worker(data)
    assert "1 queued, none without a worker" in run("doctor").stdout


def test_work_that_no_worker_can_do(run: Run, data: Path, store: SqliteStore) -> None:
    with_worker(data, intents=["fill"])
    wrong = ills(run)
    assert list(wrong) == ["work"]
    assert "1 queued for the intent dig" in wrong["work"]["what"]


@pytest.mark.parametrize(
    ("ago_s", "wrong"), [(1, {"work"}), (60, {"workers", "work"}), (100_000, {"work"})]
)
def test_a_worker_that_is_gone_is_missed_for_a_day(
    run: Run, data: Path, store: SqliteStore, ago_s: int, wrong: set[str]
) -> None:
    seen_at = time.time_ns() // 1_000 - ago_s * 1_000_000
    with_worker(data, host="elsewhere", seen_at=seen_at, intents=["fill"])
    assert set(ills(run)) == wrong


def test_workers_without_a_keeper(run: Run, data: Path, store: SqliteStore) -> None:
    with_worker(data, keeper=False)
    assert list(ills(run)) == ["keeper"]


# ---- the configuration -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "name", "message"),
    [
        ("[gateway]\nhost = 5", "configuration", "gateway.host must be a string"),
        ("[gatway]\nport = 1", "configuration", "there is no section gatway"),
        ("[intents.dig]", "configuration", "exactly one of command, agent, app"),
        ("[limits.dig]\nrunning = 1", "configuration", "limits.dig"),
        ("[worker]\nlease_ms = 9000", "configuration", "would end before it is renewed"),
        ("[intents.dig]\ncommand = ['no-such-spade']", "programs", "no-such-spade was not found"),
        ("[intents.dig]\nagent = 'unknown'", "configuration", "there is no agent 'unknown'"),
        ("[intents.dig]\ncommand = ['sh']\nx = 1", "configuration", "intents.dig.x is not known"),
        ("[worker]\nsandbox = 'cage'", "programs", "worker.sandbox must be one of"),
        ("[worker]\nsandbox_network = 'off'", "programs", "one of closed, open, not 'off'"),
        ("[worker]\nsandbox_hosts = ['a b']", "programs", "'a b' is not a host"),
        ("[intents.dig]\ncommand = ['sh']\nhosts = ['a b']", "configuration", "is not a host"),
        ("[gateway]\npublic = true", "hosts", "gateway.hosts is empty"),
    ],
)
def test_a_mistake_in_the_file(
    run: Run, store: SqliteStore, text: str, name: str, message: str
) -> None:
    Path("detent.toml").write_text(text)
    wrong = ills(run)
    assert list(wrong) == [name]
    assert message in wrong[name]["what"]


def test_a_program_that_is_there(run: Run, store: SqliteStore) -> None:
    Path("detent.toml").write_text("[intents.dig]\ncommand = ['sh', '-c', 'true']")
    assert "ok     programs: sh is at /" in run("doctor").stdout


def test_a_program_that_is_not_executable(run: Run, store: SqliteStore, tmp_path: Path) -> None:
    script = tmp_path / "qa.sh"
    script.write_text("true")
    Path("detent.toml").write_text(f"[intents.dig]\ncommand = ['{script}']")
    wrong = ills(run)["programs"]
    assert wrong["what"] == f"{script} is not executable"
    assert wrong["remedy"] == f"Run chmod +x {script}, or change [intents.dig]."


def test_git_is_missed_where_worktrees_are_wanted(
    run: Run, store: SqliteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "claude").touch(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    Path("detent.toml").write_text(
        "[intents.dig]\nagent = 'claude'\nprompt = 'dig'\nworkspace = 'worktree'"
    )
    assert ills(run)["programs"]["what"] == "git was not found on PATH"


def test_a_variable_that_is_misspelt(
    run: Run, store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DETENT_RUN_ID", "a run's own")
    monkeypatch.setenv("DETENT_STORE_ADDRESS", "postgresql://localhost/x")
    wrong = ills(run)
    assert list(wrong) == ["variables"]
    assert "DETENT_STORE_ADDRESS" in wrong["variables"]["what"]


def test_an_extra_that_is_missing(
    run: Run, store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DETENT_TRACES_ENABLED", "true")
    run("doctor")
    monkeypatch.setattr(config_checks, "find_spec", lambda _: None)
    assert ills(run)["extras"]["remedy"] == "Install it: pip install 'detent[otel]'"
    monkeypatch.delenv("DETENT_TRACES_ENABLED")
    Path("detent.toml").write_text(
        "[intents.dig]\nagent = 'mole'\nprompt = 'dig'\n"
        "[agents.mole]\npreset = 'acp'\nargv = ['sh']"
    )
    assert ills(run)["extras"]["remedy"] == "Install it: pip install 'detent[acp]'"


def test_a_server_that_does_not_answer(
    run: Run, free_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(
        "DETENT_STORE_URL", f"postgresql://localhost:{free_port}/x?connect_timeout=1"
    )
    assert list(ills(run)) == ["database"]
