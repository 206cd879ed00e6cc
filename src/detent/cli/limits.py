"""`detent pause` and `detent unpause`, and `detent limits`, which lists pauses and limits."""

from collections.abc import Callable, Mapping
from typing import Any

import click

from detent.cli import output
from detent.cli.connection import connect
from detent.cli.quota_values import quotas_text
from detent.cli.typed_values import seconds_from


def _target_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that name what is paused."""
    for option in (
        output.json_option,
        click.option("--all", "everything", is_flag=True, help="All work."),
        click.option("--key", help="Work with this concurrency key."),
        click.option("--project", help="Work of this project."),
        click.option("--intent", help="Work of this intent (task type)."),
    ):
        command = option(command)
    return command


@click.command()
@_target_options
@click.option("--reason", help="The reason, which `detent why` shows.")
@click.option("--for", "duration", help="End the pause after this time: 90s, 15m, 2h, 1d.")
@click.option("--list", "listed", is_flag=True, help="Pause nothing; list the pauses.")
def pause(
    reason: str | None, duration: str | None, listed: bool, as_json: bool, **target: Any
) -> None:
    """Pause an intent, a project, a concurrency key or all work: no new work starts.

    Work that runs continues, and new tasks are still accepted. `detent unpause` ends the pause.
    """
    if listed:
        with connect() as detent:
            rows = detent.call("list_limits")["items"]
        _list({"items": [row for row in rows if row["paused"]]}, as_json, "Nothing is paused.")
    else:
        for_s = None if duration is None else seconds_from(duration, "--for")
        _set_paused("pause", as_json, target, reason=reason, for_s=for_s)


@click.command()
@_target_options
def unpause(as_json: bool, **target: Any) -> None:
    """End the pause of an intent, of a project, of a concurrency key or of all work."""
    _set_paused("resume", as_json, target)


def _set_paused(operation: str, as_json: bool, target: Mapping[str, Any], **arguments: Any) -> None:
    """Pause or resume exactly one of: an intent, a project, a concurrency key, all work."""
    if sum(map(bool, target.values())) != 1:
        raise click.UsageError("Give exactly one of --intent, --project, --key and --all.")
    named = {kind: target[kind] for kind in ("intent", "project", "key")}
    with connect() as detent:
        limit = detent.call(operation, **named, **arguments)
    sentence = f"{limit['name']}: {'paused' if limit['paused'] else 'not paused'}"
    output.print_result(limit, sentence, as_json)


@click.command()
@click.option("--position", type=click.IntRange(min=0), help="After this position of the log.")
@click.option("--time", help="At this time, with its zone: 2030-01-01T12:00:00Z.")
@output.json_option
def limits(position: int | None, time: str | None, as_json: bool) -> None:
    """List pauses, limits, quotas and weights; now, or at an earlier time."""
    with connect() as detent:
        found = detent.call("list_limits", position=position, time=time)
    _list(found, as_json, "No pauses and no limits.")


def _list(found: Mapping[str, Any], as_json: bool, empty: str) -> None:
    if as_json:
        output.print_json(found)
    elif not found["items"]:
        output.print_text(empty)
    else:
        headings = ("NAME", "PAUSED", "WEIGHT", "LIMITS", "BY", "SINCE", "UNTIL", "REASON")
        output.print_table(headings, [_cells(row) for row in found["items"]])


def _cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        row["name"],
        "yes" if row["paused"] else "",
        "" if row["weight"] is None else str(row["weight"]),
        quotas_text(row),
        row["paused_by"] or "",
        row["paused_at"] or "",
        row["paused_until"] or "",
        row["reason"] or "",
    )
