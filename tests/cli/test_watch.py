"""The live board: what it shows, when it rings, and that nothing in it can move a terminal."""

import io
import json
import os
import pty
import select
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from rich.console import Console

from detent.cli import output, watch
from detent.engine.claims import ClaimRequest
from detent.errors import Unavailable
from tests.operations.installation import LocalInstallation, local_installation

Run = Callable[..., Result]
HOSTILE = "\x1b[31mred\u202e\n[bold]markup[/bold] " + "x" * 300


class Enough(Exception):
    """Ends a board that would run without end."""


class Here:
    """A connection to a place."""

    def __init__(self, place: LocalInstallation) -> None:
        self.place = place

    def call(self, operation: str, /, **arguments: Any) -> Any:
        given = {name: value for name, value in arguments.items() if value is not None}
        return self.place.call(operation, **given)


def ready(place: LocalInstallation, **fields: Any) -> str:
    """A task that waits for a person."""
    task_id = place.submit(**fields)
    place.complete(place.claim()[0])
    return task_id


def test_what_needs_a_person_is_on_top(tmp_path: Path) -> None:
    with local_installation(tmp_path) as place:
        ready(place, title="Review me")
        place.submit(title="Later")
        seen = watch.take_snapshot(Here(place), None)
    assert [row["title"] for row in seen["tasks"]] == ["Review me", "Later"]
    assert (seen["queue"], len(seen["waiting"])) == (1, 1)


def test_only_what_newly_waits_is_reported(tmp_path: Path) -> None:
    notified: list[str] = []
    shown: list[Any] = []
    with local_installation(tmp_path) as place:
        old = ready(place, title="Waited before")
        happens: list[Callable[[], Any]] = [
            lambda: None,
            lambda: ready(place, title="New"),
            lambda: None,
            lambda: place.call("reject_task", task_id=old, run=True),
            lambda: place.complete(place.claim()[0]),
        ]

        def pause(_: float) -> None:
            place.clock.advance(seconds=1)
            if not happens:
                raise Enough
            happens.pop(0)()

        with pytest.raises(Enough):
            watch.follow(
                Here(place),
                None,
                shown.append,
                lambda rows: notified.extend(row["title"] for row in rows),
                pause,
            )
    assert notified == ["New", "Waited before"]
    assert len(shown) == 4


def test_a_gateway_that_is_unavailable_for_a_while_is_waited_for(tmp_path: Path) -> None:
    class Away(Here):
        rounds = 0

        def call(self, operation: str, /, **arguments: Any) -> Any:
            self.rounds += 1
            if 5 <= self.rounds < 8:
                raise Unavailable("away", retry_after_s=1)
            return super().call(operation, **arguments)

    with local_installation(tmp_path) as place:
        shown: list[Any] = []
        connection = Away(place)

        def pause(_: float) -> None:
            place.submit()
            if len(shown) > 1:
                raise Enough

        with pytest.raises(Enough):
            watch.follow(connection, None, shown.append, None, pause)
    assert len(shown) == 2


def test_everything_is_counted_and_only_of_the_project(tmp_path: Path) -> None:
    """More tasks than are listed, more that waits than is listed, and others' work."""
    with local_installation(tmp_path) as place:
        for _ in range(3):
            place.submit(project="other")
        for _ in range(105):
            place.submit(project="ours")
        while held := place.claim(projects=["ours"]):
            for claimed in held:
                place.complete(claimed)
        for _ in range(110):
            place.submit(project="ours")
        seen = watch.take_snapshot(Here(place), "ours")
        everything = watch.take_snapshot(Here(place), None)
    assert (seen["queue"], seen["active"], seen["people"]) == (110, 215, 105)
    assert (everything["queue"], everything["active"]) == (113, 218)
    assert len(seen["tasks"]) == 200
    written = io.StringIO()
    console = Console(file=written, width=100, height=24, color_system=None)
    console.print(watch.board(seen, 100, 24))
    lines = written.getvalue().rstrip("\n").split("\n")
    assert "queue 110   active 215   waiting for people 105" in lines[0]
    named = sum(1 for line in lines if "P2" in line)
    assert lines[-1] == f"… and {215 - named} more"


@pytest.mark.parametrize("width", [60, 200])
def test_the_board_fits_and_shows_data_as_data(tmp_path: Path, width: int) -> None:
    with local_installation(tmp_path) as place:
        for _ in range(40):
            ready(place, title=HOSTILE)
        seen = watch.take_snapshot(Here(place), None)
    written = io.StringIO()
    console = Console(file=written, width=width, height=24, color_system=None)
    console.print(watch.board(seen, width, 24))
    lines = written.getvalue().rstrip("\n").split("\n")
    assert len(lines) <= 24
    assert max(map(output.display_width, lines)) <= width
    assert output.clean(written.getvalue()) == written.getvalue()
    assert "waiting for people 40" in lines[0]
    if width == 200:
        assert "red [bold]markup[/bold]" in written.getvalue()


def test_a_notice_brings_no_markup_and_no_options() -> None:
    row: dict[str, Any] = {
        "intent": "--help",
        "title": "<b>\x1b[31mbold</b> & more",
        "state": "ready",
        "phase": "idle",
        "ending": None,
        "events": [],
        "blocked_detail": {},
        "error_class": None,
        "blocked_by": None,
        "actions": [{"action": each} for each in ("accept", "reject")],
    }
    title, text = watch.notification(row)
    assert title == "detent: --help waits for you"
    assert text.startswith("&lt;b&gt;bold&lt;/b&gt; &amp; more")


REVIEW: dict[str, Any] = {
    "intent": "runQA",
    "title": "T",
    "state": "ready",
    "phase": "idle",
    "ending": None,
    "events": [],
    "blocked_by": None,
    "blocked_detail": {},
    "error_class": None,
    "actions": [{"action": each} for each in ("accept", "reject")],
}


def test_the_terminal_bell_and_desktop_notifications(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "notify-send"
    program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" >> {tmp_path}/sent\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    watch.notify_person([])
    assert capsys.readouterr().err == ""
    watch.notify_person([REVIEW])
    assert capsys.readouterr().err == "\a"
    sent = (tmp_path / "sent").read_text().splitlines()
    assert sent == ["--app-name=detent", "--", "detent: runQA waits for you", "T", *sent[4:]]
    assert sent[4:] == ["review: accept or reject"]


def test_a_notification_that_hangs_does_not_end_the_board(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "notify-send"
    program.write_text("#!/bin/sh\nexec sleep 60\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(watch, "NOTIFY_WITHIN_S", 0.1)
    watch.notify_person([REVIEW])


def test_without_a_terminal_each_change_is_a_line_of_json(run: Run, data: Path) -> None:
    with local_installation(data) as place:
        ready(place)
    once = json.loads(run("watch", "--once", "--json").stdout)
    assert len(once["waiting"]) == 1


def test_a_terminal_shows_the_counts_of_one_project_as_they_change(
    data: Path, tmp_path: Path
) -> None:
    with local_installation(data) as place:
        for _ in range(202):
            place.submit(project="ours")
        place.submit(project="other")
        terminal = Terminal(
            [sys.executable, "-m", "detent", "watch", "--project", "ours"], tmp_path
        )
        with terminal:
            terminal.sees("queue 202   active 202   waiting for people 0")
            (held,) = place.core.engine.claim(ClaimRequest("w", "n", 1, projects=["ours"]))
            place.complete(held)
            terminal.sees("queue 201   active 202   waiting for people 1")
            terminal.sees("\a")


class Terminal:
    """A program on a real terminal; what it draws is read until it is seen."""

    def __init__(self, command: list[str], cwd: Path) -> None:
        self.ours, theirs = pty.openpty()
        environment = {**os.environ, "TERM": "xterm", "COLUMNS": "120", "LINES": "20"}
        self.process = subprocess.Popen(
            command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, cwd=cwd
        )
        os.close(theirs)
        self.drawn = ""

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.send_signal(2)
        self.process.wait(60)
        os.close(self.ours)

    def sees(self, text: str) -> None:
        while text not in self.drawn:
            readable, _, _ = select.select([self.ours], [], [], 60)
            assert readable, self.drawn
            self.drawn += os.read(self.ours, 65_536).decode("utf-8", "replace")


def test_on_a_terminal_it_is_drawn_until_ctrl_c(data: Path, tmp_path: Path) -> None:
    with local_installation(data) as place:
        ready(place, title="On the board")
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "200", "LINES": "20"}
    command = [sys.executable, "-m", "detent", "watch", "--no-bell"]
    with subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, cwd=tmp_path
    ) as process:
        os.close(theirs)
        shown = b""
        while b"On the board" not in shown:
            readable, _, _ = select.select([ours], [], [], 60)
            assert readable, shown
            shown += os.read(ours, 65_536)
        process.send_signal(2)
        assert process.wait(60) in (0, 130)
    os.close(ours)
