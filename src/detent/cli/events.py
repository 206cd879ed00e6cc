"""Commands that follow: `events` and `logs`."""

import json
import time
from typing import Any

import click

from detent.cli import output
from detent.cli.connection import Connection, connect
from detent.cli.id_lookup import first_known, way_to
from detent.cli.table_columns import event_cells

PAUSE_S = 0.2
#: As many events as a gateway gives at once.
MOST = 1_000
#: Task states in which more output may come.
AT_WORK = ("todo", "doing", "queued", "running")
#: Where events and output are found, by what an id may name.
EVENTS = (("task_events", "task_id"), ("job_events", "job_id"))
LOGS = (("task_logs", "task_id"), ("job_logs", "job_id"), ("run_output", "run_id"))


@click.command()
@click.argument("work_id", required=False, metavar="[TASK_OR_JOB]")
@click.option("-f", "--follow", is_flag=True, help="Go on with new events.")
@click.option("--after", type=click.IntRange(0), default=0, help="Only after this position.")
@click.option(
    "--limit",
    type=click.IntRange(1, MOST),
    default=MOST,
    show_default=True,
    help="At most so many.",
)
@output.json_option
def events(work_id: str | None, follow: bool, after: int, limit: int, as_json: bool) -> None:
    """Print the log, or one task's history, as it happened.

    With --json each event is one line.
    """
    with connect() as detent:
        while True:
            batch, after = _read(detent, work_id, after, limit)
            for event in batch:
                _print(event, as_json)
            if not follow:
                if len(batch) == limit:
                    _say_more(work_id, after)
                return
            if not batch:
                time.sleep(PAUSE_S)


def _read(
    detent: Connection, work_id: str | None, after: int, limit: int
) -> tuple[list[dict[str, Any]], int]:
    """Events after a position, and the position after which to go on."""
    if work_id is None:
        page = detent.call("list_events", after=after, limit=limit)
        return page["events"], page["cursor"]
    new = first_known(detent, work_id, *EVENTS, after=after)["events"][:limit]
    return new, new[-1]["position"] if new else after


def _say_more(work_id: str | None, after: int) -> None:
    about = "" if work_id is None else f" {work_id}"
    output.print_note(f"There may be more: detent events{about} --after {after}")


def _print(event: dict[str, Any], as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(event))
        return
    position, name, at, actor, about = event_cells(event)
    output.print_text(f"{position:>8}  {at}  {name:<22} {about}  {actor}")


# ---- logs ------------------------------------------------------------------------------------


@click.command()
@click.argument("work_id", metavar="TASK_OR_JOB_OR_RUN")
@click.option("-f", "--follow", is_flag=True, help="Go on while it runs.")
@output.json_option
def logs(work_id: str, follow: bool, as_json: bool) -> None:
    """Print what a task's last run has written.

    With --json each piece is one line. Followed, a task goes on with its next run.
    """
    with connect() as detent:
        way, _ = way_to(detent, work_id, *LOGS)
        run_id, offset = None, 0
        while True:
            chunk = detent.call(way[0], **{way[1]: work_id}, offset=offset)
            if chunk["run_id"] != run_id and offset:
                offset = 0  # a new run has begun: its output from the start
            else:
                _write(chunk, as_json)
                offset = chunk["offset"]
                if not follow or (_over(detent, way, work_id, chunk)):
                    return
                if not chunk["text"]:
                    time.sleep(PAUSE_S)
            run_id = chunk["run_id"]


def _over(detent: Connection, way: tuple[str, str], work_id: str, chunk: dict[str, Any]) -> bool:
    """Whether nothing more will come."""
    if chunk["text"] or not (chunk["ended"] or chunk["run_id"] is None):
        return False
    if way[1] != "task_id":
        return bool(chunk["ended"])
    return detent.call("show_task", task_id=work_id)["state"] not in AT_WORK


def _write(chunk: dict[str, Any], as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(chunk))
    elif chunk["text"]:
        click.echo(output.clean(chunk["text"]), nl=False)
