"""`detent schedules`: list, put, pause, trigger and delete schedules."""

from collections.abc import Mapping
from typing import Any

import click

from detent.cli import output
from detent.cli.connection import connect
from detent.cli.named_verbs import add_verb
from detent.cli.typed_values import payload_from, seconds_from


@click.group(cls=output.Group, invoke_without_command=True)
@output.json_option
@click.pass_context
def schedules(ctx: click.Context, as_json: bool) -> None:
    """List schedules; put, pause, trigger or delete one."""
    if ctx.invoked_subcommand is not None:
        return
    with connect() as detent:
        found = detent.call("list_schedules")
    if as_json:
        output.print_json(found)
    elif not found["items"]:
        output.print_text("No schedules. Create one: detent schedules put NAME INTENT --every 1h")
    else:
        _table(found["items"])


def _table(items: list[Mapping[str, Any]]) -> None:
    headings = ("NAME", "INTENT", "WHEN", "NEXT", "LAST", "LAST TASK", "PROJECT")
    output.print_table(headings, [_cells(row) for row in items])


def _cells(row: Mapping[str, Any]) -> tuple[output.Cell, ...]:
    when = f"{row['cron']} {row['timezone']}" if row["cron"] else f"every {row['every_s']} s"
    coming: output.Cell = row["next_at"] or "soon"
    return (
        row["name"],
        row["intent"],
        when,
        output.Styled("paused", "yellow") if row["paused"] else coming,
        row["last_at"] or "",
        row["last_task"] or "",
        row["project"] or "",
    )


@schedules.command()
@click.argument("name")
@click.argument("intent")
@click.option("--cron", help="When to submit, as a cron expression: '0 3 * * *'.")
@click.option("--timezone", help="Time zone of the cron expression; default UTC.")
@click.option("--every", metavar="TIME", help="When to submit, as an interval: 90s, 15m, 2h, 1d.")
@click.option(
    "--overlap",
    type=click.Choice(["skip", "allow"]),
    help="If the last task has not ended, skip the time or allow another task; default skip.",
)
@click.option(
    "--missed",
    type=click.Choice(["once", "all", "skip"]),
    help="For times that passed while no keeper ran, submit one task (once), submit all, or skip "
    "them; default once.",
)
@click.option("--lifecycle", help="The lifecycle of its tasks; `detent lifecycle list` lists them.")
@click.option("--project", help="The project of its tasks.")
@click.option("--priority", help="P0 to P3, or high, normal, low.")
@click.option(
    "--set",
    "assignments",
    multiple=True,
    metavar="NAME=VALUE",
    help="A payload field; may be repeated.",
)
@click.option("--payload", help="The payload as JSON, or @FILE.")
@click.option(
    "--delay",
    "not_before",
    metavar="TIME",
    help="Start each task this much later than its time: 10m.",
)
@output.json_option
def put(
    every: str | None,
    assignments: tuple[str, ...],
    payload: str | None,
    as_json: bool,
    **fields: Any,
) -> None:
    """Create the schedule NAME, or replace it.

    Give --cron or --every.
    """
    if (fields["cron"] is None) == (every is None):
        raise click.UsageError("Give --cron or --every, and not both.")
    every_s = None if every is None else seconds_from(every, "--every")
    about = payload_from(payload, assignments) or None
    with connect() as detent:
        made = detent.call("put_schedule", every_s=every_s, payload=about, **fields)
    if as_json:
        output.print_json(made)
    else:
        _table([made])


def _print_done(_: str, done: Mapping[str, Any]) -> None:
    if "task_id" in done:
        output.print_text(done["task_id"])
    else:
        _table([done])


add_verb(
    schedules, "pause", "pause_schedule", "Submit no more tasks until it is resumed.", _print_done
)
add_verb(
    schedules,
    "resume",
    "resume_schedule",
    "Submit tasks again, from its next time on.",
    _print_done,
)
add_verb(
    schedules,
    "trigger",
    "trigger_schedule",
    "Submit its task now, in addition to its times.",
    _print_done,
)
add_verb(
    schedules,
    "delete",
    "delete_schedule",
    "Delete a schedule; its tasks stay.",
    _print_done,
)


@schedules.command("next")
@click.argument("name")
@click.option(
    "--count", type=click.IntRange(1), default=5, show_default=True, help="How many times to print."
)
@output.json_option
def next_times(name: str, count: int, as_json: bool) -> None:
    """Print the next times at which a schedule submits its task."""
    with connect() as detent:
        found = detent.call("next_times", name=name, count=count)
    if as_json:
        output.print_json(found)
    else:
        output.print_text("\n".join(found["times"]))
