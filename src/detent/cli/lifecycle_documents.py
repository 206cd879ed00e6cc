"""`detent lifecycle install`, `remove` and `migrate`, and `detent send`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import click

from detent.cli import output
from detent.cli.connection import Connection, connect
from detent.cli.id_lookup import call_first_match
from detent.cli.task_selection import print_outcome
from detent.quantity import quantity
from detent.task_lifecycles.document_file import LIMIT_BYTES, text_of


@click.command()
@click.argument("file", type=click.File("rb"))
@output.json_option
def install(file: BinaryIO, as_json: bool) -> None:
    """Install the lifecycle in a TOML file (- for stdin), or a new version of it.

    Tasks stay on the version that they began with; `detent lifecycle migrate` moves them. The same
    file again changes nothing.
    """
    name = Path(str(getattr(file, "name", "<stdin>"))).name
    with connect() as detent:
        done = detent.call("install_lifecycle", document=_text(file, name), file=name)
    output.print_result(done, f"{done['id']}: {_result(done['search'])}", as_json)


def _result(search: Mapping[str, Any] | None) -> str:
    if search is None:
        return "installed before, nothing changed"
    scope = "all" if search["exhausted"] else f"the first of them, at most {search['max_states']}"
    return f"installed; {search['states']} reachable states searched ({scope}), no violation"


def _text(file: BinaryIO, name: str) -> str:
    """The text of a file, at most a byte more than a document may have."""
    content = file.read(LIMIT_BYTES + 1)
    if len(content) > LIMIT_BYTES:
        return content.decode("utf-8", "replace")  # it is too large, which is the error
    return text_of(content, name)


@click.command()
@click.argument("name")
@output.json_option
def remove(name: str, as_json: bool) -> None:
    """Remove a lifecycle with all its versions; refused while tasks have it."""
    with connect() as detent:
        done = detent.call("remove_lifecycle", name=name)
    output.print_result(done, f"{done['name']}: removed", as_json)


@click.command()
@click.argument("name")
@click.option(
    "--dry-run",
    is_flag=True,
    help="Change nothing; count the tasks to migrate, and list those that would stay.",
)
@output.json_option
@click.pass_context
def migrate(ctx: click.Context, name: str, dry_run: bool, as_json: bool) -> None:
    """Continue the live tasks of a lifecycle under its newest version.

    A task stays on its version if the newest one does not have its state, and its `migrate` names
    no other state for it. Such tasks are listed, and the exit code is 1.
    """
    with connect() as detent:
        done = _migrated(detent, name, dry_run)
    if as_json:
        output.print_json(done)
    else:
        would = "would be migrated" if dry_run else "migrated"
        count = quantity(done["migrated"], "task")
        output.print_text(f"{count} {would} to {done['lifecycle']}")
        if done["stranded"]:
            rows = [(row["id"], row["state"], row["lifecycle"]) for row in done["stranded"]]
            kept = "has no state there and stays as it is"
            if len(rows) > 1:
                kept = "have no state there and stay as they are"
            output.print_text(f"{quantity(len(rows), 'task')} {kept}:")
            output.print_table(("TASK", "STATE", "LIFECYCLE"), rows)
    ctx.exit(1 if done["stranded"] else 0)


def _migrated(detent: Connection, name: str, dry_run: bool) -> Mapping[str, Any]:
    """Migrate page by page; a migration that was interrupted continues when it is repeated."""
    stranded: list[Any] = []
    count, after = 0, ""
    while True:
        done = detent.call("migrate_lifecycle", name=name, dry_run=dry_run, after=after)
        count += done["migrated"]
        stranded += done["stranded"]
        if done["next"] is None:
            rest = {key: value for key, value in done.items() if key != "next"}
            return {**rest, "migrated": count, "stranded": stranded}
        after = done["next"]


@click.command()
@click.argument("task_id", metavar="TASK")
@click.argument("event")
@click.option("--comment", help="A comment, recorded in the event log; the next run receives it.")
@output.json_option
def send(task_id: str, event: str, comment: str | None, as_json: bool) -> None:
    """Send a task an event of its lifecycle, such as task_approved.

    `detent why TASK` lists the events that people can send now.
    """
    with connect() as detent:
        sent = call_first_match(
            detent, task_id, ("send_event", "task_id"), event=event, comment=comment
        )
    print_outcome(sent, as_json)
