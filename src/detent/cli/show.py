"""Commands that show work: `jobs`, `steps`, `show`, `why`; and the options of all lists."""

import shlex
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import click
from click.core import ParameterSource

from detent.cli import output, table_columns
from detent.cli.connection import Connection, connect
from detent.cli.id_lookup import call_first_match, find_lookup, whole_id
from detent.cli.target_options import given_options

#: A detail of `why` that only `--json` has: the name of the wait in the log.
HIDDEN_DETAIL = "wait"
#: The next check of a reason that only a person clears; not shown.
NO_CHECK = "none"
#: Options of lists that choose no rows.
NO_FILTERS = ("as_json", "cursor", "limit", "sort")


def page_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that every list has."""
    for option in (
        output.json_option,
        click.option(
            "--cursor",
            help="Continue after the last page; each page prints the cursor of the next.",
        ),
        click.option("--limit", default=50, show_default=True, help="Maximum number of rows."),
        click.option("--sort", help="A column to sort by; put - before it to reverse the order."),
        click.option("--search", help="Only rows with this text in their id, name or error."),
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
    """Print a page as JSON or as a table, with the command for the next page."""
    if as_json:
        output.print_json(page)
    elif not page["items"]:
        filters = shlex.join(_repeated_options(but=NO_FILTERS))
        output.print_text(f"Nothing matches {filters}." if filters else empty)
    else:
        output.print_table(headings, [cells(row) for row in page["items"]])
        if page.get("cursor"):
            repeated = [*_repeated_options(), *_target_options()]
            words = shlex.join([*more.split(), *repeated, "--cursor", page["cursor"]])
            output.print_note(f"Next page: {words}")


def options_given(ctx: click.Context) -> list[click.Parameter]:
    """The parameters of the command that its line sets; others have their default."""
    source = ctx.get_parameter_source
    return [
        each
        for each in ctx.command.params
        if each.name in ctx.params and source(each.name) is ParameterSource.COMMANDLINE
    ]


def _repeated_options(but: Collection[str] = ("cursor",)) -> Iterator[str]:
    """The options of this page; the next page needs them too: a cursor is valid for one list."""
    ctx = click.get_current_context()
    for option in options_given(ctx):
        if option.name not in but:
            yield option.opts[-1]
            if not getattr(option, "is_flag", False):
                yield str(ctx.params[str(option.name)])


def _target_options() -> Iterator[str]:
    """The options that name the gateway. A token is not printed."""
    given = given_options()
    if given.url is not None:
        yield from ("--url", given.url)
    if given.context is not None:
        yield from ("--context", given.context)
    if given.local:
        yield "--local"


@click.command()
@click.option("--intent", help="Only jobs of this intent (task type).")
@click.option("--project", help="Only jobs of this project.")
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
        "No jobs found.",
        "detent jobs",
    )


@click.command()
@click.argument("work_id", metavar="TASK_OR_JOB")
@output.json_option
def steps(work_id: str, as_json: bool) -> None:
    """List the plan steps of a task or job."""
    with connect() as detent:
        page = call_first_match(detent, work_id, ("task_steps", "task_id"), ("job_steps", "job_id"))
    empty = "No plan steps: the work has no plan, or its planner has not made one yet."
    show_page(page, as_json, table_columns.STEPS, table_columns.step_cells, empty, "")


@click.command()
@click.argument("work_id", metavar="TASK_OR_JOB")
@output.json_option
def why(work_id: str, as_json: bool) -> None:
    """Explain why a task or job is not running, and who can change that."""
    with connect() as detent:
        answer = call_first_match(detent, work_id, ("why", "task_id"), ("job_why", "job_id"))
    if as_json:
        output.print_json(answer)
        return
    output.print_text(f"{answer['id']}: {answer['state']} since {answer['since']}.")
    for reason in answer["reasons"]:
        cleared = f"cleared by {reason['cleared_by']} ({reason['how']})."
        if reason["looks_again"] != NO_CHECK:
            cleared += f" Next check: {reason['looks_again']}."
        output.print_text(f"- {reason['reason']}: {cleared}")
        for each in reason["actions"]:
            output.print_text(f"  {each['command']}")
        for name, value in reason["detail"].items():
            if value not in (None, [], {}) and name != HIDDEN_DETAIL:
                output.print_text(f"  {name}: {output.value_text(value)}")
    if not answer["reasons"]:
        output.print_text("Nothing blocks it.")
    if answer["actions"]:
        output.print_text(f"Possible actions: {', '.join(answer['actions'])}.")


# ---- show ------------------------------------------------------------------------------------


@click.command()
@click.argument("work_id", metavar="TASK_OR_JOB_OR_RUN")
@output.json_option
def show(work_id: str, as_json: bool) -> None:
    """Show one task, job or run with its state and history."""
    with connect() as detent:
        found = _load(detent, work_id)
    if as_json:
        output.print_json(found)
    else:
        _show(found)


def _load(detent: Connection, work_id: str) -> dict[str, Any]:
    """The task, job or run by its kind; a task with its last job, both with runs and events."""
    (_, parameter), thing = find_lookup(
        detent, work_id, ("show_task", "task_id"), ("show_job", "job_id"), ("show_run", "run_id")
    )
    kind = parameter.removesuffix("_id")
    if kind == "run":
        return {kind: thing}
    return {
        kind: thing,
        **_last_job(detent, thing),
        "runs": detent.call(f"{kind}_runs", **{parameter: work_id})["items"],
        "events": _history(detent, f"{kind}_events", **{parameter: work_id}),
    }


def _last_job(detent: Connection, thing: Mapping[str, Any]) -> dict[str, Any]:
    """The job of a task that has been started: it has the result, or the error."""
    job_id = thing.get("job_id")
    return {} if job_id is None else {"last_job": detent.call("show_job", job_id=job_id)}


def _history(detent: Connection, operation: str, **about: str) -> list[dict[str, Any]]:
    """All events of a task or job, from all pages."""
    events: list[dict[str, Any]] = []
    page: dict[str, Any] = {"cursor": 0}
    while (page := detent.call(operation, **about, after=page["cursor"]))["events"]:
        events += page["events"]
    return events


#: The fields that are shown, by kind; empty fields are left out.
SHOWN_FIELDS: Mapping[str, tuple[str, ...]] = {
    "task": (
        *("title", "intent", "project", "priority", "source", "lifecycle", "tags", "state_at"),
        *("blocked_by", "retries_left", "comment", "acceptance", "cancel_reason", "parent_id"),
        "subtasks",
        *("depends_on", "budget", "spent", "session_id", "payload", "created_by", "created_at"),
    ),
    "job": (
        *("intent", "project", "priority", "task_id", "attempt", "worker", "state_at"),
        *("cancel_reason", "result", "error_class", "error", "payload", "created_at", "ended_at"),
    ),
    "run": (
        *("title", "job_id", "step", "attempt", "worker", "started_at", "ended_at", "outcome"),
        *("exit_code", "error_class", "error", "cost", "progress", "note", "session_id"),
    ),
}


def _variants(options: Mapping[str, Any]) -> str:
    """How many variants a task has, and which of them was chosen."""
    count = (
        options["variants"] if isinstance(options["variants"], int) else len(options["variants"])
    )
    chosen = options.get("chosen")
    if chosen is None:
        return f"{count}, none was chosen"
    return f"{count}, variant {chosen['number']} was chosen: {chosen['task_id']}"


def _show(found: Mapping[str, Any]) -> None:
    kind = next(each for each in SHOWN_FIELDS if each in found)
    thing = found[kind]
    lifecycle = thing["lifecycle"] if kind == "task" else kind
    fields: dict[str, Any] = {"state": output.state_cell(lifecycle, thing["state"])}
    fields |= {name: thing[name] for name in SHOWN_FIELDS[kind]}
    if kind == "task":
        fields["subtasks"] = thing["subtasks"] or None
    if "last_job" in found:
        fields |= {name: found["last_job"][name] for name in ("result", "error_class", "error")}
    if kind == "task" and thing["state"] == "blocked":
        asks = thing["blocked_by"] in ("question", "needs_user")
        fields["question" if asks else "reason"] = thing["blocked_detail"].get("text")
    if kind == "task" and "variants" in thing["options"]:
        fields["variants"] = _variants(thing["options"])
    output.print_fields((kind, thing["id"]), fields)
    if found.get("runs"):
        output.print_text("\nRuns")
        output.print_table(
            table_columns.RUNS, [table_columns.run_cells(run) for run in found["runs"]]
        )
    if found.get("events"):
        output.print_text("\nHistory")
        output.print_table(
            table_columns.EVENTS, [table_columns.event_cells(event) for event in found["events"]]
        )
