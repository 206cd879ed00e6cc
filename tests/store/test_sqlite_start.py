"""What a SQLite file must fulfil when a store is opened on it, and the errors if not."""

import os
import stat
import tempfile
from pathlib import Path

import apsw
import pytest

from detent.errors import Misconfigured
from detent.store.schema_status import schema_status
from detent.store.sqlite import SqliteStore, checks
from tests.store import sqlite_processes
from tests.store.test_sqlite import line, process


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "detent.db"


def refusal(path: Path) -> str:
    """The message and the hint that an operator gets."""
    with pytest.raises(Misconfigured) as caught:
        SqliteStore(path)
    assert caught.value.setting == "store"
    return f"{caught.value.message} {caught.value.hint}"


# ---- the machine -----------------------------------------------------------------------------


def test_sqlite_that_may_lose_a_commit(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apsw, "sqlite_lib_version", lambda: "3.51.2")
    message = refusal(path)
    assert "3.51.2 is too old" in message
    assert "Upgrade the package apsw" in message
    monkeypatch.setattr(apsw, "sqlite_lib_version", lambda: "3.51.3")
    SqliteStore(path).close()


@pytest.mark.parametrize(
    ("number", "name"), [(0x6969, "NFS"), (0xFF534D42, "CIFS"), (0x65735546, "FUSE")]
)
def test_a_network_file_system(
    path: Path, monkeypatch: pytest.MonkeyPatch, number: int, name: str
) -> None:
    monkeypatch.setattr(checks, "file_system", lambda _: number)
    message = refusal(path)
    assert f"on a {name} file system" in message
    assert "?local=yes" in message
    SqliteStore(path, local=True).close()


def test_the_file_system_is_what_the_kernel_says() -> None:
    proc = 0x9FA0
    assert checks.file_system(Path("/proc/self")) == proc
    with pytest.raises(FileNotFoundError):
        checks.file_system(Path("/proc/self/nothing"))


# ---- the file --------------------------------------------------------------------------------


def test_a_directory_that_may_not_be_written() -> None:
    with tempfile.TemporaryDirectory() as made:
        Path(made).chmod(0o555)
        with process(sqlite_processes.open_as_another_user, Path(made) / "detent.db") as run:
            message = line(run)
        assert message.startswith("misconfigured: the database ")
        assert "cannot be written: Permission denied" in message
        assert f"Give this user write access to {made}" in message


def test_a_path_that_is_a_directory(tmp_path: Path) -> None:
    assert "cannot be written: Is a directory" in refusal(tmp_path)


def test_a_path_below_a_file(path: Path) -> None:
    path.write_text("")
    assert "cannot be written: Not a directory" in refusal(path / "detent.db")


def test_a_file_that_is_no_database(path: Path) -> None:
    path.write_text("This is a letter, and a long one. " * 100)
    message = refusal(path)
    assert "cannot be opened as a SQLite database" in message
    assert "restore a backup" in message
    assert path.read_text().startswith("This is a letter")


def test_the_database_of_another_program(path: Path) -> None:
    apsw.Connection(str(path)).execute("CREATE TABLE recipes (name TEXT)")
    before = path.read_bytes()
    assert schema_status(str(path)).applied == []
    assert "is a database of another program" in refusal(path)
    assert path.read_bytes() == before


def test_a_refused_start_leaves_no_file_open(path: Path) -> None:
    path.write_text("This is a letter, and a long one. " * 100)
    refusal(path)
    opened = [each for each in Path("/proc/self/fd").iterdir() if each.is_symlink()]
    assert [each for each in opened if str(each.readlink()).startswith(str(path))] == []


def test_a_newer_schema(path: Path) -> None:
    SqliteStore(path).close()
    note = "INSERT INTO schema_migrations VALUES (99, 'holograms', 'x', 0)"
    apsw.Connection(str(path)).execute(note)
    message = refusal(path)
    assert "has schema 99 (holograms), newer than" in message
    assert "Upgrade detent" in message


def test_another_migration_of_the_same_number(path: Path) -> None:
    SqliteStore(path).close()
    apsw.Connection(str(path)).execute("UPDATE schema_migrations SET digest = 'other'")
    assert "Migration 0001 (first) of " in refusal(path)


def test_a_refusal_holds_no_lock(path: Path) -> None:
    SqliteStore(path).close()
    shell = apsw.Connection(str(path))
    shell.execute("UPDATE schema_migrations SET number = number + 98")
    refusal(path)
    shell.execute("UPDATE schema_migrations SET number = number - 98")
    SqliteStore(path).close()


# ---- permissions -----------------------------------------------------------------------------


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_what_is_made_is_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "var" / "detent" / "detent.db"
    before = os.umask(0)
    try:
        store = SqliteStore(path)
    finally:
        os.umask(before)
    files = [path.with_name(path.name + end) for end in ("", ".lock", "-wal", "-shm")]
    assert [mode(file) for file in files] == [0o600] * 4
    assert [mode(parent) for parent in (path.parent, path.parent.parent)] == [0o700] * 2
    store.close()


def test_what_is_there_keeps_its_permissions(path: Path) -> None:
    path.touch(0o640)
    path.chmod(0o640)
    SqliteStore(path).close()
    assert mode(path) == 0o640


def test_a_commit_is_on_the_disk_before_it_is_acknowledged(path: Path) -> None:
    store = SqliteStore(path)
    full = 2
    with store.write() as tx:
        assert tx._all("PRAGMA synchronous") == [(full,)]
        assert tx._all("PRAGMA journal_mode") == [("wal",)]
    store.close()
