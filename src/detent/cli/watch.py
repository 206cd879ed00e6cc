"""`detent watch`: the board in the terminal, live; a bell when something waits for a person."""

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import click

from detent.cli import output, table_columns
from detent.cli.connection import Connection, connect
from detent.cli.inbox import matters, wanted
from detent.errors import DetentError

if TYPE_CHECKING:
    from rich.console import Group

#: How often it looks.
PAUSE_S = 0.5
#: At most so many tasks are drawn.
MAX_TASKS = 200
#: The order of the board: what needs a person stands on top.
ORDER = ("ready", "blocked", "running", "doing", "queued", "todo", "pending", "inbox")

Snapshot = Mapping[str, Any]


@click.command()
@click.option("--project", help="Only this project.")
@click.option("--once", is_flag=True, help="Print the board once.")
@click.option("--no-bell", "quiet", is_flag=True, help="Neither bell nor desktop notification.")
@output.json_option
def watch(project: str | None, once: bool, quiet: bool, as_json: bool) -> None:
    """Watch the board live; a bell tells when something waits for a person.

    Ctrl-C ends it. With --json, or without a terminal, every change is one line or table.
    """
    with connect() as detent:
        if once:
            _say(look(detent, project), as_json)
        elif as_json or not sys.stdout.isatty():
            follow(detent, project, lambda snapshot: _say(snapshot, as_json))
        else:
            _live(detent, project, None if quiet else tell)


def look(detent: Connection, project: str | None) -> Snapshot:
    """What the board shows now."""
    tasks = detent.call("list_tasks", active=True, project=project, limit=MAX_TASKS)["items"]
    states = detent.call("counts", project=project)["lifecycles"]
    inbox = detent.call("inbox", project=project)
    return {
        "health": detent.call("health")["verdict"],
        "queue": detent.call("status", project=project)["queueLength"],
        "active": sum(states[of].get(state, 0) for of in ("board", "review") for state in ORDER),
        "people": inbox["count"],
        "waiting": matters(inbox),
        "tasks": sorted(tasks, key=lambda row: ORDER.index(row["state"])),
    }


def follow(
    detent: Connection,
    project: str | None,
    show: Callable[[Snapshot], None],
    notify: Callable[[Iterable[Mapping[str, Any]]], None] | None = None,
    pause: Callable[[float], None] = time.sleep,
) -> None:
    """Show every change for ever; what newly waits for a person is told, what waited is not."""
    before: Snapshot | None = None
    while True:
        now = _looked(detent, project) or before
        if now is not None and now != before:
            show(now)
            if notify is not None and before is not None:
                notify(newly_waiting(before, now))
            before = now
        pause(PAUSE_S)


def _looked(detent: Connection, project: str | None) -> Snapshot | None:
    """None while the gateway cannot answer: the board stays as it is and goes on later."""
    try:
        return look(detent, project)
    except DetentError as error:
        if error.code != "unavailable":
            raise
        return None


def newly_waiting(before: Snapshot, now: Snapshot) -> list[Mapping[str, Any]]:
    """What waits for a person now, and did not: the same task asking anew counts."""
    known = {(row["id"], row["state_at"]) for row in before["waiting"]}
    return [row for row in now["waiting"] if (row["id"], row["state_at"]) not in known]


# ---- showing ---------------------------------------------------------------------------------


def _say(snapshot: Snapshot, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(snapshot))
        return
    output.say(_summary(snapshot))
    output.table(table_columns.TASKS, [table_columns.task_cells(row) for row in snapshot["tasks"]])
    left_out = snapshot["active"] - len(snapshot["tasks"])
    if left_out > 0:
        output.say(f"… and {left_out} more")


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
    # What goes to stderr is the bell, which rich would draw as text.
    with Live(console=console, auto_refresh=False, screen=True, redirect_stderr=False) as live:

        def show(snapshot: Snapshot) -> None:
            live.update(board(snapshot, console.width, console.height), refresh=True)

        try:
            follow(detent, project, show, notify)
        except KeyboardInterrupt:
            return


def board(snapshot: Snapshot, width: int, height: int) -> "Group":
    """The board as lines that fit the terminal."""
    from rich.console import Group
    from rich.text import Text

    lines = [Text(output.cut(_summary(snapshot), width), style="bold")]
    for row in snapshot["waiting"][: max(1, height // 3)]:
        asked = " ".join(output.clean(f"▲ {row['id']}  {wanted(row)}").split())
        lines.append(Text(output.cut(asked, width), style="yellow"))
    lines.append(Text(""))
    drawn = output.lines_of(
        table_columns.TASKS, map(table_columns.task_cells, snapshot["tasks"]), width
    )
    space = max(2, height - len(lines) - 1)
    if snapshot["active"] > space - 1:  # beside the headings there is no place for all of them
        drawn = drawn[: space - 1]
    for cells in drawn:
        line = Text(no_wrap=True)
        for number, (text, style) in enumerate(cells):
            line.append((output.GAP if number else "") + text, style=style or None)
        lines.append(line)
    left_out = snapshot["active"] - (len(drawn) - 1)
    if left_out > 0:
        lines.append(Text(output.cut(f"… and {left_out} more", width), style="dim"))
    return Group(*lines)


# ---- telling ---------------------------------------------------------------------------------


def tell(waiting: Iterable[Mapping[str, Any]]) -> None:
    """Ring the terminal's bell, and say it on the desktop where there is one."""
    found = list(waiting)
    if not found:
        return
    sys.stderr.write("\a")
    sys.stderr.flush()
    program = shutil.which("notify-send")
    if program is not None:
        for row in found[:3]:
            subprocess.run(
                [program, "--app-name=detent", "--", *notice(row)],
                check=False,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=5,
            )


def notice(row: Mapping[str, Any]) -> tuple[str, str]:
    """Title and text of a notification; the desktop reads markup, which a title must not bring."""
    title = output.clean(f"detent: {row['intent']} waits for you")
    text = output.clean(f"{row['title']}\n{wanted(row)}".strip())
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return title, escaped[:1_000]
