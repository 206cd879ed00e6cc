"""`detent verify` checks the log and the rows; `detent rebuild` rewrites the rows from the log."""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from detent import private_files
from detent.cli import output
from detent.cli.target import load_local
from detent.errors import Invalid

if TYPE_CHECKING:
    from detent.integrity.hash_chain import Anchor, UnsealedEvents
    from detent.integrity.verify import Verdict
    from detent.operations.context import Core

#: Number of events between two progress notes.
NOTE_EVERY = 50_000

#: Advice about events that were not added to the hash chain in time.
UNSEALED = """\
The hash chain does not show whether these events were changed before they were sealed.
missing, late: check whether a keeper ran when they were written. If none ran, that is the reason:
accept them with `detent verify --accept-unsealed`. If one ran, chain blocks were deleted.
removed: chain blocks were deleted. Compare with an anchor (`--anchor`) or a backup first."""

_file = click.Path(dir_okay=False, path_type=Path)


@click.command()
@click.option(
    "--anchor",
    "anchor_file",
    type=_file,
    help="Compare with this file, which an earlier check wrote.",
)
@click.option(
    "--write-anchor",
    "write_to",
    type=_file,
    help="Write an anchor for later checks, if the result is clean.",
)
@click.option(
    "--accept-unsealed",
    "accept",
    is_flag=True,
    help="Accept events that were sealed late or not at all, after you have checked the reason.",
)
@output.json_option
def verify(anchor_file: Path | None, write_to: Path | None, accept: bool, as_json: bool) -> None:
    """Check the hash chain of the log, replay the log and compare every row with it.

    The chain cannot show that the end of the log was removed: keep an anchor on another machine and
    compare with it. A keeper seals events (adds them to the chain) within a minute. Events that
    were sealed later, or not at all, are reported: no keeper ran, or chain blocks were removed.
    """
    from detent.integrity import verify as integrity
    from detent.operations.opener import open_core

    anchor = _read_anchor(anchor_file) if anchor_file else None
    with open_core(load_local()) as core, _progress(core) as progress:
        verdict = integrity.verify(core.store, anchor, progress, accept_unsealed=accept)
    if write_to is not None and verdict.clean:
        _write_anchor(write_to, verdict.anchor)
    report(verdict, as_json)
    sys.exit(0 if verdict.clean else 1)


@click.command()
@output.json_option
def rebuild(as_json: bool) -> None:
    """Rewrite all rows from the log, then verify them."""
    from detent.cli.processes_using_data import require_stopped
    from detent.integrity import rebuild as integrity
    from detent.integrity.verify import verify
    from detent.operations.opener import open_core
    from detent.store.schema_status import schema_status

    loaded = load_local()
    schema_status(loaded.settings.url).require_own("rebuild")
    with open_core(loaded) as core:
        require_stopped(loaded.settings, core.store)
        count = integrity.rebuild(core.store, core.engine.lifetimes.lease_us)
        print_line = output.print_note if as_json else output.print_text
        print_line(f"Rewrote all rows from {count} events.")
        with _progress(core) as progress:
            verdict = verify(core.store, progress=progress)
    report(verdict, as_json)
    sys.exit(0 if verdict.clean else 1)


def report(verdict: "Verdict", as_json: bool) -> None:
    """Print the result of a check, for a person or a program."""
    if as_json:
        differences = [each._asdict() for each in verdict.differences]
        unsealed = [_shown(each) for each in verdict.unsealed]
        lists = {"differences": differences, "unsealed": unsealed}
        output.print_json({**verdict._asdict(), "anchor": verdict.anchor._asdict(), **lists})
        return
    if verdict.differences:
        rows = [
            (each.stream, str(each.position), each.what, each.field, str(each.log), str(each.row))
            for each in verdict.differences
        ]
        output.print_table(("STREAM", "POSITION", "PROBLEM", "FIELD", "IN LOG", "IN ROW"), rows)
    if verdict.unsealed:
        shown = [tuple(map(str, _shown(each).values())) for each in verdict.unsealed]
        output.print_table(("UNSEALED", "UP TO", "EVENTS", "OLDEST WRITTEN", "SEALED"), shown)
        output.print_text(UNSEALED)
    if verdict.clean:
        output.print_text(
            f"Clean: the log up to position {verdict.position} and all rows agree.\n"
            f"Chain: {verdict.anchor.chain} at position {verdict.anchor.position}."
        )
    if not verdict.timers_checked:
        output.print_text(
            "Due times were not compared, because events were written during the check."
        )


def _shown(each: "UnsealedEvents") -> dict[str, object]:
    from detent import views

    times = {name: getattr(each, name) for name in ("written_at", "sealed_at")}
    shown = {name: None if at is None else views.utc(at) for name, at in times.items()}
    return {**each._asdict(), **shown}


def _read_anchor(file: Path) -> "Anchor":
    from detent.integrity.hash_chain import Anchor

    try:
        given = json.loads(file.read_text("utf-8"))
        return Anchor(int(given["position"]), str(given["chain"]))
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise Invalid(
            f"{file} is not an anchor file: {error}",
            field="anchor",
            given=str(file),
            hint="Give the file that `detent verify --write-anchor FILE` wrote.",
        ) from None


def _write_anchor(file: Path, anchor: "Anchor") -> None:
    try:
        private_files.write_text(file, json.dumps(anchor._asdict()) + "\n")
    except OSError as error:
        raise Invalid(
            f"{file} cannot be written: {error.strerror}", field="write-anchor", given=str(file)
        ) from None


@contextmanager
def _progress(core: "Core") -> Iterator[Callable[[str, int], None]]:
    """Report progress on stderr: as a bar on a terminal, else as notes."""
    if sys.stderr.isatty():
        from detent.cli.progress import progress_bar

        with core.store.read() as view:
            head = view.head()
        with progress_bar(head) as update:
            yield update
        return
    noted: dict[str, int] = {}

    def note_position(what: str, position: int) -> None:
        if position - noted.get(what, 0) >= NOTE_EVERY:
            noted[what] = position
            output.print_note(f"{what}: position {position}")

    yield note_position
