"""`detent runs`: list runs; begin and end one by hand."""

from typing import Any

import click

from detent.cli import output, table_columns
from detent.cli.connection import Connection, connect
from detent.cli.id_lookup import way_to, whole_id
from detent.cli.show import given, page_options, show_page
from detent.cli.typed_values import value_from


@click.group(cls=output.Group, invoke_without_command=True)
@click.option("--task", "task_id", help="All runs of this task, and no other option.")
@click.option("--job", "job_id", help="Only runs of this job.")
@click.option("--worker", help="Only runs of this worker.")
@page_options
@click.pass_context
def runs(ctx: click.Context, /, task_id: str | None, as_json: bool, **filters: Any) -> None:
    """List runs, newest first; begin or end one by hand."""
    if ctx.invoked_subcommand is not None:
        return
    others = {str(each.name) for each in given(ctx)} - {"task_id", "as_json"}
    if task_id is not None and others:
        raise click.UsageError("--task shows every run of a task and takes no other option.")
    with connect() as detent:
        if task_id is not None:
            page = detent.call("task_runs", task_id=task_id)
        else:
            if filters["job_id"] is not None:
                filters["job_id"] = whole_id(detent, "job", filters["job_id"])
            page = detent.call("list_runs", **filters)
    show_page(
        page,
        as_json,
        table_columns.RUNS,
        table_columns.run_cells,
        "There are no runs here.",
        "detent runs",
    )


@runs.command()
@click.argument("work_id", metavar="TASK_OR_JOB")
@click.option("--hold", "hold_s", type=int, help="Seconds that it is yours; a day if not said.")
@output.json_option
def create(work_id: str, hold_s: int | None, as_json: bool) -> None:
    """Begin a run by hand, as a worker would; `runs update` ends it.

    The task is queued first if it is not yet. A job that a worker holds is refused.
    """
    with connect() as detent:
        begun = detent.call("begin_run", job_id=_job_of(detent, work_id), hold_s=hold_s)
    if as_json:
        output.print_json(begun)
    else:
        output.say(f"{begun['id']}: running, yours until {begun['held_until']}")


def _job_of(detent: Connection, work_id: str) -> str:
    """The job of a task, which is queued if nobody has done so; else the id is a job's."""
    (_, parameter), found = way_to(
        detent, work_id, ("show_task", "task_id"), ("show_job", "job_id")
    )
    if parameter == "job_id":
        return work_id
    if found["state"] in ("inbox", "pending"):
        detent.call("run_task", task_id=work_id)
        found = detent.call("show_task", task_id=work_id)
    return str(found["job_id"] or work_id)


@runs.command()
@click.argument("run_id", metavar="RUN")
@click.argument(
    "outcome", required=False, type=click.Choice(["succeeded", "failed", "timeout", "cancelled"])
)
@click.option("--exit-code", type=int, help="0 is well, anything else is not.")
@click.option("--error", help="What went wrong.")
@click.option("--class", "error_class", help="Kind of failure: error, network, timeout and so on.")
@click.option("--result", help="What came out: JSON, or a plain text.")
@output.json_option
def update(run_id: str, result: str | None, as_json: bool, **said: Any) -> None:
    """End a run that was begun by hand."""
    with connect() as detent:
        run = detent.call("end_run", run_id=run_id, result=value_from(result), **said)
    if as_json:
        output.print_json(run)
    else:
        output.table(table_columns.RUNS, [table_columns.run_cells(run)])
