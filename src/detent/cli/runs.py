"""`detent runs`: list runs; begin and end a run manually."""

from typing import Any

import click

from detent.cli import output, table_columns
from detent.cli.connection import Connection, connect
from detent.cli.id_lookup import find_lookup, whole_id
from detent.cli.show import options_given, page_options, show_page
from detent.cli.typed_values import value_from


@click.group(cls=output.Group, invoke_without_command=True)
@click.option(
    "--task", "task_id", help="All runs of this task; cannot be combined with other options."
)
@click.option("--job", "job_id", help="Only runs of this job.")
@click.option("--worker", help="Only runs of this worker.")
@page_options
@click.pass_context
def runs(ctx: click.Context, /, task_id: str | None, as_json: bool, **filters: Any) -> None:
    """List runs, newest first; begin or end a run manually."""
    if ctx.invoked_subcommand is not None:
        return
    others = {str(each.name) for each in options_given(ctx)} - {"task_id", "as_json"}
    if task_id is not None and others:
        raise click.UsageError(
            "--task shows all runs of a task and cannot be combined with other options."
        )
    columns: tuple[str, ...] = table_columns.LISTED_RUNS
    cells = table_columns.listed_run_cells
    with connect() as detent:
        if task_id is not None:
            page = detent.call("task_runs", task_id=task_id)
            columns, cells = table_columns.RUNS, table_columns.run_cells
        else:
            if filters["job_id"] is not None:
                filters["job_id"] = whole_id(detent, "job", filters["job_id"])
            page = detent.call("list_runs", **filters)
    show_page(page, as_json, columns, cells, "No runs found.", "detent runs")


@runs.command()
@click.argument("work_id", metavar="TASK_OR_JOB")
@click.option("--hold", "hold_s", type=int, help="Seconds until the run expires; default one day.")
@output.json_option
def create(work_id: str, hold_s: int | None, as_json: bool) -> None:
    """Begin a run manually, in place of a worker; `detent runs update` ends it.

    A task that is not queued yet is queued first. A job that a worker holds is refused.
    """
    with connect() as detent:
        begun = detent.call("begin_run", job_id=_job_of(detent, work_id), hold_s=hold_s)
    if as_json:
        output.print_json(begun)
    else:
        output.print_text(f"{begun['id']}: running, expires {begun['held_until']}")


def _job_of(detent: Connection, work_id: str) -> str:
    """The id of a task's job, after queueing the task if necessary; or the id of the job itself."""
    (_, parameter), found = find_lookup(
        detent, work_id, ("show_task", "task_id"), ("show_job", "job_id")
    )
    if parameter == "job_id":
        return work_id
    new = found["phase"] == "idle" and not found["ending"] and not found["waits_for_person"]
    if new:
        detent.call("run_task", task_id=work_id)
        found = detent.call("show_task", task_id=work_id)
    return str(found["job_id"] or work_id)


@runs.command()
@click.argument("run_id", metavar="RUN")
@click.argument(
    "outcome", required=False, type=click.Choice(["succeeded", "failed", "timeout", "cancelled"])
)
@click.option("--exit-code", type=int, help="0 for success, anything else for failure.")
@click.option("--error", help="The error message.")
@click.option("--class", "error_class", help="The error class: error, network, timeout and so on.")
@click.option("--result", help="The result: JSON or plain text.")
@output.json_option
def update(run_id: str, result: str | None, as_json: bool, **fields: Any) -> None:
    """End a run that was begun manually."""
    with connect() as detent:
        run = detent.call("end_run", run_id=run_id, result=value_from(result), **fields)
    if as_json:
        output.print_json(run)
    else:
        output.print_table(table_columns.RUNS, [table_columns.run_cells(run)])
