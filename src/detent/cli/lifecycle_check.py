"""`detent lifecycle check`: find the errors of a lifecycle before it is installed."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import click

from detent.cli.lifecycle_export import checked_by_tlc, tlc_lines
from detent.cli.output import json_option, print_json, print_text
from detent.errors import Invalid, TooLarge
from detent.kernel import lifecycle_json, lifecycle_lint
from detent.kernel.lifecycle import Lifecycle
from detent.lifecycle_search import MAX_STATES, search
from detent.quantity import quantity
from detent.task_lifecycles import SHIPPED
from detent.task_lifecycles.document_file import located, read_document, text_of

FILE_LIMIT_BYTES = 1_000_000
FORMAT_HINT = "`detent lifecycle export` prints a valid file."
NO_ERRORS = "no errors"
#: What makes a text without a file name a TOML document.
NAMED = re.compile(rb"^name\s*=", re.MULTILINE)


@click.command()
@click.argument("file", type=click.File("rb"))
@click.option(
    "--max-states",
    type=click.IntRange(1, 10_000_000),
    default=MAX_STATES,
    show_default=True,
    help="How many states of a document to search.",
)
@click.option("--tla", is_flag=True, help="Check the TLA+ model of a document with TLC too.")
@json_option
@click.pass_context
def check(ctx: click.Context, file: BinaryIO, max_states: int, tla: bool, as_json: bool) -> None:
    """Check the lifecycle in a TOML document, or the tables in a JSON file (- for stdin).

    A document is linted, each error with its line and field. Then every state that its tasks can
    reach is searched, together with jobs, crashes, cancels, subtasks and dependencies; a violation
    is shown as the shortest sequence of steps that leads to it. JSON files have the format of
    `lifecycle export`. The exit code is 1 if there are errors or a violation.
    """
    content = _content(file)
    name = Path(str(getattr(file, "name", "<stdin>"))).name
    if name.endswith(".toml") or NAMED.search(content):
        found = _check_document(content, name, max_states, tla)
        lines = _document_lines(found, name)
    else:
        tables = _read(content, name)
        found = {"lifecycles": [{"name": each.name, "flaws": each.flaws()} for each in tables]}
        lines = _table_lines(found)
    if as_json:
        print_json(found)
    else:
        print_text("\n".join(lines))
    ctx.exit(1 if any(each["flaws"] or _fails(each) for each in found["lifecycles"]) else 0)


def _content(file: BinaryIO) -> bytes:
    content = file.read(FILE_LIMIT_BYTES + 1)
    if len(content) > FILE_LIMIT_BYTES:
        raise TooLarge(f"The file is larger than {FILE_LIMIT_BYTES} bytes.", limit=FILE_LIMIT_BYTES)
    return content


# ---- a document ------------------------------------------------------------------------------


def _check_document(content: bytes, name: str, max_states: int, tla: bool) -> dict[str, Any]:
    text = text_of(content, name)
    lifecycle = read_document(text, name)[1]
    others = {key: each for key, each in SHIPPED.items() if each.name != lifecycle.name}
    flaws = [*lifecycle_lint.flaws(lifecycle), *lifecycle_lint.conflicts(lifecycle, others)]
    result = None if flaws else search(lifecycle, max_states).plain()
    checked = {"name": lifecycle.id, "flaws": located(text, flaws), "search": result}
    if tla and not flaws:
        checked["tla"] = checked_by_tlc(lifecycle)
    return {"lifecycles": [checked]}


def _document_lines(found: dict[str, Any], name: str) -> Iterator[str]:
    for each in found["lifecycles"]:
        for flaw in each["flaws"]:
            yield f"{name}:{flaw['line']}: {flaw['field']}: {flaw['text']} ({flaw['rule']})"
        count = len(each["flaws"])
        if count:
            yield f"{each['name']}: {quantity(count, 'error')}; not searched"
        else:
            yield f"{each['name']}: {NO_ERRORS}"
            yield from _search_lines(each["search"])
            yield from tlc_lines(each["tla"]) if "tla" in each else ()


def _search_lines(result: dict[str, Any]) -> Iterator[str]:
    scope = "all of them" if result["exhausted"] else "the bound was reached; there are more"
    violation = result["violation"]
    verdict = "no violation" if violation is None else "a property does not hold"
    yield (
        f"search: {result['states']} states ({scope}), depth {result['depth']}, bound "
        f"{result['max_states']}: {verdict}"
    )
    if violation is not None:
        yield f"{violation['property']}: {violation['text']}"
        yield f"The shortest sequence of steps ({violation['scenario']}):"
        yield from (f"{at:3}. {step}" for at, step in enumerate(violation["steps"], start=1))


def _fails(checked: dict[str, Any]) -> bool:
    found = checked.get("search"), checked.get("tla")
    return any(each and (each.get("violation") or each.get("violated")) for each in found)


# ---- tables ----------------------------------------------------------------------------------


def _table_lines(found: dict[str, Any]) -> Iterator[str]:
    for each in found["lifecycles"]:
        yield from (f"{each['name']}: {flaw}" for flaw in each["flaws"] or [NO_ERRORS])


def _read(content: bytes, name: str) -> list[Lifecycle]:
    """Read the lifecycles of a file: one object, or a list of objects."""
    try:
        value = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise Invalid(
            f"{name}: The file is not JSON: {error}.",
            code="unreadable",
            field="file",
            hint=FORMAT_HINT,
        ) from None
    if not isinstance(value, list):
        return [lifecycle_json.read(value)]
    if not value:
        raise Invalid("The file contains no lifecycle.", field="file", hint=FORMAT_HINT)
    return [lifecycle_json.read(each, f"[{index}]") for index, each in enumerate(value)]
