"""`detent resources`: what steps hold while they run, and who holds it now."""

from collections.abc import Mapping
from typing import Any

import click

from detent.cli import output
from detent.cli.connection import connect
from detent.cli.named_verbs import add_verb
from detent.cli.typed_values import pairs_from


@click.group(cls=output.Group, invoke_without_command=True)
@output.json_option
@click.pass_context
def resources(ctx: click.Context, as_json: bool) -> None:
    """List resources and who holds them; put, drain or delete one."""
    if ctx.invoked_subcommand is not None:
        return
    with connect() as detent:
        found = detent.call("list_resources")
    if as_json:
        output.print_json(found)
    else:
        _table(found["items"])


def _table(items: list[Mapping[str, Any]]) -> None:
    headings = ("NAME", "STATE", "IN USE", "CAPABILITIES", "LABELS", "HELD BY")
    output.print_table(headings, [_cells(row) for row in items])


def _cells(row: Mapping[str, Any]) -> tuple[output.Cell, ...]:
    if row["drained"]:
        state = output.Styled("drained", "yellow")
    else:
        state = output.Styled(*(("healthy", "green") if row["healthy"] else ("unhealthy", "red")))
    capacity = "any" if row["built_in"] else str(row["capacity"])
    return (
        row["id"],
        state,
        f"{row['in_use']} of {capacity}",
        ", ".join(row["capabilities"]),
        ", ".join(f"{name}={value}" for name, value in row["labels"].items()),
        ", ".join(f"{each['job_id']}/{each['step']}" for each in row["holders"]),
    )


@resources.command()
@click.argument("name")
@click.option(
    "--capability", "capabilities", multiple=True, help="Something that it can do; may be repeated."
)
@click.option(
    "--label", "labels", multiple=True, metavar="NAME=VALUE", help="What it is; may be repeated."
)
@click.option("--capacity", type=int, help="How many may hold it at once; 1 if never said.")
@click.option("--healthy/--unhealthy", default=None, help="Whether it is given out.")
@output.json_option
def put(
    name: str,
    capabilities: tuple[str, ...],
    labels: tuple[str, ...],
    as_json: bool,
    **said: Any,
) -> None:
    """Make a resource, or change what is said of one; what is not said stays."""
    with connect() as detent:
        made = detent.call(
            "put_resource",
            name=name,
            capabilities=list(capabilities) or None,
            labels=pairs_from(labels, "--label") or None,
            **said,
        )
    output.print_json(made) if as_json else _table([made])


def _tell(_: str, done: Mapping[str, Any]) -> None:
    _table([done])


add_verb(
    resources,
    "drain",
    "drain_resource",
    "Give it to nobody any more; whoever holds it goes on.",
    _tell,
)
add_verb(resources, "undrain", "undrain_resource", "Give a drained resource out again.", _tell)
add_verb(
    resources,
    "delete",
    "delete_resource",
    "Forget a resource; refused while a step holds it.",
    _tell,
)
