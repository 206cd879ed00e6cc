"""`detent tasks`: list tasks, `create` a task, and `set` its fields or state."""

from typing import Any

import click

from detent.cli import output, table_columns
from detent.cli.connection import Connection, connect
from detent.cli.id_lookup import whole_id
from detent.cli.show import page_options, show_page
from detent.cli.task_selection import print_outcome
from detent.cli.typed_values import dollars_from, payload_from


@click.group(cls=output.Group, invoke_without_command=True)
@click.option("--active", is_flag=True, help="Only tasks that have not ended.")
@click.option("--lifecycle", help="Only tasks of this lifecycle.")
@click.option("--project", help="Only tasks of this project.")
@click.option("--intent", help="Only tasks of this intent (task type).")
@click.option("--source", help="Only tasks from this source.")
@click.option("--priority", help="Only tasks of this priority.")
@click.option("--tag", help="Only tasks with this tag.")
@click.option("--parent", "parent_id", help="Only subtasks of this task.")
@page_options
@click.pass_context
def tasks(ctx: click.Context, /, as_json: bool, **filters: Any) -> None:
    """List tasks, newest first; create a task, or set its fields or state."""
    if ctx.invoked_subcommand is not None:
        return
    with connect() as detent:
        if filters["parent_id"] is not None:
            filters["parent_id"] = whole_id(detent, "task", filters["parent_id"])
        page = detent.call("list_tasks", **filters)
    empty = "No tasks found. Submit one: detent submit runQA --project demo"
    show_page(page, as_json, table_columns.TASKS, table_columns.task_cells, empty, "detent tasks")


@tasks.command()
@click.argument("intent")
@click.option("--title", default="", help="A title for people.")
@click.option("--id", "id", help="The id of the task; generated if omitted.")
@click.option("--project", help="The project of the task.")
@click.option("--priority", default="P2", show_default=True, help="P0 to P3, or high, normal, low.")
@click.option(
    "--lifecycle",
    help="The lifecycle of the task; `detent lifecycle list` lists them.",
)
@click.option(
    "--set",
    "assignments",
    multiple=True,
    metavar="NAME=VALUE",
    help="A payload field; may be repeated.",
)
@click.option("--payload", help="The payload as JSON, or @FILE.")
@output.json_option
def create(assignments: tuple[str, ...], payload: str | None, as_json: bool, **fields: Any) -> None:
    """Create a task of the type INTENT without queueing it; `detent run` queues it."""
    with connect() as detent:
        fields["lifecycle"] = fields["lifecycle"] or _default(detent)
        made = detent.call(
            "submit_task",
            source="cli",
            run=False,
            payload=payload_from(payload, assignments),
            **fields,
        )
    output.print_result(made, made["id"], as_json)


def _default(detent: Connection) -> str:
    """The lifecycle of tasks that are added without one."""
    defaults = detent.call("list_lifecycles")["defaults"]
    return str(defaults["add"]).partition("@")[0]


@tasks.command("set")
@click.argument("task_id", metavar="TASK")
@click.argument("state", required=False)
@click.option("--reason", help="The reason; shown if the task is blocked.")
@click.option("--title", help="A new title.")
@click.option("--priority", help="P0 to P3, or high, normal, low.")
@click.option(
    "--tag", "tags", multiple=True, help="Replace the tags with this one; may be repeated."
)
@click.option(
    "--set",
    "assignments",
    multiple=True,
    metavar="NAME=VALUE",
    help="A payload field; may be repeated.",
)
@click.option("--payload", help="The payload as JSON, or @FILE.")
@click.option("--budget", "max_budget_usd", help="The budget in dollars.")
@output.json_option
def set_it(
    task_id: str,
    state: str | None,
    reason: str | None,
    tags: tuple[str, ...],
    assignments: tuple[str, ...],
    payload: str | None,
    as_json: bool,
    **fields: Any,
) -> None:
    """Set fields of a task, or move it to STATE manually.

    Only transitions of its lifecycle are allowed. A task whose job a worker holds is refused.
    """
    if fields["max_budget_usd"] is not None:
        fields["max_budget_usd"] = dollars_from(fields["max_budget_usd"], "--budget")
    changes = {name: value for name, value in fields.items() if value is not None}
    if tags:
        changes["tags"] = list(tags)
    if payload is not None or assignments:
        changes["payload"] = payload_from(payload, assignments)
    if state is None and not changes:
        raise click.UsageError("Give a state, or a field to set (for example --title).")
    answer: Any = None
    with connect() as detent:
        if changes:
            answer = detent.call("edit_task", task_id=task_id, **changes)
        if state is not None:
            answer = detent.call("set_task_state", task_id=task_id, state=state, reason=reason)
    print_outcome(answer, as_json)
