"""The tasks that a command acts on: those named by id, or all that match a filter.

Before a command acts on the matches of a filter, it asks for confirmation with their number.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import click

from detent.cli import output
from detent.cli.connection import Connection
from detent.cli.id_lookup import whole_id
from detent.cli.progress import progress_bar
from detent.errors import Refused
from detent.quantity import quantity

PAGE_LIMIT = 1_000
#: Tasks per request, so that transactions stay short and the progress bar moves.
BATCH = 200
#: Filters by option, with the names that `list_tasks` uses.
FILTERS = ("state", "intent", "project", "tag", "priority", "source", "lifecycle")

#: Texts for outcomes whose wire name does not explain itself.
OUTCOMES = {"requested": "cancel requested"}


class Selection(NamedTuple):
    """The tasks that a command line selects: ids, or a filter."""

    ids: tuple[str, ...]
    filters: Mapping[str, str]
    yes: bool


def selection_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the arguments and options that select tasks."""
    for option in (
        click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation."),
        click.option("--lifecycle", help="All tasks of this lifecycle."),
        click.option("--source", help="All tasks from this source."),
        click.option("--priority", help="All tasks of this priority."),
        click.option("--tag", help="All tasks with this tag."),
        click.option("--project", help="All tasks of this project."),
        click.option("--intent", help="All tasks of this intent (task type)."),
        click.option("--state", help="All tasks in these states, separated by commas."),
        click.argument("task_ids", nargs=-1, metavar="[TASK]..."),
    ):
        command = option(command)
    return command


def parse_selection(
    task_ids: Sequence[str], yes: bool, filters: Mapping[str, str | None]
) -> Selection:
    """The selection of a command line; it must use ids or filters, and not both."""
    given = {name: value for name, value in filters.items() if value is not None}
    if bool(task_ids) == bool(given):
        raise click.UsageError(
            "Give task ids, or a filter (for example --state failed), but not both."
        )
    return Selection(tuple(dict.fromkeys(task_ids)), given, yes)


def act_on_many(
    detent: Connection, what: Selection, verb: str, arguments: Mapping[str, Any], as_json: bool
) -> None:
    """Act on many tasks in batches; a task that is refused does not stop the others."""
    ids = [whole_id(detent, "task", each) for each in what.ids]
    ids = ids or _matching_ids(detent, what.filters)
    if what.filters and ids and not what.yes:
        _confirm(verb, len(ids), what.filters)
    done, refused = _call_in_batches(detent, ids, verb, arguments)
    if as_json:
        output.print_json({"items": done, "refused": refused})
    elif not ids:
        output.print_text("No task matches the filter.")
    else:
        if what.ids:
            for answer in done:
                print_outcome(answer, as_json=False)
        output.print_text(f"{verb}: {len(done)} done, {len(refused)} refused.")
    if not as_json:
        for each in refused:
            output.print_note(f"{each['id']}: {each['message']} [{each['code']}]")
    if refused:
        sys.exit(1)


def print_outcome(answer: Mapping[str, Any], as_json: bool) -> None:
    """Print the new state of a task or job and the outcome of the command."""
    if as_json:
        output.print_json(answer)
        return
    state, outcome = answer.get("state"), answer.get("outcome")
    named = OUTCOMES.get(str(outcome), outcome)
    if state and outcome and outcome != state:
        output.print_text(f"{answer['id']}: {state} ({named})")
    else:
        output.print_text(f"{answer['id']}: {state or named}")


def _matching_ids(detent: Connection, filters: Mapping[str, str]) -> list[str]:
    """The ids of all matching tasks, read before the first one is changed."""
    found: list[str] = []
    cursor = None
    while True:
        page = detent.call("list_tasks", limit=PAGE_LIMIT, cursor=cursor, **filters)
        found += [row["id"] for row in page["items"]]
        cursor = page["cursor"]
        if cursor is None:
            return found


def _confirm(verb: str, count: int, filters: Mapping[str, str]) -> None:
    named = ", ".join(f"{name} {value}" for name, value in filters.items())
    question = output.clean(f"{verb} {quantity(count, 'task')} ({named})?")
    if not sys.stdin.isatty():
        raise Refused(
            f"This would {question.removesuffix('?')}.",
            hint="Nothing was changed. Add --yes to confirm.",
        )
    click.confirm(question, abort=True, err=True)


def _call_in_batches(
    detent: Connection, ids: Sequence[str], verb: str, arguments: Mapping[str, Any]
) -> tuple[list[Any], list[dict[str, str]]]:
    done: list[Any] = []
    refused: list[dict[str, str]] = []
    with progress_bar(len(ids)) as update:
        for start in range(0, len(ids), BATCH):
            some = ids[start : start + BATCH]
            answer = detent.call(f"{verb}_many", ids=some, **arguments)
            done += answer["items"]
            refused += [
                {"id": each["id"], "code": each["code"], "message": each["detail"]}
                for each in answer["refused"]
            ]
            update(verb, start + len(some))
    return done, refused
