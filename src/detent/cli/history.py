"""`detent at` shows a task as it was; `detent fork` starts a job from a step of another job."""

import click

from detent.cli import output
from detent.cli.connection import connect


@click.command()
@click.argument("task_id", metavar="TASK")
@click.option(
    "--position", type=click.IntRange(min=0), help="The state after this position of the log."
)
@click.option("--time", help="The state at this time, with its zone: 2030-01-01T12:00:00Z.")
@output.json_option
def at(task_id: str, position: int | None, time: str | None, as_json: bool) -> None:
    """Show a task as it was after a position of the log, or at a time."""
    with connect() as detent:
        then = detent.call("task_at", task_id=task_id, position=position, time=time)
    if as_json:
        output.print_json(then)
        return
    task = then["task"]
    rows = [("position", str(then["position"])), ("at", then["at"]), ("state", task["state"])]
    rows += [(name, str(task[name])) for name in ("title", "blocked_by", "spent") if task[name]]
    rows += [("payload", output.value_text(task["payload"]))]
    rows += [("job", f"{job['id']} {job['state']}") for job in then["jobs"]]
    output.print_table(("TASK", task["id"]), rows)


@click.command()
@click.argument("job_id", metavar="JOB")
@click.argument("step")
@output.json_option
def fork(job_id: str, step: str, as_json: bool) -> None:
    """Queue a new job that keeps a job's results before STEP and continues from there."""
    with connect() as detent:
        made = detent.call("fork_job", job_id=job_id, step=step)
    if as_json:
        output.print_json(made)
    else:
        output.print_text(made["id"])
        output.print_note(f"Kept results: {', '.join(made['kept']) or 'none'}.")
