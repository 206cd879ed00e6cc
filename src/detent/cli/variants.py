"""`detent variants` and `detent choose`: compare the variants of a task, and choose one."""

import re
from collections.abc import Mapping
from typing import Any

import click

from detent.cli import output
from detent.cli.connection import connect
from detent.cli.task_selection import print_outcome

HEADINGS = (
    *("NUMBER", "INTENT", "STATE", "FILES", "LINES", "TESTS", "CHECK", "COST", "TOKENS"),
    *("DURATION", "TASK"),
)
#: The verdict of a checker; until it has ended, its state is shown.
VERDICTS = {True: "accepts", False: "refuses"}


def variants_from(given: str | None) -> int | list[str] | None:
    """The value of `--variants`: a number, or intents separated by commas."""
    if given is None:
        return None
    if re.fullmatch("-?[0-9]{1,9}", given.strip()):
        return int(given.strip())
    return [each.strip() for each in given.split(",")]


@click.command()
@click.argument("task_id", metavar="TASK")
@output.json_option
def variants(task_id: str, as_json: bool) -> None:
    """Compare the variants of a task.

    Shows the diff, the tests, the check and the cost of each.
    """
    with connect() as detent:
        found = detent.call("variants", task_id=task_id)
    if as_json:
        output.print_json(found)
        return
    if not found["variants"]:
        later = "They are created when a worker starts it." if found["wanted"] else ""
        output.print_text(f"Task {task_id} has no variants. {later}".strip())
        return
    print_variants(found)
    if found["chosen"] is not None:
        output.print_text(f"Variant {found['chosen']} was chosen.")
    elif any(each["choosable"] for each in found["variants"]):
        output.print_text(f"Choose one: detent choose {task_id} NUMBER")


def print_variants(found: Mapping[str, Any]) -> None:
    """Print a table with a row for each variant."""
    output.print_table(HEADINGS, [_cells(each) for each in found["variants"]])


def _cells(each: Mapping[str, Any]) -> tuple[str, ...]:
    diff = each["diff"] or {}
    files, added, removed = (diff.get(name) for name in ("files", "added", "removed"))
    return (
        str(each["number"]),
        each["intent"],
        f"{each['state']} (chosen)" if each["chosen"] else each["state"],
        "" if files is None else str(files),
        "" if added is None else f"+{added} -{removed}",
        _tests(each["tests"]),
        _check(each["check"]),
        f"{each['cost_usd']:.2f}",
        f"{each['tokens_in']} / {each['tokens_out']}",
        f"{each['duration_ms'] / 1_000:.1f} s",
        each["task_id"],
    )


def _tests(tests: Mapping[str, Any]) -> str:
    counts = [(tests[name], name) for name in ("passed", "failed") if tests[name] is not None]
    if counts:
        return ", ".join(f"{number} {name}" for number, name in counts)
    return ", ".join(each["file"] for each in tests["evidence"])


def _check(check: Mapping[str, Any] | None) -> str:
    return "" if check is None else VERDICTS.get(check["accept"], str(check["state"]))


@click.command()
@click.argument("task_id", metavar="TASK")
@click.argument("variant", metavar="NUMBER")
@click.option("--diff", help="The SHA-256 of the variant's diff; refused if it has another one.")
@output.json_option
def choose(task_id: str, variant: str, diff: str | None, as_json: bool) -> None:
    """Choose one of a task's variants.

    NUMBER is its number or the id of its task. The other variants are cancelled.
    """
    given = {} if diff is None else {"diff": diff}
    with connect() as detent:
        chosen = detent.call("choose_variant", task_id=task_id, variant=variant, **given)
    print_outcome(chosen, as_json)
