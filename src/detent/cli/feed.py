"""Commands that follow: `events` and `logs`."""

import json
import time
from typing import Any

import click

from detent.cli import output
from detent.cli.connection import connect
from detent.cli.tasks import event_row


@click.command()
@click.argument("task_id", required=False)
@click.option("-f", "--follow", is_flag=True, help="Go on with new events.")
@click.option("--after", default=0, help="Only events after this position.")
@click.option("--limit", default=1000, show_default=True, help="At most so many at once.")
@output.json_option
def events(task_id: str | None, follow: bool, after: int, limit: int, as_json: bool) -> None:
    """Print the log, or one task's history, as it happened."""
    with connect() as detent:
        while True:
            batch = _read(detent, task_id, after, limit)
            for event in batch:
                _print(event, as_json)
                after = event["position"]
            if not follow:
                return
            if not batch:
                time.sleep(0.2)


def _read(detent: Any, task_id: str | None, after: int, limit: int) -> list[dict[str, Any]]:
    if task_id is None:
        return list(detent.call("list_events", after=after, limit=limit)["events"])
    found = detent.call("task_events", task_id=task_id)["events"]
    return [event for event in found if event["position"] > after][:limit]


def _print(event: dict[str, Any], as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(event))
        return
    position, at, name, actor = event_row(event)
    subject = event["subject"] or ""
    output.say(f"{position:>8}  {at}  {name:<22} {event['stream']} {subject}  {actor}")


@click.command()
@click.argument("task_id")
@click.option("-f", "--follow", is_flag=True, help="Go on while it runs.")
def logs(task_id: str, follow: bool) -> None:
    """Print what a task's last run has written."""
    offset = 0
    with connect() as detent:
        while True:
            chunk = detent.call("task_logs", task_id=task_id, offset=offset)
            if chunk["text"]:
                click.echo(output.clean(chunk["text"]), nl=False)
            offset = chunk["offset"]
            if not follow or (chunk["ended"] and not chunk["text"]):
                return
            if not chunk["text"]:
                time.sleep(0.2)
