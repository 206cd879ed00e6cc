"""`detent projects` and `detent intents`: list the projects and the task types."""

from collections.abc import Mapping
from typing import Any

import click

from detent.cli import output
from detent.cli.connection import connect


@click.group(cls=output.Group, invoke_without_command=True)
@output.json_option
@click.pass_context
def projects(ctx: click.Context, as_json: bool) -> None:
    """List projects with their task counts; create one."""
    if ctx.invoked_subcommand is not None:
        return
    with connect() as detent:
        found = detent.call("list_projects")
    if as_json:
        output.print_json(found)
    elif not found["items"]:
        output.print_text("No projects yet. The first task of a project creates it.")
    else:
        rows = [(row["name"], str(row["tasks"])) for row in found["items"]]
        output.print_table(("NAME", "TASKS"), rows)


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
    """Show one project with the counts of its tasks and jobs by state."""
    with connect() as detent:
        found = detent.call("show_project", name=name)
    if as_json:
        output.print_json(found)
        return
    output.print_fields(
        found["name"],
        {
            "paused": "yes" if found["paused"] else "no",
            "tasks": _counts(found["tasks"]),
            "jobs": _counts(found["jobs"]),
        },
    )


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
