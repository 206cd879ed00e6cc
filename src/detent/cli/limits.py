"""Pausing work that is not started yet, and ending a pause: `pause`, `unpause`, `limits`."""

from typing import Any

import click

from detent.cli import output
from detent.cli.connection import connect


def _switch(name: str, operation: str, help_text: str) -> click.Command:
    """A command on an intent, a project or everything: exactly one of them must be said."""

    @click.command(name, help=help_text)
    @click.option("--intent", help="The work of this intent.")
    @click.option("--project", help="The work of this project.")
    @click.option("--all", "everything", is_flag=True, help="All work.")
    @output.json_option
    def command(intent: str | None, project: str | None, everything: bool, as_json: bool) -> None:
        if (intent is not None) + (project is not None) + everything != 1:
            raise click.UsageError("Say one of --intent, --project and --all.")
        with connect() as detent:
            limit = detent.call(operation, intent=intent, project=project)
        if as_json:
            output.print_json(limit)
        else:
            output.say(f"{limit['name']}: {'paused' if limit['paused'] else 'not paused'}")

    return command


pause = _switch(
    "pause",
    "pause",
    "Let no more work of an intent, of a project or at all be started.\n\n"
    "What runs goes on, and submissions are taken in.",
)
unpause = _switch("unpause", "resume", "End a pause of an intent, of a project or of everything.")


@click.command()
@output.json_option
def limits(as_json: bool) -> None:
    """List what is paused, and how many may run at once."""
    with connect() as detent:
        found = detent.call("list_limits")
    if as_json:
        output.print_json(found)
    elif not found["items"]:
        output.say("Nothing is paused or limited.")
    else:
        headings = ("NAME", "PAUSED", "AT ONCE", "STARTS")
        output.table(headings, [_cells(row) for row in found["items"]])


def _cells(row: Any) -> tuple[str, ...]:
    return (
        row["name"],
        "yes" if row["paused"] else "",
        "" if row["running"] is None else str(row["running"]),
        "" if row["rate"] is None else f"{row['rate']} in {row['per_s']} s",
    )
