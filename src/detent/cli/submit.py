"""`detent submit`: submit a task, and wait for its end if --wait is given."""

import json
import re
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import click

from detent.cli import output
from detent.cli.connection import connect
from detent.cli.id_lookup import whole_id
from detent.cli.typed_values import dollars_from, payload_from
from detent.cli.variants import variants_from
from detent.cli.wait import exit_code, print_progress, report, wait_for
from detent.errors import DetentError

#: A field of the payload that --set gives; a field within a field is a part of its value.
FIELD = re.compile(r"payload\.[^.]+")


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
            explain_payload(error, assignments)
            raise
        if not wait:
            output.print_result(made, made["id"], as_json)
            return
        print_progress(as_json, f"Submitted {made['id']}. Ctrl-C ends the waiting, not the task.")
        task = wait_for(detent, made["id"], as_json)
        report(detent, task, as_json)
    sys.exit(exit_code(task))


def explain_payload(error: DetentError, assignments: tuple[str, ...]) -> None:
    """Say in the hint how --set gives a missing field, or text where a number was read."""
    missing = cast(Sequence[str], error.details.get("missing", ()))
    pairs = [
        f"--set {each.removeprefix('payload.')}=…" for each in missing if FIELD.fullmatch(each)
    ]
    if pairs:
        error.hint = f"Try again with {' '.join(pairs)}."
    field, given = str(error.details.get("field")), error.details.get("given")
    name = field.removeprefix("payload.")
    wanted = error.details.get("allowed")
    if wanted == ["text"] and any(each.startswith(f"{name}=") for each in assignments):
        quoted = shlex.quote(f"{name}={json.dumps(json.dumps(given))}")
        error.hint += f" --set reads JSON; for text, write: --set {quoted}"


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
