"""Which tasks a verb is about: those that are named, or all that a filter finds.

Whoever acts on many is told how many before anything happens.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import click

from detent.cli import output
from detent.cli.connection import Connection
from detent.cli.id_lookup import whole_id
from detent.cli.progress import bar
from detent.errors import Refused

PAGE = 1_000
#: So many are acted on by one request, so that a bar moves and one transaction stays short.
TOGETHER = 200
#: Filters by option, as `list_tasks` calls them.
FILTERS = ("state", "intent", "project", "tag", "priority", "source", "lifecycle")


class Chosen(NamedTuple):
    """What a command line names: ids, or a filter."""

    ids: tuple[str, ...]
    filters: Mapping[str, str]
    yes: bool


def selection(command: Callable[..., None]) -> Callable[..., None]:
    """Options that name tasks or find them."""
    for option in (
        click.option("--yes", "-y", is_flag=True, help="Do not ask before acting on many."),
        click.option("--lifecycle", help="All of this lifecycle: board or review."),
        click.option("--source", help="All from this source."),
        click.option("--priority", help="All of this priority."),
        click.option("--tag", help="All with this tag."),
        click.option("--project", help="All of this project."),
        click.option("--intent", help="All of this intent."),
        click.option("--state", help="All in these states, separated by commas."),
        click.argument("task_ids", nargs=-1, metavar="[TASK]..."),
    ):
        command = option(command)
    return command


def chosen(task_ids: Sequence[str], yes: bool, filters: Mapping[str, str | None]) -> Chosen:
    """What was named; exactly one way of naming is used."""
    given = {name: value for name, value in filters.items() if value is not None}
    if bool(task_ids) == bool(given):
        raise click.UsageError("Name tasks by their ids, or all that a filter finds (--state …).")
    return Chosen(tuple(dict.fromkeys(task_ids)), given, yes)


def act_on(
    detent: Connection, what: Chosen, verb: str, said: Mapping[str, Any], as_json: bool
) -> None:
    """Act on each of many, many at a time; one that refuses does not keep the others back."""
    ids = [whole_id(detent, "task", each) for each in what.ids] or _found(detent, what.filters)
    if what.filters and ids and not what.yes:
        _confirm(verb, len(ids), what.filters)
    done, refused = _each(detent, ids, verb, said)
    if as_json:
        output.print_json({"items": done, "refused": refused})
    elif not ids:
        output.say("No task matches.")
    else:
        for answer in done if what.ids else ():
            told(answer, as_json=False)
        output.say(f"{verb}: {len(done)} done, {len(refused)} refused.")
    for each in () if as_json else refused:
        output.note(f"{each['id']}: {each['message']} [{each['code']}]")
    if refused:
        sys.exit(1)


def told(answer: Mapping[str, Any], as_json: bool) -> None:
    """What a verb has done."""
    if as_json:
        output.print_json(answer)
        return
    outcome = answer.get("outcome")
    said = f" ({outcome})" if outcome and outcome != answer.get("state") else ""
    output.say(f"{answer['id']}: {answer.get('state', '')}{said}".replace(":  (", ": ("))


def _found(detent: Connection, filters: Mapping[str, str]) -> list[str]:
    """The ids of everything that matches, page by page, before the first is touched."""
    found: list[str] = []
    cursor = None
    while True:
        page = detent.call("list_tasks", limit=PAGE, cursor=cursor, **filters)
        found += [row["id"] for row in page["items"]]
        cursor = page["cursor"]
        if cursor is None:
            return found


def _confirm(verb: str, count: int, filters: Mapping[str, str]) -> None:
    named = ", ".join(f"{name} {value}" for name, value in filters.items())
    question = output.clean(f"{verb} {count} task{'s' if count != 1 else ''} ({named})?")
    if not sys.stdin.isatty():
        raise Refused(
            f"This would {question.removesuffix('?')}.",
            hint="Nothing was done. Say --yes to do it without being asked.",
        )
    click.confirm(question, abort=True, err=True)


def _each(
    detent: Connection, ids: Sequence[str], verb: str, said: Mapping[str, Any]
) -> tuple[list[Any], list[dict[str, str]]]:
    done: list[Any] = []
    refused: list[dict[str, str]] = []
    with bar(len(ids)) as tell:
        for start in range(0, len(ids), TOGETHER):
            some = ids[start : start + TOGETHER]
            answer = detent.call(f"{verb}_many", ids=some, **said)
            done += answer["items"]
            refused += [
                {"id": each["id"], "code": each["code"], "message": each["detail"]}
                for each in answer["refused"]
            ]
            tell(verb, start + len(some))
    return done, refused
