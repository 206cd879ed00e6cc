"""`config show`, and what a terminal or a machine does to any command."""

import json
import pty
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from detent.cli import main, output
from detent.error_codes import CODES, EXIT_CODES
from tests.cli.terminal import drawn_on

Run = Callable[..., Result]


def settings(run: Run) -> dict[str, dict[str, object]]:
    shown = json.loads(run("config", "show", "--json").stdout)
    return {row["name"]: row for row in shown["settings"]}


def test_each_setting_says_whence_it_came(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "detent.toml").write_text("[worker]\nconcurrency = 3\n")
    monkeypatch.setenv("DETENT_GATEWAY_PORT", "7")
    found = settings(run)
    assert (found["worker.concurrency"]["value"], found["gateway.port"]["value"]) == (3, 7)
    assert found["worker.concurrency"]["from"] == str(tmp_path / "detent.toml")
    assert found["gateway.port"]["from"] == "environment DETENT_GATEWAY_PORT"
    assert found["gateway.host"]["from"] == "default"


def test_secrets_are_hidden(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DETENT_STORE_URL", "postgresql://me:hunter2@db/detent")
    (tmp_path / "detent.toml").write_text(
        '[agents.claude]\nargv = ["claude"]\napi_key = "env:HUNTER3"\n'
        '[intents.x]\ncommand = ["true"]\n[intents.x.environment]\nMY_TOKEN = "hunter4"\n'
    )
    for shown in (run("config", "show").output, run("config", "show", "--json").output):
        assert "hunter" not in shown.lower()
        assert "postgresql://me:(hidden)@db/detent" in shown
    found = settings(run)
    assert found["intents.x.command"]["value"] == ["true"]


# ---- what goes wrong -------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["--5", "\u00b2", "five", ""])
def test_a_variable_that_is_no_number_is_one_message(
    run: Run, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setenv("DETENT_GATEWAY_PORT", text)
    done = run("config", "show", code=7)
    assert f"DETENT_GATEWAY_PORT must be an integer, not {text!r}." in done.stderr


def test_a_list_of_the_file_with_another_value_than_text_is_one_message(
    run: Run, tmp_path: Path
) -> None:
    (tmp_path / "detent.toml").write_text("[gateway]\nhosts = [7]\n")
    done = run("config", "show", code=7)
    assert "gateway.hosts must be a list of strings, and 7 is no string." in done.stderr


def test_a_port_that_is_taken_is_one_message_and_leaves_the_others_announcement(
    tmp_path: Path,
) -> None:
    live_gateway = tmp_path / "server.json"
    live_gateway.write_text('{"url": "http://127.0.0.1:1", "pid": 1, "started": 0, "routes": {}}')
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        command = ["up", "--port", port, "--data-dir", str(tmp_path)]
        done = subprocess.run(
            [sys.executable, "-m", "detent", *command],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.returncode == 7
    assert done.stderr.startswith(f"detent: The gateway cannot listen on 127.0.0.1:{port}")
    assert "choose another port with --port" in done.stderr
    assert live_gateway.exists()


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("DETENT_GATEWAY_PORT", "99999", "DETENT_GATEWAY_PORT must be from 0 to 65535, not 99999."),
        ("DETENT_WORKER_CONCURRENCY", "0", "DETENT_WORKER_CONCURRENCY must be at least 1, not 0."),
        ("DETENT_KEEPER_INTERVAL_MS", "-5", "KEEPER_INTERVAL_MS must be at least 1, not -5."),
        ("DETENT_WORKER_HEARTBEAT_MS", "30000", "every lease would end before it is renewed."),
    ],
)
def test_a_number_that_cannot_work_is_refused_at_the_start(
    run: Run, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, message: str
) -> None:
    monkeypatch.setenv(variable, value)
    done = run("up", code=7)
    assert message in done.stderr


@pytest.mark.parametrize(
    ("typed", "meant"), [("taks", "tasks"), ("lifecicle", "lifecycle"), ("submitt", "submit")]
)
def test_an_unknown_command_suggests_what_may_be_meant(typed: str, meant: str) -> None:
    result = CliRunner().invoke(main.cli, [typed])
    assert result.exit_code == 2
    assert f"'{meant}'" in result.stderr


def test_a_directory_that_cannot_be_used_is_no_traceback(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("DETENT_STORE_DATA_DIR", str(tmp_path / "file"))
    refused = run("tasks", code=7)
    assert "cannot be written" in refused.stderr
    assert "set store.url to another path" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert str(tmp_path / "file") in refused.stderr


def test_an_error_of_the_operating_system_is_no_traceback(run: Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    refused = run("init", str(tmp_path / "file" / "below"), code=7)
    assert refused.stderr.startswith("detent: The operating system refused: ")
    assert str(tmp_path / "file") in refused.stderr


def test_a_file_that_is_no_configuration_is_named(run: Run, tmp_path: Path) -> None:
    (tmp_path / "detent.toml").write_text("[gateway\n")
    assert "detent.toml cannot be read" in run("tasks", code=7).stderr


def test_a_configuration_may_begin_with_a_byte_order_mark(run: Run, tmp_path: Path) -> None:
    (tmp_path / "detent.toml").write_text("[gateway]\nport = 5999\n", "utf-8-sig")
    assert "5999" in run("config", "show").stdout


def test_every_exit_code_is_explained() -> None:
    assert {row.exit_code for row in CODES.values()} <= EXIT_CODES.keys()
    assert {0, 2, main.INTERRUPTED} <= EXIT_CODES.keys()
    from detent.cli.wait import BLOCKED, ENDED, FAILED, STILL_WAITING

    assert {BLOCKED, STILL_WAITING, *ENDED.values(), *FAILED.values()} <= EXIT_CODES.keys()


# ---- colour ----------------------------------------------------------------------------------

TABLE = "from detent.cli.output import *; print_table(('a',), [(Styled('word', 'red'),)])"


@pytest.mark.parametrize(
    ("environment", "coloured"),
    [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False), ({"NO_COLOR": ""}, True)],
)
def test_colour_on_a_terminal_unless_it_is_turned_off(
    environment: dict[str, str], coloured: bool
) -> None:
    ours, theirs = pty.openpty()
    given = {"TERM": "xterm", "PATH": "", **environment}
    with subprocess.Popen([sys.executable, "-c", TABLE], stdout=theirs, env=given) as process:
        process.wait(timeout=60)
    shown = drawn_on(ours, theirs)
    assert ("\x1b[" in shown) is coloured
    assert "word" in shown


def test_a_pipe_has_no_colour() -> None:
    shown = subprocess.run(
        [sys.executable, "-c", TABLE], capture_output=True, text=True, timeout=60, check=True
    ).stdout
    assert shown == "a\nword\n"


# ---- fitting ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("widths", "most", "fitted"),
    [
        ([5, 10], None, [5, 10]),
        ([5, 10], 40, [5, 10]),
        ([26, 8, 40], 60, [26, 8, 22]),
        ([26, 30, 40], 60, [26, 16, 14]),
        ([26, 8, 40, 9], 62, [26, 8, 13, 9]),
        ([26, 8, 40, 9], 55, [26, 8, 17]),
        ([26, 8], 30, [26]),
        ([26, 8], 10, [10]),
    ],
)
def test_wide_columns_give_way_and_the_last_go(
    widths: list[int], most: int | None, fitted: list[int]
) -> None:
    chosen = output.column_widths(widths, most)
    assert len(chosen) == len(fitted)
    assert sum(chosen) + 2 * (len(chosen) - 1) == sum(fitted) + 2 * (len(fitted) - 1)
    assert chosen[0] == fitted[0]


@pytest.mark.parametrize(
    ("text", "width", "lines"),
    [
        ("one two three", 7, ["one two", "three"]),
        ("unbreakable", 4, ["unbr", "eaka", "ble"]),
        ("任务任务", 4, ["任务", "任务"]),
        ("", 4, [""]),
    ],
)
def test_text_is_wrapped_between_words_where_it_can(
    text: str, width: int, lines: list[str]
) -> None:
    assert output.wrapped(text, width) == lines


def test_text_is_cut_by_columns_not_letters() -> None:
    assert output.truncate("任务任务", 5) == "任务…"
    assert output.truncate("plain", 5) == "plain"
    assert output.truncate("plainer", 5) == "plai…"


# ---- what cannot be meant ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[gateway]\nport = 70000", "gateway.port must be from 0 to 65535, not 70000"),
        ("[worker]\nconcurrency = 0", "worker.concurrency must be at least 1, not 0"),
        ("[worker]\nlease_ms = 5000", "would end before it is renewed"),
        ("[intent.hello]\ncommand = ['true']", "Did you mean intents?"),
        ("intents = 5", "intents must be tables, [intents.NAME]"),
        ("store = 5", "store must be a section, [store]"),
        ("[store", "It must contain TOML"),
    ],
)
def test_a_file_that_cannot_be_meant_is_refused(run: Run, text: str, message: str) -> None:
    Path("detent.toml").write_text(text)
    assert message in run("tasks", code=7).stderr


def test_a_flag_that_cannot_be_meant_is_refused(run: Run) -> None:
    done = run("worker", "--concurrency", "0", code=7)
    assert "worker.concurrency must be at least 1" in done.stderr


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("retrys = 3", "intents.dig.retrys is not known"),
        ("retries = 3", "Write retry = { retries = … }"),
        ("retry = { retires = 3 }", "retry.retires is not known"),
        ("timeout_s = 'a'", "timeout_s must be a number of seconds"),
        ("model = 'large'", "intents.dig.model is not known"),
    ],
)
def test_a_worker_refuses_an_intent_that_cannot_be_meant(run: Run, text: str, message: str) -> None:
    Path("detent.toml").write_text(f"[intents.dig]\ncommand = ['true']\n{text}")
    assert message in run("worker", "--once", code=7).stderr
