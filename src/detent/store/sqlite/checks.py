"""What is looked at before a SQLite file is used: library, file, file system, contents.

Whoever runs detent must put these right, so each refusal says what to do.
"""

import ctypes
import os
from pathlib import Path

import apsw

from detent.errors import Misconfigured
from detent.store.sqlite.connection import WriteLock

#: The first version in which a commit cannot be lost when the write-ahead log starts anew.
OLDEST_SQLITE = (3, 51, 3)

#: File systems on which locks or shared memory may not hold, by their number in statfs.
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

#: Written into every file of ours: "dtnt".
APPLICATION_ID = 0x64746E74


def check_version(version: str) -> None:
    """Older libraries could lose an acknowledged commit."""
    if tuple(int(part) for part in version.split(".")) < OLDEST_SQLITE:
        oldest = ".".join(map(str, OLDEST_SQLITE))
        raise Misconfigured(
            f"SQLite {version} is too old: {oldest} is the first that never loses a commit.",
            setting="store",
            hint="Upgrade the package apsw, which brings SQLite with it.",
        )


def prepare_file(path: Path) -> None:
    """Make the file and its directory if they are not there, for their owner alone."""
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
        hint=f"Give this user write access to {path.parent}, or set store to another path.",
    )


def sync_directory(directory: Path) -> None:
    """A new file is there for certain only when its directory is on the disk."""
    opened = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def check_file_system(path: Path) -> None:
    """SQLite's locks and its shared memory hold on one machine only."""
    kind = UNSAFE_FILE_SYSTEMS.get(file_system(path))
    if kind is not None:
        raise Misconfigured(
            f"the database {path} is on a {kind} file system, where SQLite's locks may not hold.",
            setting="store",
            hint="Put it on a local disk, or use PostgreSQL. If the file system is local after "
            "all, add ?local=yes to the URL.",
        )


def file_system(path: Path) -> int:
    """The type of the file system, as the kernel numbers them."""
    libc = ctypes.CDLL(None, use_errno=True)
    # The struct begins with the type; 256 bytes are more than any of its forms has.
    found = (ctypes.c_ulong * 32)()
    if libc.statfs(os.fsencode(path), ctypes.byref(found)) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(path))
    return found[0] & 0xFFFFFFFF


def check_owner(path: Path, application_id: int, tables: int) -> None:
    """Another program's database is left alone."""
    if application_id != APPLICATION_ID and tables > 0:
        raise Misconfigured(
            f"{path} is the database of another program.",
            setting="store",
            hint="Set store to a path that no other program uses.",
        )


def unreadable(path: Path, error: apsw.Error) -> Misconfigured:
    """What is there cannot be opened as a database."""
    return Misconfigured(
        f"{path} cannot be opened as a SQLite database: {error}.",
        setting="store",
        hint="Set store to another path, or restore a backup.",
    )
