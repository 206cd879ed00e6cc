"""`detent submit`: submit a task, and wait for its end if --wait is given."""

import json
import shlex
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from detent.cli import output
from detent.cli.connection import Connection, connect
from detent.cli.id_lookup import whole_id
from detent.cli.table_columns import task_state_cell
from detent.cli.typed_values import dollars_from, payload_from
from detent.cli.variants import variants_from
from detent.cli.working_jobs import working_jobs
from detent.errors import DetentError

#: Exit codes of `submit --wait`: of a blocked task, by ending, and of a failure by its class.
BLOCKED = 11
ENDED = {None: 0, "done": 0, "failed": 10, "cancelled": 12}
FAILED = {"timeout": 13, "budget": 14}
#: After this time without a worker, a note says so.
NO_WORKER_NOTE_S = 5.0
#: Reasons of a block that end without a person: --wait continues.
TRANSIENT_BLOCKS = ("retry", "rate_limit", "dependency", "resource", "subtasks")


@click.command()
@click.argument("intent")
@click.option(
    "--set",
    "assignments",
    multiple=True,
    metavar="NAME=VALUE",
    help="A field of the payload, as JSON if it can be parsed; may be repeated.",
)
@click.option("--payload", help="The payload as JSON, or @FILE.")
@click.option("--project", help="The project of the task.")
@click.option("--title", default="", help="A title for people.")
@click.option("--priority", default="P2", show_default=True, help="P0 to P3, or high, normal, low.")
@click.option(
    "--lifecycle",
    help="The lifecycle of the task; `detent lifecycle list` lists them.",
)
@click.option(
    "--depends-on",
    multiple=True,
    metavar="TASK",
    help="Start after this task has succeeded; may be repeated.",
)
@click.option("--budget", "max_budget_usd", help="The budget in dollars.")
@click.option("--tag", "tags", multiple=True, help="A tag; may be repeated.")
@click.option(
    "--plan",
    type=click.Path(exists=True, dir_okay=False),
    help="A file with a plan, as JSON or YAML.",
)
@click.option(
    "--variants",
    metavar="N|INTENT,…",
    help="Run isolated variants: how many, or the intent of each. One of them is chosen.",
)
@click.option(
    "--choose",
    metavar="POLICY",
    help="Who chooses a variant: person, first_passing or cheapest_passing.",
)
@click.option(
    "--at",
    "not_before",
    metavar="TIME",
    help="Start no earlier than a time with its zone (2030-01-01T12:00:00Z) or a delay (10m).",
)
@click.option(
    "--key",
    "idempotency_key",
    help="Idempotency key: a second submission with the same key creates no second task.",
)
@click.option(
    "--hold", is_flag=True, help="Create the task without queueing it; `detent run` queues it."
)
@click.option("--wait", is_flag=True, help="Wait for its end; the exit code shows the outcome.")
@output.json_option
def submit(
    assignments: tuple[str, ...],
    payload: str | None,
    plan: str | None,
    hold: bool,
    wait: bool,
    as_json: bool,
    max_budget_usd: str | None,
    variants: str | None,
    choose: str | None,
    **fields: Any,
) -> None:
    """Submit a task of the type INTENT and queue it.

    Prints the id of the task. `detent intents` lists the known intents. Exit codes with --wait:
    0 succeeded, 10 failed, 11 blocked until a person acts, 12 cancelled, 13 timed out, 14 budget
    exceeded. Example: detent submit hello --set name=Ada --wait
    """
    named = {
        "plan": None if plan is None else read_plan(Path(plan)),
        "variants": variants_from(variants),
        "choose": choose,
    }
    options = {name: value for name, value in named.items() if value is not None} or None
    budget = None if max_budget_usd is None else dollars_from(max_budget_usd, "--budget")
    with connect() as detent:
        fields["depends_on"] = [whole_id(detent, "task", each) for each in fields["depends_on"]]
        try:
            made = detent.call(
                "submit_task",
                source="cli",
                run=not hold,
                payload=payload_from(payload, assignments),
                options=options,
                max_budget_usd=budget,
                **fields,
            )
        except DetentError as error:
            explain_quotes(error, assignments)
            raise
        if not wait:
            output.print_result(made, made["id"], as_json)
            return
        _print_progress(as_json, f"Submitted {made['id']}. Ctrl-C ends the waiting, not the task.")
        task = wait_for(detent, made["id"], as_json)
        _report(detent, task, as_json)
    sys.exit(exit_code(task))


def explain_quotes(error: DetentError, assignments: tuple[str, ...]) -> None:
    """Add to the hint how --set gives text, if text was wanted and a number was read."""
    field, given = str(error.details.get("field")), error.details.get("given")
    name = field.removeprefix("payload.")
    wanted = error.details.get("allowed")
    if wanted == ["text"] and any(each.startswith(f"{name}=") for each in assignments):
        quoted = shlex.quote(f"{name}={json.dumps(json.dumps(given))}")
        error.hint += f" --set reads JSON; for text, write: --set {quoted}"


def exit_code(task: Mapping[str, Any]) -> int:
    """The exit code for a task that has ended or waits for a person."""
    if task["phase"] == "blocked":
        return BLOCKED
    code = ENDED[task["ending"]]
    return FAILED.get(task["error_class"], code) if task["ending"] == "failed" else code


def wait_for(detent: Connection, task_id: str, as_json: bool) -> dict[str, Any]:
    """Wait until the task has ended or needs a person; each new state is printed."""
    last, since = None, time.monotonic()
    while True:
        task: dict[str, Any] = detent.call("show_task", task_id=task_id)
        if task["state"] != last:
            last, since = task["state"], time.monotonic()
            _print_progress(as_json, f"{task['state_at']}  {last}" + _block_reason(task))
        stopped = task["phase"] == "blocked" or task["ending"] or task["waits_for_person"]
        if stopped and not _is_transient(task):
            return task
        if task["phase"] == "queued" and time.monotonic() - since > NO_WORKER_NOTE_S:
            since = float("inf")
            _print_progress(
                as_json,
                "No worker has claimed it yet. Start one with `detent up` or `detent worker`.",
            )
        time.sleep(0.1)


def _is_transient(task: dict[str, Any]) -> bool:
    """Whether the task is blocked and will be unblocked without a person.

    A task that waits for a failed subtask needs a person.
    """
    stuck = task["blocked_by"] == "subtasks" and task["failed_subtask"] is not None
    return task["blocked_by"] in TRANSIENT_BLOCKS and not stuck


def _print_progress(as_json: bool, text: str) -> None:
    """Print progress on stderr, so that stdout contains the result alone."""
    if not as_json:
        click.echo(output.clean(text), err=True)


def _block_reason(task: dict[str, Any]) -> str:
    return f" ({task['blocked_by']})" if task["blocked_by"] else ""


def _report(detent: Connection, task: dict[str, Any], as_json: bool) -> None:
    jobs = working_jobs(detent.call("task_jobs", task_id=task["id"])["items"])
    result, error = (jobs[-1]["result"], jobs[-1]["error"]) if jobs else (None, None)
    if as_json:
        output.print_json({"task": task, "result": result, "error": error})
        return
    shown = error if result is None else output.value_text(result)
    heading = "ERROR" if result is None and error else "RESULT"
    output.print_table(
        ("TASK", "STATE", heading), [(task["id"], task_state_cell(task), shown or "")]
    )


def read_plan(path: Path) -> Any:
    """Read a plan from a JSON file, or from a YAML file."""
    kind = "YAML" if path.suffix in (".yaml", ".yml") else "JSON"
    try:
        text = path.read_text("utf-8")
        return json.loads(text) if kind == "JSON" else _from_yaml(text)
    except OSError as error:
        problem = f"{path} cannot be read: {error.strerror}"
    except (ValueError, RecursionError) as error:
        problem = f"{path} is not {kind}: {error}"
    raise click.BadParameter(problem, param_hint="--plan")


def _from_yaml(text: str) -> Any:
    import yaml

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from None
