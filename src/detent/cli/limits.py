"""Pausing work that is not started yet, and ending a pause: `pause`, `unpause`, `limits`."""

from collections.abc import Callable, Mapping
from typing import Any

import click

from detent.cli import output
from detent.cli.connection import connect
from detent.cli.typed_values import seconds_from


def _of_what(command: Callable[..., None]) -> Callable[..., None]:
    """What a pause is about."""
    for option in (
        output.json_option,
        click.option("--all", "everything", is_flag=True, help="All work."),
        click.option("--key", help="The work under this concurrency key."),
        click.option("--project", help="The work of this project."),
        click.option("--intent", help="The work of this intent."),
    ):
        command = option(command)
    return command


@click.command()
@_of_what
@click.option("--reason", help="Why, as `detent why` shows it.")
@click.option("--for", "duration", help="End the pause by itself after so long: 90s, 15m, 2h, 1d.")
@click.option("--list", "listed", is_flag=True, help="Pause nothing; list what is paused.")
def pause(
    reason: str | None, duration: str | None, listed: bool, as_json: bool, **what: Any
) -> None:
    """Let no more work of an intent, a project or a key, or none at all, be started.

    What runs goes on, and submissions are taken in.
    """
    if listed:
        with connect() as detent:
            rows = detent.call("list_limits")["items"]
        _list({"items": [row for row in rows if row["paused"]]}, as_json, "Nothing is paused.")
    else:
        for_s = None if duration is None else seconds_from(duration, "--for")
        _switch("pause", as_json, what, reason=reason, for_s=for_s)


@click.command()
@_of_what
def unpause(as_json: bool, **what: Any) -> None:
    """End a pause of an intent, of a project, of a key or of everything."""
    _switch("resume", as_json, what)


def _switch(operation: str, as_json: bool, what: Mapping[str, Any], **said: Any) -> None:
    """On an intent, a project, a key or everything: exactly one of them must be said."""
    if sum(map(bool, what.values())) != 1:
        raise click.UsageError("Say one of --intent, --project, --key and --all.")
    named = {kind: what[kind] for kind in ("intent", "project", "key")}
    with connect() as detent:
        limit = detent.call(operation, **named, **said)
    sentence = f"{limit['name']}: {'paused' if limit['paused'] else 'not paused'}"
    output.answer(limit, sentence, as_json)


@click.command()
@click.option("--position", type=click.IntRange(min=0), help="After this position of the log.")
@click.option("--time", help="At this time with its zone, like 2030-01-01T12:00:00Z.")
@output.json_option
def limits(position: int | None, time: str | None, as_json: bool) -> None:
    """List what is paused, and how many may run at once; now, or at an earlier moment."""
    with connect() as detent:
        found = detent.call("list_limits", position=position, time=time)
    _list(found, as_json, "Nothing is paused or limited.")


def _list(found: Mapping[str, Any], as_json: bool, empty: str) -> None:
    if as_json:
        output.print_json(found)
    elif not found["items"]:
        output.say(empty)
    else:
        headings = ("NAME", "PAUSED", "AT ONCE", "STARTS", "BY", "SINCE", "UNTIL", "REASON")
        output.table(headings, [_cells(row) for row in found["items"]])


def _cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        row["name"],
        "yes" if row["paused"] else "",
        "" if row["running"] is None else str(row["running"]),
        "" if row["rate"] is None else f"{row['rate']} in {row['per_s']} s",
        row["paused_by"] or "",
        row["paused_at"] or "",
        row["paused_until"] or "",
        row["reason"] or "",
    )
