"""Commands about the data itself: `verify` and `rebuild`."""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from detent import private_files
from detent.cli import output
from detent.errors import Invalid
from detent.settings import load

if TYPE_CHECKING:
    from detent.integrity.hash_chain import Anchor, UnsealedEvents
    from detent.integrity.verify import Verdict
    from detent.operations.context import Core

#: How many events pass between two lines about progress.
SAY_EVERY = 50_000

#: What to do about events that the chain does not speak for.
UNSEALED = """\
The chain does not show whether these events were changed before they were sealed.
missing, late: check whether a keeper ran when they were written. If none ran, that is the reason:
accept them with `detent verify --accept-unsealed`. If one ran, chain blocks were deleted.
removed: chain blocks were deleted. Compare with an anchor (`--anchor`) or a backup first."""

_file = click.Path(dir_okay=False, path_type=Path)


@click.command()
@click.option("--anchor", "seen", type=_file, help="Compare with what an earlier check saw.")
@click.option("--write-anchor", "keep", type=_file, help="Write what this check saw, if clean.")
@click.option(
    "--accept-unsealed",
    "accept",
    is_flag=True,
    help="Accept events that were not sealed in time, after you have checked why.",
)
@output.json_option
def verify(seen: Path | None, keep: Path | None, accept: bool, as_json: bool) -> None:
    """Check the hash chain, fold the log and compare every row with it.

    A log whose tail was cut off looks whole: keep an anchor on another machine, and compare.
    An event is sealed once a block of the hash chain covers it. Events that were not sealed within
    a minute are not clean either: no keeper ran at that time, or chain blocks were removed.
    """
    from detent.integrity import verify as upkeep
    from detent.operations.opener import open_core

    anchor = _read_anchor(seen) if seen else None
    with open_core(load()) as core, _progress(core) as told:
        verdict = upkeep.verify(core.store, anchor, told, accept_unsealed=accept)
    if keep is not None and verdict.clean:
        _write_anchor(keep, verdict.anchor)
    report(verdict, as_json)
    sys.exit(0 if verdict.clean else 1)


@click.command()
@output.json_option
def rebuild(as_json: bool) -> None:
    """Write all rows anew from the log, then verify them."""
    from detent.cli.processes_using_data import require_quiet
    from detent.integrity import rebuild as upkeep
    from detent.integrity.verify import verify
    from detent.operations.opener import open_core

    loaded = load()
    with open_core(loaded) as core:
        require_quiet(loaded.settings, core.store)
        count = upkeep.rebuild(core.store, core.engine.lifetimes.lease_us)
        (output.note if as_json else output.say)(f"Wrote all rows anew from {count} events.")
        with _progress(core) as told:
            verdict = verify(core.store, progress=told)
    report(verdict, as_json)
    sys.exit(0 if verdict.clean else 1)


def report(verdict: "Verdict", as_json: bool) -> None:
    """What a check has found, for a person or a program."""
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
        output.table(("STREAM", "POSITION", "WHAT", "FIELD", "LOG SAYS", "ROW SAYS"), rows)
    if verdict.unsealed:
        shown = [tuple(map(str, _shown(each).values())) for each in verdict.unsealed]
        output.table(("UNSEALED", "UP TO", "EVENTS", "OLDEST WRITTEN", "SEALED"), shown)
        output.say(UNSEALED)
    if verdict.clean:
        output.say(
            f"Clean: the log up to position {verdict.position} and every row agree.\n"
            f"Chain: {verdict.anchor.chain} at position {verdict.anchor.position}."
        )
    if not verdict.timers_checked:
        output.say("Due times were not compared, because work went on meanwhile.")


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
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Invalid(
            f"{file} is no anchor: {error}",
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
    """How far it is, beside what the command answers: a bar on a terminal, else a line at times."""
    if sys.stderr.isatty():
        from detent.cli.progress import bar

        with core.store.read() as view:
            head = view.head()
        with bar(head) as tell:
            yield tell
        return
    said: dict[str, int] = {}

    def say(what: str, position: int) -> None:
        if position - said.get(what, 0) >= SAY_EVERY:
            said[what] = position
            output.note(f"{what}: position {position}")

    yield say
