"""`detent projects` and `detent intents`: list the projects and the task types; set quotas."""

from collections.abc import Mapping
from typing import Any

import click

from detent.cli import output
from detent.cli.connection import connect
from detent.cli.quota_values import quota_from, quotas_text
from detent.quantity import quantity


@click.group(cls=output.Group, invoke_without_command=True)
@output.json_option
@click.pass_context
def projects(ctx: click.Context, as_json: bool) -> None:
    """List projects with their task counts and weights; create one; set quotas."""
    if ctx.invoked_subcommand is not None:
        return
    with connect() as detent:
        found = detent.call("list_projects")
    if as_json:
        output.print_json(found)
    elif not found["items"]:
        output.print_text("No projects yet. The first task of a project creates it.")
    else:
        rows = [(row["name"], str(row["tasks"]), str(row["weight"])) for row in found["items"]]
        output.print_table(("NAME", "TASKS", "WEIGHT"), rows)


@projects.command()
@click.argument("name")
@output.json_option
def create(name: str, as_json: bool) -> None:
    """Create a project; needed only if intake.projects_locked is set."""
    with connect() as detent:
        made = detent.call("create_project", name=name)
    output.print_result(made, made["name"], as_json)


@projects.command()
@click.argument("name")
@output.json_option
def show(name: str, as_json: bool) -> None:
    """Show one project: its tasks and jobs by state, its quotas and what it has used."""
    with connect() as detent:
        found = detent.call("show_project", name=name)
    if as_json:
        output.print_json(found)
        return
    output.print_fields(
        ("project", found["name"]),
        {
            "paused": "yes" if found["paused"] else "no",
            "tasks": _counts(found["tasks"]),
            "jobs": _counts(found["jobs"]),
            "weight": str(found["limits"]["weight"] or 1),
            "quotas": quotas_text(found["limits"]) or "none",
            "used": _used(found["used"]),
        },
    )


def _used(used: Mapping[str, Any]) -> str:
    parts = [f"${used['cost_today_usd']:.2f} today (UTC)"]
    if used["submissions"] is not None:
        parts.append(f"{quantity(used['submissions'], 'submission')} in the present window")
    if used["stored_bytes"] is not None:
        parts.append(f"{used['stored_bytes']:,} bytes stored")
    return ", ".join(parts)


@projects.command()
@click.argument("name")
@click.option("--weight", type=int, help="Its share of the claims among projects; 1 if not set.")
@click.option("--running", type=int, help="How many of its jobs may run at the same time.")
@click.option("--starts", help="How many of its jobs may start in a time: 10/60s.")
@click.option("--submissions", help="How many tasks and jobs are accepted in a time: 100/60s.")
@click.option("--storage", help="Bytes of payloads, evidence and output: 500MB, 10GiB.")
@click.option("--cost-per-day", help="Dollars that its runs may cost in a day (UTC).")
@click.option(
    "--clear", multiple=True, help="Remove this quota, by its option: storage; may be repeated."
)
@output.json_option
def quota(name: str, clear: tuple[str, ...], as_json: bool, **given: Any) -> None:
    """Set the weight and the quotas of a project; what is not given stays as it is.

    Without options, show them.
    """
    with connect() as detent:
        if clear or any(value is not None for value in given.values()):
            limit = detent.call("set_project_quota", name=name, **quota_from(given, clear))
        else:
            limit = detent.call("show_project", name=name)["limits"]
    quotas = quotas_text(limit) or "no quotas"
    output.print_result(limit, f"{name}: weight {limit['weight'] or 1}, {quotas}", as_json)


def _counts(by_state: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {state}" for state, count in sorted(by_state.items())) or "none"


@click.command()
@output.json_option
def intents(as_json: bool) -> None:
    """List the known intents (task types) and where they are defined."""
    with connect() as detent:
        found = detent.call("list_intents")
    if as_json:
        output.print_json(found)
        return
    headings = ("NAME", "KIND", "DEFINED IN", "WORKERS", "PAUSED")
    output.print_table(headings, [_cells(row) for row in found["items"]])


def _cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        row["name"],
        row["kind"],
        ", ".join(row["origins"]),
        str(row["workers"]),
        "yes" if row["paused"] else "",
    )
