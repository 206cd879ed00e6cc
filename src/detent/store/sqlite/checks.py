"""Checks a SQLite database before it is used: library, file, file system, contents.

The operator must correct what they find, so each error says what to do.
"""

import ctypes
import os
from pathlib import Path

import apsw

from detent.errors import Misconfigured
from detent.store.sqlite.connection import WriteLock

#: The first version in which a commit cannot be lost when the write-ahead log restarts.
OLDEST_SQLITE = (3, 51, 3)

#: File systems on which locks or shared memory may not work, by their number in statfs.
UNSAFE_FILE_SYSTEMS = {
    0x6969: "NFS",
    0xFF534D42: "CIFS",
    0xFE534D42: "SMB2",
    0x517B: "SMB",
    0x65735546: "FUSE",
    0x01021997: "9P",
    0x00C36400: "Ceph",
    0x5346414F: "AFS",
    0x6B414653: "AFS",
    0x73757245: "Coda",
    0x0BD00BD0: "Lustre",
    0x01161970: "GFS2",
    0x7461636F: "OCFS2",
    0x47504653: "GPFS",
    0x19830326: "BeeGFS",
}

#: The application id in every database of detent: "dtnt".
APPLICATION_ID = 0x64746E74


def check_version(version: str) -> None:
    """Refuse a version of SQLite that can lose a confirmed commit."""
    if tuple(int(part) for part in version.split(".")) < OLDEST_SQLITE:
        oldest = ".".join(map(str, OLDEST_SQLITE))
        raise Misconfigured(
            f"SQLite {version} is too old and can lose commits. detent needs {oldest} or later.",
            setting="store",
            hint="Upgrade the package apsw, which contains SQLite.",
        )


def prepare_file(path: Path) -> None:
    """Create the file and its directory if they do not exist, with access for the owner only."""
    try:
        for parent in reversed([each for each in path.parents if not each.exists()]):
            parent.mkdir(mode=0o700, exist_ok=True)
        made = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        os.close(made)
        sync_directory(path.parent)
    except OSError as error:
        raise _not_writable(path, error) from None


def write_lock(path: Path) -> WriteLock:
    """The lock file beside the database: the directory must be writable too."""
    try:
        return WriteLock(path.with_name(f"{path.name}.lock"))
    except OSError as error:
        raise _not_writable(path, error) from None


def _not_writable(path: Path, error: OSError) -> Misconfigured:
    return Misconfigured(
        f"the database {path} cannot be written: {error.strerror} ({error.filename}).",
        setting="store",
        hint=f"Give this user write access to {path.parent}, or set store.url to another path.",
    )


def sync_directory(directory: Path) -> None:
    """Write a directory to the disk, so that a new file in it survives a crash."""
    opened = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def check_file_system(path: Path) -> None:
    """Refuse a network file system: SQLite's locks and shared memory need a local one."""
    kind = UNSAFE_FILE_SYSTEMS.get(file_system(path))
    if kind is not None:
        raise Misconfigured(
            f"the database {path} is on a {kind} file system, where SQLite's locks may not work.",
            setting="store",
            hint="Put it on a local disk, or use PostgreSQL. If the file system is local after "
            "all, add ?local=yes to the URL.",
        )


def file_system(path: Path) -> int:
    """The type number of the file system from `statfs`."""
    libc = ctypes.CDLL(None, use_errno=True)
    # The struct begins with the type; 256 bytes are enough for every platform.
    found = (ctypes.c_ulong * 32)()
    if libc.statfs(os.fsencode(path), ctypes.byref(found)) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(path))
    return found[0] & 0xFFFFFFFF


def check_owner(path: Path, application_id: int, tables: int) -> None:
    """Refuse the database of another program."""
    if application_id != APPLICATION_ID and tables > 0:
        raise Misconfigured(
            f"{path} is a database of another program.",
            setting="store",
            hint="Set store.url to a path that no other program uses.",
        )


def unreadable(path: Path, error: apsw.Error) -> Misconfigured:
    """The error for a file that cannot be opened as a database."""
    return Misconfigured(
        f"{path} cannot be opened as a SQLite database: {error}.",
        setting="store",
        hint="Set store.url to another path, or restore a backup.",
    )
