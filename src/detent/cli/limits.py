"""Pausing work that is not started yet, and ending a pause: `pause`, `unpause`, `limits`."""

from collections.abc import Callable, Mapping
from typing import Any

import click

from detent.cli import output
from detent.cli.connection import connect


def _of_what(command: Callable[..., None]) -> Callable[..., None]:
    """What a pause is about."""
    for option in (
        output.json_option,
        click.option("--all", "everything", is_flag=True, help="All work."),
        click.option("--project", help="The work of this project."),
        click.option("--intent", help="The work of this intent."),
    ):
        command = option(command)
    return command


@click.command()
@_of_what
@click.option("--reason", help="Why, for whoever wonders later.")
@click.option("--list", "listed", is_flag=True, help="Pause nothing; list what is paused.")
def pause(reason: str | None, listed: bool, as_json: bool, **what: Any) -> None:
    """Let no more work of an intent, of a project or at all be started.

    What runs goes on, and submissions are taken in.
    """
    if listed:
        with connect() as detent:
            rows = detent.call("list_limits")["items"]
        _list({"items": [row for row in rows if row["paused"]]}, as_json, "Nothing is paused.")
    else:
        _switch("pause", as_json, what, reason=reason)


@click.command()
@_of_what
def unpause(as_json: bool, **what: Any) -> None:
    """End a pause of an intent, of a project or of everything."""
    _switch("resume", as_json, what)


def _switch(operation: str, as_json: bool, what: Mapping[str, Any], **said: Any) -> None:
    """On an intent, a project or everything: exactly one of them must be said."""
    if sum(map(bool, what.values())) != 1:
        raise click.UsageError("Say one of --intent, --project and --all.")
    with connect() as detent:
        limit = detent.call(operation, intent=what["intent"], project=what["project"], **said)
    sentence = f"{limit['name']}: {'paused' if limit['paused'] else 'not paused'}"
    output.print_result(limit, sentence, as_json)


@click.command()
@output.json_option
def limits(as_json: bool) -> None:
    """List what is paused, and how many may run at once."""
    with connect() as detent:
        _list(detent.call("list_limits"), as_json, "Nothing is paused or limited.")


def _list(found: Mapping[str, Any], as_json: bool, empty: str) -> None:
    if as_json:
        output.print_json(found)
    elif not found["items"]:
        output.print_text(empty)
    else:
        headings = ("NAME", "PAUSED", "AT ONCE", "STARTS", "BY", "SINCE", "REASON")
        output.print_table(headings, [_cells(row) for row in found["items"]])


def _cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        row["name"],
        "yes" if row["paused"] else "",
        "" if row["running"] is None else str(row["running"]),
        "" if row["rate"] is None else f"{row['rate']} in {row['per_s']} s",
        row["paused_by"] or "",
        row["paused_at"] or "",
        row["reason"] or "",
    )
