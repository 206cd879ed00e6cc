"""`detent export` writes a task to an archive; `detent import` reads one, or JSON lines."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from detent.cli import output
from detent.cli.connection import Connection, Direct, connect
from detent.cli.target import load_local
from detent.errors import DetentError, Invalid, Refused

if TYPE_CHECKING:
    from detent.operations.context import Core

_file = click.Path(dir_okay=False, path_type=Path)
_existing_file = click.Path(exists=True, dir_okay=False, path_type=Path)
ZIP_MAGIC = b"PK"
MAX_LINE_BYTES = 1_048_576
#: Fields of a line that are imported; other fields are ignored.
FIELDS = ("taskId", "source", "intent", "priority", "payload")


@click.command("export", no_args_is_help=True)
@click.argument("task_id", metavar="TASK", required=False)
@click.argument("file", metavar="FILE", type=_file, required=False)
@click.option(
    "--verify",
    "checked",
    type=_existing_file,
    help="Check this archive instead of exporting; needs no store.",
)
@output.json_option
def export(task_id: str | None, file: Path | None, checked: Path | None, as_json: bool) -> None:
    """Write TASK with its subtasks, history, evidence and output to the archive FILE."""
    if checked is not None:
        _verify(checked, as_json)
        return
    if task_id is None or file is None:
        raise click.UsageError("Give TASK and FILE, or --verify FILE.")
    from detent.operations.opener import open_core
    from detent.operations.run_output import read_bytes
    from detent.transfer.exporter import export_task

    with open_core(load_local()) as core:
        data_dir = core.settings.data_dir
        whole = Direct(core).whole("task", task_id)
        made = export_task(
            core.store, whole, file, lambda *where: read_bytes(core.store, data_dir, *where)
        )
    if as_json:
        output.print_json({**made._asdict(), "chain": _plain(made.chain)})
        return
    output.print_text(
        f"Exported {made.task}: {made.tasks} tasks, {made.jobs} jobs, {made.runs} runs, "
        f"{made.events} events, {made.evidence} evidence files.\n"
        f"SHA-256 of the manifest: {made.manifest}"
    )
    if made.missing:
        output.print_text(
            f"{made.missing} evidence files are missing from the archive: they were deleted before."
        )


def _plain(struct: Any) -> Any:
    import msgspec

    return msgspec.to_builtins(struct)


def _verify(file: Path, as_json: bool) -> None:
    from detent.transfer.archive import Archive

    with Archive(file) as archive:
        flaws = archive.flaws()
        manifest = archive.manifest
    if as_json:
        shown = {"task": manifest.task, "manifest": archive.digest, "flaws": flaws}
        output.print_json({**shown, "chain": _plain(manifest.chain)})
    elif flaws:
        for flaw in flaws:
            output.print_text(f"- {flaw}")
    else:
        events = sum(manifest.streams.values())
        output.print_text(
            f"Clean: {manifest.task} with {events} events and {len(manifest.members)} members.\n"
            f"SHA-256 of the manifest: {archive.digest}\n"
            f"From a log with chain {manifest.chain.value} at position {manifest.chain.position}."
        )
    sys.exit(1 if flaws else 0)


# ---- importing -------------------------------------------------------------------------------


@click.command("import")
@click.argument("file", type=_existing_file)
@output.json_option
def import_(file: Path, as_json: bool) -> None:
    """Import an archive of `detent export`, or a queue file of JSON lines.

    A line is {"taskId", "source", "intent", "priority", "payload"}. A line whose task exists is
    skipped, so the same file can be imported again.
    """
    with file.open("rb") as opened:
        is_archive = opened.read(2) == ZIP_MAGIC
    if is_archive:
        _import_archive(file, as_json)
    else:
        _import_lines(file, as_json)


def _import_archive(file: Path, as_json: bool) -> None:
    from detent.kernel.commands import Actor
    from detent.operations.opener import open_core
    from detent.operations.registry import OWNER
    from detent.transfer.importer import import_archive

    with open_core(load_local()) as core:
        actor = Actor(OWNER.name)
        made = import_archive(core.engine, file, actor, lambda *piece: _write_output(core, *piece))
    if as_json:
        output.print_json(made._asdict())
    else:
        output.print_text(
            f"Imported {made.task}: {made.tasks} tasks, {made.jobs} jobs, {made.events} events, "
            f"{made.evidence} evidence files."
        )


def _write_output(core: "Core", run_id: str, offset: int, data: bytes) -> None:
    from detent.operations.run_output import append_output

    append_output(core.store, core.settings.data_dir, run_id, offset, data)


# ---- lines -----------------------------------------------------------------------------------


def _import_lines(file: Path, as_json: bool) -> None:
    counts = {"queued": 0, "known": 0}
    refused: list[dict[str, Any]] = []
    with connect() as detent:
        for number, line in _lines(file):
            try:
                known = _enqueue_line(detent, line)
            except DetentError as error:
                if error.status >= 500:
                    raise
                refused.append({"line": number, "code": error.code, "message": error.message})
            else:
                counts["known" if known else "queued"] += 1
    if as_json:
        output.print_json({**counts, "refused": refused})
    else:
        output.print_text(
            f"{counts['queued']} queued, {counts['known']} already known, {len(refused)} refused."
        )
        for each in refused:
            output.print_note(f"line {each['line']}: {each['message']} [{each['code']}]")
    sys.exit(1 if refused else 0)


def _lines(file: Path) -> Iterator[tuple[int, bytes]]:
    with file.open("rb") as opened:
        number = 0
        while line := opened.readline(MAX_LINE_BYTES + 1):
            number += 1
            if len(line) > MAX_LINE_BYTES:
                raise Invalid(
                    f"Line {number} is longer than {MAX_LINE_BYTES:,} bytes.",
                    field="line",
                    hint="Shorten the line and import the file again.",
                )
            if line.strip():
                yield number, line


def _enqueue_line(detent: Connection, line: bytes) -> bool:
    """Queue the task of one line; True if the task exists already, in any state."""
    try:
        document = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise Invalid(f"the line is not JSON: {error}", field="line", code="unreadable") from None
    if not isinstance(document, dict):
        raise Invalid("the line is not a JSON object", field="line")
    for name in FIELDS:
        if name not in document:
            raise Invalid(f"the field {name} is missing", field=name)
    given = {name: document[name] for name in FIELDS}
    known = _known(detent, given)
    if not known:
        detent.call("enqueue", **given)
    return known


def _known(detent: Connection, given: dict[str, Any]) -> bool:
    try:
        task = detent.call("show_task", task_id=str(given["taskId"]))
    except DetentError as error:
        if error.code == "unknown_task":
            return False
        raise
    same = all(task[name] == given[name] for name in ("source", "intent", "payload"))
    if not same:
        raise Refused(
            f"task {given['taskId']} exists with another source, intent or payload",
            code="idempotency_conflict",
        )
    return True
