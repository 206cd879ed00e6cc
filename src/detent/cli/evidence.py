"""`detent evidence`: list and save the evidence files of runs; add a file manually.

File names are untrusted input: a file is saved below the given directory, symbolic links are not
followed, and existing files are not overwritten.
"""

import hashlib
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import click

from detent.cli import output
from detent.cli.connection import Connection, Direct, connect
from detent.cli.gateway_client import Gateway
from detent.cli.id_lookup import call_first_match
from detent.errors import Broken, Invalid, Refused

HEADINGS = ("RUN", "FILE", "TYPE", "SIZE", "SHA256", "AT")
BYTES = "application/octet-stream"


class _ListsByDefault(output.Group):
    """`detent evidence ID` is `detent evidence list ID`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in ("-h", "--help"):
            args = ["list", *args]
        return super().parse_args(ctx, args)


@click.group(cls=_ListsByDefault)
def evidence() -> None:
    """List and save the evidence files of runs; add a file manually.

    `detent evidence TASK` is short for `detent evidence list TASK`.
    """


@evidence.command("list")
@click.argument("work_id", metavar="TASK_OR_RUN")
@click.option(
    "--save",
    type=click.Path(file_okay=False, path_type=Path),
    help="Save the files in this directory.",
)
@output.json_option
def list_(work_id: str, save: Path | None, as_json: bool) -> None:
    """List the evidence files of a task or of one run, or save them."""
    with connect() as detent:
        items = _listed(detent, work_id)
        saved = [str(_save(detent, row, save)) for row in items] if save is not None else []
    if as_json:
        found = {"items": items} if save is None else {"items": items, "saved": saved}
        output.print_json(found)
    elif not items:
        output.print_text(f"{work_id} has no evidence.")
    elif save is not None:
        for path in saved:
            output.print_text(path)
    else:
        output.print_table(HEADINGS, [_cells(row) for row in items])


@evidence.command()
@click.argument("run_id", metavar="RUN")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--name", help="The name of the evidence; the name of FILE if omitted.")
@output.json_option
def add(run_id: str, file: Path, name: str | None, as_json: bool) -> None:
    """Add FILE to the evidence of a run; refused while a worker holds its job."""
    with connect() as detent:
        whole = detent.call("show_run", run_id=run_id)["id"]
        added = _add(detent, whole, name or file.name, file)
    if as_json:
        output.print_json(added)
    else:
        output.print_table(HEADINGS, [_cells(added)])


def _cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    size, short = str(row["size"]), row["sha256"][:12]
    return row["run_id"], row["file"], row["kind"], size, short, row["at"]


def _listed(detent: Connection, work_id: str) -> list[dict[str, Any]]:
    """The evidence of a run, or of a task."""
    lookups = (("run_evidence", "run_id"), ("task_evidence", "task_id"))
    found = call_first_match(detent, work_id, *lookups)
    items: list[dict[str, Any]] = found["items"]
    return items


# ---- bytes -----------------------------------------------------------------------------------


def _bytes(detent: Connection, row: Mapping[str, Any]) -> Iterable[bytes]:
    if isinstance(detent, Gateway):
        path = f"/api/runs/{quote(row['run_id'], safe='')}/evidence/{quote(row['file'])}"
        return [detent.get_bytes("GET", path)]
    from detent.operations.evidence import find_evidence, read_evidence
    from detent.operations.registry import OWNER

    assert isinstance(detent, Direct)
    found = find_evidence(detent.core, OWNER, row["run_id"], row["file"])
    return read_evidence(detent.core, found)


def _add(detent: Connection, run_id: str, name: str, file: Path) -> Mapping[str, Any]:
    try:
        with file.open("rb") as opened:
            if isinstance(detent, Gateway):
                path = f"/api/runs/{quote(run_id, safe='')}/evidence/{quote(name)}"
                answer: dict[str, Any] = detent.send_bytes("PUT", path, opened.read(), BYTES)
                return answer
            from detent.operations.evidence import attach_evidence
            from detent.operations.registry import OWNER

            assert isinstance(detent, Direct)
            return attach_evidence(detent.core, OWNER, run_id, name, opened)
    except OSError as error:
        raise Invalid(
            f"{file} cannot be read: {error.strerror}.",
            field="file",
            hint="Check the path and its permissions.",
        ) from None


# ---- saving ----------------------------------------------------------------------------------


def _save(detent: Connection, row: Mapping[str, Any], directory: Path) -> Path:
    """Save a file as DIRECTORY/RUN/FILE and check its SHA-256."""
    parts = [row["run_id"], *row["file"].split("/")]
    digest = hashlib.sha256()
    pieces = _bytes(detent, row)
    try:
        with _opened(directory, parts) as file:
            for piece in pieces:
                digest.update(piece)
                file.write(piece)
    except FileExistsError:
        raise Refused(
            f"{directory.joinpath(*parts)} exists already and was not overwritten.",
            hint="Give another directory to --save, or move the file away.",
        ) from None
    except OSError as error:
        raise Refused(
            f"{row['file']!r} cannot be saved in {directory}: {error.strerror}.",
            hint="Check the directory, its permissions and the free disk space.",
        ) from None
    if digest.hexdigest() != row["sha256"]:
        directory.joinpath(*parts).unlink()
        raise Broken(
            f"{row['file']!r} is damaged: its SHA-256 is not the recorded {row['sha256']}."
        )
    return directory.joinpath(*parts)


def _opened(directory: Path, parts: list[str]) -> Any:
    """Open a new file below the directory; symbolic links are not followed."""
    for part in parts:
        if part in ("", ".", "..") or "\0" in part:
            raise Refused(
                f"{'/'.join(parts)!r} is no path below a directory; the file was not saved.",
                hint="Read the file over HTTP instead: /api/runs/RUN/evidence/FILE",
            )
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    here = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for part in parts[:-1]:
            with suppress(FileExistsError):
                os.mkdir(part, 0o700, dir_fd=here)
            below = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=here)
            os.close(here)
            here = below
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        return os.fdopen(os.open(parts[-1], flags, 0o600, dir_fd=here), "wb")
    finally:
        os.close(here)
