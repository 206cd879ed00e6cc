"""`detent resources`: list resources, their holders and usage; put, drain, reset or delete one."""

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
    """List resources, their holders and usage; put, drain, reset or delete one."""
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
    providers = [row for row in items if row["provider"] is not None]
    if providers:
        output.print_text("")
        today = ("PROVIDER", "SERVICE", "STATE", "UNTIL", "RUNS TODAY", "LIMITS", "TOKENS", "COST")
        output.print_table((*today, "LAST ERROR"), [_provider_cells(row) for row in providers])


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


#: The colours of the states of providers.
COLOURS = {"available": "green", "limited": "yellow", "half_open": "yellow"}


def _provider_cells(row: Mapping[str, Any]) -> tuple[output.Cell, ...]:
    provider = row["provider"]
    today, state = provider["today"], provider["state"]
    return (
        row["id"],
        provider["service"] + (" (personal)" if provider["personal"] else ""),
        output.Styled(state, COLOURS.get(state, "red")),
        provider["breaker"]["open_until"] or provider["limited_until"] or "",
        str(today["runs"]),
        str(today["rate_limits"]),
        f"{today['tokens_in']} in, {today['tokens_out']} out",
        f"${today['cost_usd']:.2f}",
        provider["error"] or "",
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
@click.option("--service", help="Make it a provider of this service, such as anthropic.")
@click.option("--personal/--shared", default=None, help="Whether it is the account of a person.")
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
    "reset",
    "reset_resource",
    "End the rate limit of a provider and close the circuit breaker of its service.",
    _print_done,
)
add_verb(
    resources,
    "delete",
    "delete_resource",
    "Delete a resource; refused while a step holds it.",
    _print_done,
)
