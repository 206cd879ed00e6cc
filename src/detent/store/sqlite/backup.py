"""Backs up a SQLite database while it is in use, and restores a backup.

A backup is a complete database in one file, without a write-ahead log.
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

#: The number of pages that are copied between two reports of the progress.
PAGES = 4_096
#: The files that belong to a database file: the write-ahead log and the shared memory.
LOG = "-wal"
COMPANIONS = (LOG, "-shm")


def back_up(path: Path, to: Path, progress: CopyProgress = no_progress) -> None:
    """Copy the database as of one moment. Readers and writers are not blocked."""
    if to.exists():
        raise Refused(
            f"The file {to} already exists.", hint="Use another name, or move the file away."
        )
    part = to.with_name(f"{to.name}.part")
    checks.prepare_file(part)
    try:
        _copy(apsw.Connection(str(path), apsw.SQLITE_OPEN_READWRITE), part, progress)
        check_image(part)
        part.replace(to)
    except apsw.Error as error:
        raise explained(error, str(to)) from error
    finally:
        part.unlink(missing_ok=True)
    checks.sync_directory(to.parent)


def _copy(source: apsw.Connection, to: Path, progress: CopyProgress = no_progress) -> None:
    """Copy within one read transaction, which blocks no writer and sees no later write."""
    target = apsw.Connection(str(to), apsw.SQLITE_OPEN_READWRITE)
    try:
        target.pragma("synchronous", "FULL")
        source.execute("BEGIN")
        source.execute("SELECT count(*) FROM sqlite_schema").fetchall()  # begins the read
        with target.backup("main", source, "main") as copying:
            while not copying.done:
                copying.step(PAGES)
                total = copying.page_count
                progress("database", total - copying.remaining, total)
        # Leave no write-ahead log, which could be forgotten when the file is moved.
        target.pragma("journal_mode", "DELETE")
    finally:
        target.close()
        source.close()


def check_image(image: Path) -> None:
    """Refuse a file that is not a complete database of detent, or is from a newer version."""
    if _size(image, LOG):
        raise Refused(
            f"{image} has a write-ahead log: it is in use, or was copied manually.",
            hint="Use a file that `detent db backup` has written.",
        )
    try:
        with closing(_open_image(image)) as opened:
            _check_contents(opened, image)
    except apsw.Error as error:
        raise checks.unreadable(image, error) from None


def _open_image(image: Path) -> apsw.Connection:
    """Open a backup without locks, so that it may be on a read-only file system."""
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    return apsw.Connection(f"{image.absolute().as_uri()}?immutable=1", flags)


def _check_contents(opened: apsw.Connection, image: Path) -> None:
    if opened.pragma("application_id") != checks.APPLICATION_ID:
        raise Misconfigured(
            f"{image} is not a database of detent.",
            setting="store",
            hint="Use a file that `detent db backup` has written.",
        )
    pending(MIGRATIONS, map(Applied._make, opened.execute(APPLIED)), str(image))
    damage = opened.execute("PRAGMA integrity_check(1)").fetchall()
    if damage != [("ok",)]:
        raise Misconfigured(
            f"{image} is damaged: {damage[0][0]}.", setting="store", hint="Use another backup."
        )


def restore(path: Path, image: Path) -> Path | None:
    """Replace the database by a backup; returns the new path of the old database, if any.

    No process may be using the database. The old file is moved together with its write-ahead log,
    which SQLite would otherwise apply to the restored file.
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
    for suffix in (*COMPANIONS, ""):
        if _size(path, suffix) is not None:
            path.with_name(path.name + suffix).replace(aside.with_name(aside.name + suffix))
    return aside


def _size(path: Path, suffix: str) -> int | None:
    """The size of a companion file; None if it does not exist."""
    companion = path.with_name(path.name + suffix)
    return companion.stat().st_size if companion.exists() else None
