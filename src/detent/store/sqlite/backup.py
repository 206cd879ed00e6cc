"""A SQLite database as one file: made while others write, and put in the place of another.

A backup is a whole database of its own, without a write-ahead log beside it.
"""

from contextlib import closing
from pathlib import Path

import apsw

from detent.errors import Misconfigured, Refused
from detent.store.blobs import CopyProgress, no_progress
from detent.store.migration_files import Applied, pending
from detent.store.sqlite import checks
from detent.store.sqlite.error_mapping import explained
from detent.store.sqlite.schema import APPLIED, MIGRATIONS

#: How many pages are copied between two words of how far it is.
PAGES = 4_096
#: What may stand beside a database file and belongs to it: its write-ahead log, shared memory.
LOG = "-wal"
BESIDE = (LOG, "-shm")


def back_up(path: Path, to: Path, tell: CopyProgress = no_progress) -> None:
    """Copy the database as it is at one moment. Readers and writers go on meanwhile."""
    if to.exists():
        raise Refused(f"{to} is there already.", hint="Give another name, or move it away.")
    part = to.with_name(f"{to.name}.part")
    checks.prepare_file(part)
    try:
        _copy(apsw.Connection(str(path), apsw.SQLITE_OPEN_READWRITE), part, tell)
        check_image(part)
        part.replace(to)
    except apsw.Error as error:
        raise explained(error, str(to)) from error
    finally:
        part.unlink(missing_ok=True)
    checks.sync_directory(to.parent)


def _copy(source: apsw.Connection, to: Path, tell: CopyProgress = no_progress) -> None:
    """The source stands in one read transaction, which blocks nobody and sees no later write."""
    target = apsw.Connection(str(to), apsw.SQLITE_OPEN_READWRITE)
    try:
        target.pragma("synchronous", "FULL")
        source.execute("BEGIN")
        source.execute("SELECT count(*) FROM sqlite_schema").fetchall()  # only this begins it
        with target.backup("main", source, "main") as copying:
            while not copying.done:
                copying.step(PAGES)
                total = copying.page_count
                tell("database", total - copying.remaining, total)
        # One file: a write-ahead log beside it could be left behind when it is carried away.
        target.pragma("journal_mode", "DELETE")
    finally:
        target.close()
        source.close()


def check_image(image: Path) -> None:
    """Refuse a file that is no whole database of ours, or one that a newer version made."""
    if _size(image, LOG):
        raise Refused(
            f"{image} has a write-ahead log beside it: it is in use, or was copied by hand.",
            hint="Give a file that `detent db backup` made.",
        )
    try:
        with closing(_open_image(image)) as opened:
            _check_contents(opened, image)
    except apsw.Error as error:
        raise checks.unreadable(image, error) from None


def _open_image(image: Path) -> apsw.Connection:
    """Without locks, so that it may also lie where nothing can be written."""
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    return apsw.Connection(f"{image.absolute().as_uri()}?immutable=1", flags)


def _check_contents(opened: apsw.Connection, image: Path) -> None:
    if opened.pragma("application_id") != checks.APPLICATION_ID:
        raise Misconfigured(
            f"{image} is no database of detent.",
            setting="store",
            hint="Give a file that `detent db backup` made.",
        )
    pending(MIGRATIONS, map(Applied._make, opened.execute(APPLIED)), str(image))
    damage = opened.execute("PRAGMA integrity_check(1)").fetchall()
    if damage != [("ok",)]:
        raise Misconfigured(
            f"{image} is damaged: {damage[0][0]}", setting="store", hint="Give another backup."
        )


def restore(path: Path, image: Path) -> Path | None:
    """Put a backup in the place of the database. Where the old one is now, if there was one.

    Nobody may be using it. The old file goes first with all that belongs to it: a write-ahead log
    beside another file would be written into that one.
    """
    check_image(image)
    part = path.with_name(f"{path.name}.restoring")
    part.unlink(missing_ok=True)
    checks.prepare_file(part)
    part.write_bytes(b"")
    try:
        _copy(_open_image(image), part)
        lock = checks.write_lock(path)
        with closing(lock), lock:
            aside = _set_aside(path)
            part.replace(path)
    except apsw.Error as error:
        raise explained(error, str(path)) from error
    finally:
        part.unlink(missing_ok=True)
    checks.sync_directory(path.parent)
    return aside


def _set_aside(path: Path) -> Path | None:
    if not path.exists():
        return None
    number = 1
    while (aside := path.with_name(f"{path.name}.before-restore-{number}")).exists():
        number += 1
    for suffix in (*BESIDE, ""):
        if _size(path, suffix) is not None:
            path.with_name(path.name + suffix).replace(aside.with_name(aside.name + suffix))
    return aside


def _size(path: Path, suffix: str) -> int | None:
    beside = path.with_name(path.name + suffix)
    return beside.stat().st_size if beside.exists() else None
