"""`detent evidence`: list and save the files that runs left behind; add one by hand.

Names come from whoever wrote the files: a file is saved below the directory that was named, in no
place that a link leads to, and never over another one.
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
from detent.cli.id_lookup import first_known
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
    """List and save what runs left behind; add a file by hand.

    `detent evidence TASK` is short for `detent evidence list TASK`.
    """


@evidence.command("list")
@click.argument("work_id", metavar="TASK_OR_RUN")
@click.option("--save", type=click.Path(file_okay=False, path_type=Path), help="Save them here.")
@output.json_option
def list_(work_id: str, save: Path | None, as_json: bool) -> None:
    """List the evidence of a task's runs or of one run, and save it."""
    with connect() as detent:
        items = _listed(detent, work_id)
        saved = [str(_save(detent, row, save)) for row in items] if save is not None else []
    if as_json:
        found = {"items": items} if save is None else {"items": items, "saved": saved}
        output.print_json(found)
    elif not items:
        output.say(f"{work_id} has no evidence.")
    elif save is not None:
        for path in saved:
            output.say(path)
    else:
        output.table(HEADINGS, [_cells(row) for row in items])


@evidence.command()
@click.argument("run_id", metavar="RUN")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--name", help="Another name than the file's own.")
@output.json_option
def add(run_id: str, file: Path, name: str | None, as_json: bool) -> None:
    """Add FILE to a run; refused while a worker holds its job."""
    with connect() as detent:
        whole = detent.call("show_run", run_id=run_id)["id"]
        added = _add(detent, whole, name or file.name, file)
    if as_json:
        output.print_json(added)
    else:
        output.table(HEADINGS, [_cells(added)])


def _cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    size, short = str(row["size"]), row["sha256"][:12]
    return row["run_id"], row["file"], row["kind"], size, short, row["at"]


def _listed(detent: Connection, work_id: str) -> list[dict[str, Any]]:
    """Of a run, or else of a task."""
    ways = (("run_evidence", "run_id"), ("task_evidence", "task_id"))
    found = first_known(detent, work_id, *ways)
    items: list[dict[str, Any]] = found["items"]
    return items


# ---- bytes -----------------------------------------------------------------------------------


def _bytes(detent: Connection, row: Mapping[str, Any]) -> Iterable[bytes]:
    if isinstance(detent, Gateway):
        path = f"/api/runs/{quote(row['run_id'], safe='')}/evidence/{quote(row['file'])}"
        return [detent.raw("GET", path)]
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
                answer: dict[str, Any] = detent.sent("PUT", path, opened.read(), BYTES)
                return answer
            from detent.operations.evidence import attach_evidence
            from detent.operations.registry import OWNER

            assert isinstance(detent, Direct)
            return attach_evidence(detent.core, OWNER, run_id, name, opened)
    except OSError as error:
        raise Invalid(f"{file} cannot be read: {error.strerror}.", field="file") from None


# ---- saving ----------------------------------------------------------------------------------


def _save(detent: Connection, row: Mapping[str, Any], directory: Path) -> Path:
    """Below the directory as RUN/FILE; the bytes must be those that the history names."""
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
            f"{directory.joinpath(*parts)} is there already; it stays as it is."
        ) from None
    except OSError as error:
        raise Refused(f"{row['file']!r} cannot be saved: {error.strerror}.") from None
    if digest.hexdigest() != row["sha256"]:
        directory.joinpath(*parts).unlink()
        raise Broken(f"{row['file']!r} is not what the history says: its SHA-256 differs.")
    return directory.joinpath(*parts)


def _opened(directory: Path, parts: list[str]) -> Any:
    """A new file; each directory on the way is opened by itself, and no link is followed."""
    for part in parts:
        if part in ("", ".", "..") or "\0" in part:
            raise Refused(f"{'/'.join(parts)!r} names no place below a directory.")
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
