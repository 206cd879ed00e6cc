"""`detent events` prints the event log."""

import json
import time
from typing import Any

import click

from detent.cli import output
from detent.cli.connection import Connection, connect
from detent.cli.id_lookup import call_first_match
from detent.cli.table_columns import event_cells

POLL_S = 0.2
#: Maximum number of events in one response of the gateway.
MAX_EVENTS = 1_000
#: The operations that return events, by the kind of the id.
EVENTS = (("task_events", "task_id"), ("job_events", "job_id"))


@click.command()
@click.argument("work_id", required=False, metavar="[TASK_OR_JOB]")
@click.option("-f", "--follow", is_flag=True, help="Print new events until Ctrl-C.")
@click.option(
    "--after", type=click.IntRange(0), default=0, help="Only events after this position of the log."
)
@click.option(
    "--limit",
    type=click.IntRange(1, MAX_EVENTS),
    default=MAX_EVENTS,
    show_default=True,
    help="Maximum number of events.",
)
@output.json_option
def events(work_id: str | None, follow: bool, after: int, limit: int, as_json: bool) -> None:
    """Print the event log, or the history of one task or job.

    With --json, each event is one line.
    """
    with connect() as detent:
        while True:
            before = after
            batch, after = _read(detent, work_id, before, limit)
            for event in batch:
                _print(event, as_json)
            if not follow:
                limit -= len(batch)
                if not limit:
                    _print_more(work_id, after)
                if not limit or after == before:
                    return
            elif not batch:
                time.sleep(POLL_S)


def _read(
    detent: Connection, work_id: str | None, after: int, limit: int
) -> tuple[list[dict[str, Any]], int]:
    """The events after a position, and the position to continue from."""
    if work_id is None:
        page = detent.call("list_events", after=after, limit=limit)
        return page["events"], page["cursor"]
    new = call_first_match(detent, work_id, *EVENTS, after=after)["events"][:limit]
    return new, new[-1]["position"] if new else after


def _print_more(work_id: str | None, after: int) -> None:
    about = "" if work_id is None else f" {work_id}"
    output.print_note(f"There may be more events: detent events{about} --after {after}")


def _print(event: dict[str, Any], as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(event))
        return
    position, name, at, actor, about = event_cells(event)
    output.print_text(f"{position:>8}  {at}  {name:<23} {about}  {actor}")
