"""`detent resources`: list resources and the steps that hold them; put, drain or delete one."""

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
    """List resources and the steps that hold them; put, drain or delete one."""
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
    capacity = "" if row["built_in"] else f" of {row['capacity']}"
    return (
        row["id"],
        state,
        f"{row['in_use']}{capacity}",
        ", ".join(row["capabilities"]),
        ", ".join(f"{name}={value}" for name, value in row["labels"].items()),
        ", ".join(f"{each['job_id']}/{each['step']}" for each in row["holders"]),
    )


@resources.command()
@click.argument("name")
@click.option(
    "--capability",
    "capabilities",
    multiple=True,
    help="A capability of the resource; may be repeated.",
)
@click.option(
    "--label", "labels", multiple=True, metavar="NAME=VALUE", help="A label; may be repeated."
)
@click.option(
    "--capacity", type=int, help="How many steps may hold it at the same time; default 1."
)
@click.option("--healthy/--unhealthy", default=None, help="Whether steps may get it.")
@output.json_option
def put(
    name: str,
    capabilities: tuple[str, ...],
    labels: tuple[str, ...],
    as_json: bool,
    **fields: Any,
) -> None:
    """Create a resource, or change it; omitted options keep their values."""
    with connect() as detent:
        made = detent.call(
            "put_resource",
            name=name,
            capabilities=list(capabilities) or None,
            labels=pairs_from(labels, "--label") or None,
            **fields,
        )
    if as_json:
        output.print_json(made)
    else:
        _table([made])


def _print_done(_: str, done: Mapping[str, Any]) -> None:
    _table([done])


add_verb(
    resources,
    "drain",
    "drain_resource",
    "Assign a resource to no more steps; steps that hold it continue.",
    _print_done,
)
add_verb(
    resources,
    "undrain",
    "undrain_resource",
    "Assign a drained resource to steps again.",
    _print_done,
)
add_verb(
    resources,
    "delete",
    "delete_resource",
    "Delete a resource; refused while a step holds it.",
    _print_done,
)
