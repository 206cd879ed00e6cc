"""Looking at work: `jobs`, `steps`, `show`, `why`."""

import shlex
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import click
from click.core import ParameterSource

from detent.cli import output, table_columns
from detent.cli.connection import Connection, connect
from detent.cli.id_lookup import first_known, way_to, whole_id

#: Of why something waits: how the wait is called in the log, which `--json` has.
UNTOLD = "wait"


def page_options(command: Callable[..., None]) -> Callable[..., None]:
    """What every list takes."""
    for option in (
        output.json_option,
        click.option("--cursor", help="Go on where the last page ended."),
        click.option("--limit", default=50, show_default=True, help="At most so many."),
        click.option("--sort", help="A column to sort by; - before it turns the order around."),
        click.option("--search", help="Only what has this text in its id, name or error."),
        click.option("--state", help="Only these states, separated by commas."),
    ):
        command = option(command)
    return command


def show_page(
    page: Mapping[str, Any],
    as_json: bool,
    headings: tuple[str, ...],
    cells: Callable[[Mapping[str, Any]], Any],
    empty: str,
    more: str,
) -> None:
    """A page as JSON or as a table, with the way to the next one."""
    if as_json:
        output.print_json(page)
    elif not page["items"]:
        output.say(empty)
    else:
        output.table(headings, [cells(row) for row in page["items"]])
        if page.get("cursor"):
            words = shlex.join([*more.split(), *_as_given(), "--cursor", page["cursor"]])
            output.note(f"More: {words}")


def given(ctx: click.Context) -> list[click.Parameter]:
    """What the command line says, as opposed to what is left at its default."""
    source = ctx.get_parameter_source
    return [
        each
        for each in ctx.command.params
        if each.name is not None and source(each.name) is ParameterSource.COMMANDLINE
    ]


def _as_given() -> Iterator[str]:
    """The options of this page, which the next one needs too: a cursor is of one list and order."""
    ctx = click.get_current_context()
    for option in given(ctx):
        if option.name != "cursor":
            yield option.opts[-1]
            if not getattr(option, "is_flag", False):
                yield str(ctx.params[str(option.name)])


@click.command()
@click.option("--intent", help="Only this intent.")
@click.option("--project", help="Only this project.")
@click.option("--task", "task_id", help="Only jobs of this task.")
@page_options
def jobs(as_json: bool, **filters: Any) -> None:
    """List jobs, newest first."""
    with connect() as detent:
        if filters["task_id"] is not None:
            filters["task_id"] = whole_id(detent, "task", filters["task_id"])
        page = detent.call("list_jobs", **filters)
    show_page(
        page,
        as_json,
        table_columns.JOBS,
        table_columns.job_cells,
        "There are no jobs here.",
        "detent jobs",
    )


@click.command()
@click.argument("work_id", metavar="TASK_OR_JOB")
@output.json_option
def steps(work_id: str, as_json: bool) -> None:
    """List the steps of a task's or a job's plans."""
    with connect() as detent:
        page = first_known(detent, work_id, ("task_steps", "task_id"), ("job_steps", "job_id"))
    empty = "It has no steps: its work has no plan, or none yet."
    show_page(page, as_json, table_columns.STEPS, table_columns.step_cells, empty, "")


@click.command()
@click.argument("work_id", metavar="TASK_OR_JOB")
@output.json_option
def why(work_id: str, as_json: bool) -> None:
    """Say why a task or job is not moving, and who can change that."""
    with connect() as detent:
        answer = first_known(detent, work_id, ("why", "task_id"), ("job_why", "job_id"))
    if as_json:
        output.print_json(answer)
        return
    output.say(f"{answer['id']} is {answer['state']} since {answer['since']}.")
    for reason in answer["reasons"]:
        cleared = f"cleared by {reason['cleared_by']} ({reason['how']})."
        cleared += f" Looked at again: {reason['looks_again']}."
        output.say(f"- {reason['reason']}: {cleared}")
        for each in reason["actions"]:
            output.say(f"  {each['command']}")
        for name, value in reason["detail"].items():
            if value not in (None, [], {}) and name != UNTOLD:
                output.say(f"  {name}: {output.text_of(value)}")
    if not answer["reasons"]:
        output.say("Nothing holds it up.")
    if answer["actions"]:
        output.say(f"You can: {', '.join(answer['actions'])}.")


# ---- show ------------------------------------------------------------------------------------


@click.command()
@click.argument("work_id", metavar="TASK_OR_JOB_OR_RUN")
@output.json_option
def show(work_id: str, as_json: bool) -> None:
    """Show one task, job or run: where it stands, and its history."""
    with connect() as detent:
        found = _found(detent, work_id)
    if as_json:
        output.print_json(found)
    else:
        _show(found)


def _found(detent: Connection, work_id: str) -> dict[str, Any]:
    """The thing under its kind; of a task and of a job its runs and events as well."""
    (_, parameter), thing = way_to(
        detent, work_id, ("show_task", "task_id"), ("show_job", "job_id"), ("show_run", "run_id")
    )
    kind = parameter.removesuffix("_id")
    if kind == "run":
        return {kind: thing}
    return {
        kind: thing,
        "runs": detent.call(f"{kind}_runs", **{parameter: work_id})["items"],
        "events": _history(detent, f"{kind}_events", **{parameter: work_id}),
    }


def _history(detent: Connection, operation: str, **about: str) -> list[dict[str, Any]]:
    """All of it, however many pages that are."""
    events: list[dict[str, Any]] = []
    page: dict[str, Any] = {"cursor": 0}
    while (page := detent.call(operation, **about, after=page["cursor"]))["events"]:
        events += page["events"]
    return events


#: By kind, the fields that people ask for first; those that are empty are left out.
SHOWN: Mapping[str, tuple[str, ...]] = {
    "task": (
        *("title", "intent", "project", "priority", "source", "lifecycle", "tags", "state_at"),
        *("blocked_by", "retries_left", "comment", "cancel_reason", "parent_id", "subtasks"),
        *("depends_on", "budget", "spent", "session_id", "payload", "created_by", "created_at"),
    ),
    "job": (
        *("intent", "project", "priority", "task_id", "attempt", "worker", "state_at"),
        *("cancel_reason", "result", "error_class", "error", "payload", "created_at", "ended_at"),
    ),
    "run": (
        *("job_id", "step", "attempt", "worker", "started_at", "ended_at", "outcome"),
        *("exit_code", "error_class", "error", "cost", "progress", "note", "session_id"),
    ),
}


def _show(found: Mapping[str, Any]) -> None:
    kind = next(each for each in SHOWN if each in found)
    thing = found[kind]
    lifecycle = thing["lifecycle"] if kind == "task" else kind
    fields = {"state": output.state_cell(lifecycle, thing["state"])}
    fields |= {name: thing[name] for name in SHOWN[kind]}
    if kind == "task" and thing["state"] == "blocked":
        fields["question"] = thing["blocked_detail"].get("text")
    output.fields(f"{kind} {thing['id']}", fields)
    if found.get("runs"):
        output.say("\nRuns")
        output.table(table_columns.RUNS, [table_columns.run_cells(run) for run in found["runs"]])
    if found.get("events"):
        output.say("\nHistory")
        output.table(
            table_columns.EVENTS, [table_columns.event_cells(event) for event in found["events"]]
        )
