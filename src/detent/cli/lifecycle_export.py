"""`detent lifecycle export`: the lifecycles as JSON, or one of them as a TLA+ module."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from detent.cli.connection import connect
from detent.cli.lifecycle_lookup import find_lifecycle
from detent.cli.output import json_option, print_json, print_text
from detent.errors import Invalid
from detent.kernel import lifecycle_json
from detent.kernel.lifecycle import Lifecycle
from detent.kernel.task_lifecycle import TaskLifecycle
from detent.lifecycle_tla import configuration
from detent.lifecycle_tla import export as tla_module
from detent.lifecycle_tla.checker import check
from detent.lifecycle_tla.error_trace import lines
from detent.lifecycle_tla.export import module_name
from detent.task_lifecycles.document_file import read_document, text_of


@click.command()
@click.argument("name", required=False, metavar="[NAME|FILE]")
@click.option(
    "--format",
    "kind",
    type=click.Choice(["json", "tla"]),
    default="json",
    help="JSON, or a module of TLA+ with its configuration.",
)
@click.option(
    "--directory",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="Write the module and its configuration for TLC into this directory.",
)
@json_option
def export(name: str | None, kind: str, directory: Path | None, as_json: bool) -> None:
    """Print every lifecycle as JSON, or one as JSON or as a TLA+ module.

    NAME is a shipped lifecycle, or an installed one in its newest version; NAME@2 is its second
    version. FILE is a document. With --format tla and --directory, the module and its configuration
    are written as two files.
    """
    if kind == "json":
        print_json(_all() if name is None else [lifecycle_json.export(_found(name))])
        return
    lifecycle = _of_tasks(name)
    files = {"tla": tla_module(lifecycle), "cfg": configuration(lifecycle)}
    if directory is not None:
        _write(directory / module_name(lifecycle), files, as_json)
    elif as_json:
        print_json({"name": lifecycle.id, "module": files["tla"], "configuration": files["cfg"]})
    else:
        click.echo(files["tla"], nl=False)


def _write(path: Path, files: dict[str, str], as_json: bool) -> None:
    written = [path.with_suffix(f".{suffix}") for suffix in files]
    for file, text in zip(written, files.values(), strict=True):
        file.write_text(text, encoding="utf-8")
    if as_json:
        print_json({"files": [str(file) for file in written]})
    else:
        print_text("\n".join(f"wrote {file}" for file in written))


def _all() -> Any:
    """Every lifecycle of the installation."""
    with connect() as detent:
        return detent.call("list_lifecycles")["lifecycles"]


def _found(name: str) -> Lifecycle:
    """The lifecycle in a file, or the one of this name."""
    path = Path(name)
    if path.suffix == ".toml" or path.is_file():
        try:
            content = path.read_bytes()
        except OSError as error:
            raise Invalid(f"{name} cannot be read: {error}.", field="name") from None
        return read_document(text_of(content, path.name), path.name)[1]
    return find_lifecycle(name)


def _of_tasks(name: str | None) -> TaskLifecycle:
    if name is None:
        raise Invalid("--format tla needs the name of a lifecycle, or a file.", field="name")
    found = _found(name)
    if not isinstance(found, TaskLifecycle):
        raise Invalid(f"{name} is not a lifecycle of tasks.", field="name", given=name)
    return found


# ---- the check by TLC, for `detent lifecycle check --tla` ------------------------------------


def checked_by_tlc(lifecycle: TaskLifecycle) -> dict[str, Any]:
    """What TLC finds in the model of a lifecycle, as plain values."""
    found = check(lifecycle)
    return {
        "states": found.states,
        "distinct": found.distinct,
        "violated": found.violated,
        "steps": lines(found.steps),
    }


def tlc_lines(found: dict[str, Any]) -> Iterator[str]:
    verdict = "no error" if found["violated"] is None else f"{found['violated']} does not hold"
    yield f"tlc: {found['states']} states, {found['distinct']} distinct: {verdict}"
    yield from (f"  {step}" for step in found["steps"])
