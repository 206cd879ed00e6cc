"""`detent watch`: a live board in the terminal, with a bell when something waits for a person."""

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from detent.cli import output, table_columns
from detent.cli.connection import Connection, connect
from detent.cli.inbox import inbox_items, request_text
from detent.errors import DetentError

if TYPE_CHECKING:
    from rich.console import Group

#: Seconds between two snapshots.
POLL_S = 0.5
#: How long a desktop notification may take.
NOTIFY_WITHIN_S = 5.0
#: Maximum number of tasks on the board.
MAX_TASKS = 200
#: The order of tasks on the board: those that wait for a person come first.
PHASES = ("blocked", "working", "queued", "idle")

Snapshot = Mapping[str, Any]


@click.command()
@click.option("--project", help="Only tasks of this project.")
@click.option("--once", is_flag=True, help="Print the board once and exit.")
@click.option("--no-bell", "quiet", is_flag=True, help="No bell and no desktop notification.")
@output.json_option
def watch(project: str | None, once: bool, quiet: bool, as_json: bool) -> None:
    """Watch the board live; a bell rings when something waits for a person.

    Stop it with Ctrl-C. With --json, each change is one line of JSON. Without a terminal, each
    change is printed as a table.
    """
    with connect() as detent:
        if once:
            _print_snapshot(take_snapshot(detent, project), as_json)
        elif as_json or not sys.stdout.isatty():
            follow(detent, project, lambda snapshot: _print_snapshot(snapshot, as_json))
        else:
            _live(detent, project, None if quiet else notify_person)


def take_snapshot(detent: Connection, project: str | None) -> Snapshot:
    """Read what the board shows now."""
    tasks = detent.call("list_tasks", active=True, project=project, limit=MAX_TASKS)["items"]
    inbox = detent.call("inbox", project=project)
    return {
        "health": detent.call("health")["verdict"],
        "queue": detent.call("status", project=project)["queueLength"],
        "active": detent.call("counts", project=project)["active"],
        "people": inbox["count"],
        "waiting": inbox_items(inbox),
        "tasks": sorted(tasks, key=_place),
    }


def _place(row: Mapping[str, Any]) -> int:
    return -1 if row["waits_for_person"] else PHASES.index(row["phase"])


def follow(
    detent: Connection,
    project: str | None,
    show: Callable[[Snapshot], None],
    notify: Callable[[Iterable[Mapping[str, Any]]], None] | None = None,
    pause: Callable[[float], None] = time.sleep,
) -> None:
    """Show every change until interrupted, and notify a person of items that are new."""
    before: Snapshot | None = None
    while True:
        now = _try_snapshot(detent, project) or before
        if now is not None and now != before:
            show(now)
            if notify is not None and before is not None:
                notify(newly_waiting(before, now))
            before = now
        pause(POLL_S)


def _try_snapshot(detent: Connection, project: str | None) -> Snapshot | None:
    """Take a snapshot; None while the gateway is unavailable, so that the board stays as it is."""
    try:
        return take_snapshot(detent, project)
    except DetentError as error:
        if error.code != "unavailable":
            raise
        return None


def newly_waiting(before: Snapshot, now: Snapshot) -> list[Mapping[str, Any]]:
    """The items that did not wait for a person before; a new question of the same task counts."""
    known = {(row["id"], row["state_at"]) for row in before["waiting"]}
    return [row for row in now["waiting"] if (row["id"], row["state_at"]) not in known]


# ---- display ---------------------------------------------------------------------------------


def _print_snapshot(snapshot: Snapshot, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(snapshot))
        return
    output.print_text(_summary(snapshot))
    output.print_table(
        table_columns.TASKS, [table_columns.task_cells(row) for row in snapshot["tasks"]]
    )
    left_out = snapshot["active"] - len(snapshot["tasks"])
    if left_out > 0:
        output.print_text(f"… and {left_out} more")


def _summary(snapshot: Snapshot) -> str:
    return (
        f"health {snapshot['health']}   queue {snapshot['queue']}   "
        f"active {snapshot['active']}   waiting for people {snapshot['people']}"
    )


def _live(
    detent: Connection,
    project: str | None,
    notify: Callable[[Iterable[Mapping[str, Any]]], None] | None,
) -> None:
    from rich.console import Console
    from rich.live import Live

    console = Console()
    # The bell is written to stderr; rich would draw it as text.
    with Live(console=console, auto_refresh=False, screen=True, redirect_stderr=False) as live:

        def show(snapshot: Snapshot) -> None:
            live.update(board(snapshot, console.width, console.height), refresh=True)

        try:
            follow(detent, project, show, notify)
        except KeyboardInterrupt:
            return


def board(snapshot: Snapshot, width: int, height: int) -> "Group":
    """The board, drawn to fit the terminal."""
    from rich.console import Group
    from rich.text import Text

    lines = [Text(output.truncate(_summary(snapshot), width), style="bold")]
    for row in snapshot["waiting"][: max(1, height // 3)]:
        asked = " ".join(output.clean(f"▲ {row['id']}  {request_text(row)}").split())
        lines.append(Text(output.truncate(asked, width), style="yellow"))
    lines.append(Text(""))
    drawn = output.table_lines(
        table_columns.TASKS, map(table_columns.task_cells, snapshot["tasks"]), width
    )
    space = max(2, height - len(lines) - 1)
    if snapshot["active"] > space - 1:  # not all rows fit below the headings
        drawn = drawn[: space - 1]
    for cells in drawn:
        line = Text(no_wrap=True)
        for number, (text, style) in enumerate(cells):
            line.append((output.GAP if number else "") + text, style=style or None)
        lines.append(line)
    left_out = snapshot["active"] - (len(drawn) - 1)
    if left_out > 0:
        lines.append(Text(output.truncate(f"… and {left_out} more", width), style="dim"))
    return Group(*lines)


# ---- notification ----------------------------------------------------------------------------


def notify_person(waiting: Iterable[Mapping[str, Any]]) -> None:
    """Ring the terminal's bell, and send desktop notifications if notify-send is installed."""
    found = list(waiting)
    if not found:
        return
    sys.stderr.write("\a")
    sys.stderr.flush()
    program = shutil.which("notify-send")
    if program is not None:
        for row in found[:3]:
            _send(program, row)


def _send(program: str, row: Mapping[str, Any]) -> None:
    """Send a desktop notification; one that fails or hangs must not end the board."""
    with suppress(OSError, subprocess.TimeoutExpired):
        subprocess.run(
            [program, "--app-name=detent", "--", *notification(row)],
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=NOTIFY_WITHIN_S,
        )


def notification(row: Mapping[str, Any]) -> tuple[str, str]:
    """Title and text of a notification, with markup escaped."""
    title = output.clean(f"detent: {row['intent']} waits for you")
    text = output.clean(f"{row['title']}\n{request_text(row)}".strip())
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return title, escaped[:1_000]
