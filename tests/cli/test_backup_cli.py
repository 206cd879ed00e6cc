"""`detent db backup` and `detent db restore`: what is copied, what is put back, what is refused."""

import json
import shutil
import threading
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import pytest

from detent.engine import Engine
from detent.kernel import commands as c
from detent.store.sqlite import SqliteStore, backup
from detent.testing.audit import picture
from detent.testing.conformance.work_actions import claim_one, complete, do, submit_task
from tests.altered_database import alter
from tests.cli.conftest import Run
from tests.cli.databases import opened


def test_a_backup_under_load_is_whole(run: Run, data: Path, job: str) -> None:
    """In a backup that is taken during writes, rows and log agree."""
    with opened(data) as store:
        enough, stop = threading.Event(), threading.Event()

        def write() -> None:
            engine = Engine(store)
            while not stop.is_set():
                submit_task(engine)
                complete(engine, claim_one(engine))
                enough.set()

        writing = threading.Thread(target=write)
        writing.start()
        try:
            assert enough.wait(60)
            for number in range(3):
                run("db", "backup", f"{number}.db")
        finally:
            stop.set()
            writing.join()
        with store.read() as view:
            end = view.head()
    for number in range(3):
        assert Path(f"{number}.db").stat().st_mode & 0o077 == 0
        run("db", "restore", f"{number}.db")
        verdict = json.loads(run("verify", "--json").stdout)
        assert 0 < verdict["position"] <= end


def test_a_restore_brings_back_what_was_and_keeps_what_is(run: Run, data: Path, job: str) -> None:
    with opened(data) as store:
        before = picture(store)
    run("db", "backup", "b.db")
    with opened(data) as store:
        do(Engine(store), c.DeleteJob(job))
        after = picture(store)
    run("db", "restore", "b.db")
    with opened(data) as store:
        assert picture(store) == before
    kept = SqliteStore(data / "detent.db.before-restore-1")
    assert picture(kept) == after
    kept.close()
    assert sorted(each.name for each in data.iterdir() if "restor" in each.name) == [
        "detent.db.before-restore-1",
        "detent.db.before-restore-1.lock",
    ]


def test_evidence_comes_along_if_it_is_wanted_and_is_named_if_not(
    run: Run, data: Path, job: str
) -> None:
    assert "evidence files" not in run("db", "backup", "none.db").stdout
    with opened(data) as store:
        kept = store.blobs.put(BytesIO(b"seen"))
    assert "Not copied: 1 evidence files." in run("db", "backup", "bare.db").stdout
    copied = json.loads(run("db", "backup", "b.db", "--with-blobs", "--json").stdout)
    assert (copied["blobs"], copied["blobs_left"]) == (1, 0)
    again = run("db", "backup", "c.db", "--with-blobs").stdout
    assert "Copied 1 evidence files to" in again
    Path("c.db").unlink()
    assert "exists already" in run("db", "backup", "c.db", "--with-blobs", code=1).stderr
    shutil.rmtree(data / "blobs")
    assert "Restored b.db and 1 evidence files." in run("db", "restore", "b.db").stdout
    with opened(data) as store:
        assert b"".join(store.blobs.read(kept.sha256)) == b"seen"


def test_a_damaged_file_of_evidence_is_not_put_back(run: Run, data: Path, job: str) -> None:
    with opened(data) as store:
        kept = store.blobs.put(BytesIO(b"seen"))
    run("db", "backup", "b.db", "--with-blobs")
    (Path("b.db.blobs") / kept.sha256[:2] / kept.sha256[2:]).write_bytes(b"else")
    assert "its content does not match its digest" in run("db", "restore", "b.db", code=70).stderr


def test_a_copy_says_how_far_it_is(data: Path, job: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backup, "PAGES", 4)
    reported: list[tuple[str, int, int]] = []
    backup.back_up(data / "detent.db", data / "b.db", lambda *each: reported.append(each))
    whats, ats, totals = zip(*reported, strict=True)
    assert set(whats) == {"database"}
    assert len(ats) > 2
    assert list(ats) == sorted(set(ats))
    assert set(totals) == {ats[-1]}


def test_a_damaged_database_can_be_replaced(run: Run, data: Path, job: str) -> None:
    run("db", "backup", "b.db")
    (data / "detent.db").write_bytes(b"no database at all" * 1_000)
    run("verify", code=7)
    run("db", "restore", "b.db")
    run("verify")


def foreign(file: Path) -> None:
    alter(file, "PRAGMA application_id = 1")


def newer(file: Path) -> None:
    alter(file, "INSERT INTO schema_migrations VALUES (999, 'later', 'x', 1)")


def damaged(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[8_192:16_384] = bytes(8_192)
    file.write_bytes(content)


def logged(file: Path) -> None:
    file.with_name(f"{file.name}-wal").write_bytes(b"x")


@pytest.mark.parametrize("spoil", [foreign, newer, damaged, logged])
def test_what_is_no_whole_backup_is_refused(
    run: Run, data: Path, job: str, spoil: Callable[[Path], None]
) -> None:
    run("db", "backup", "b.db")
    spoil(Path("b.db"))
    with opened(data) as store:
        before = picture(store)
    refused = run("db", "restore", "b.db", code=1 if spoil is logged else 7)
    assert "b.db" in refused.stderr
    with opened(data) as store:
        assert picture(store) == before
    assert not (data / "detent.db.before-restore-1").exists()


def test_a_backup_replaces_no_file(run: Run, job: str) -> None:
    Path("b.db").write_text("mine")
    assert "already exists" in run("db", "backup", "b.db", code=1).stderr
    assert Path("b.db").read_text() == "mine"


def test_nothing_is_backed_up_or_restored_from_nothing(run: Run, data: Path) -> None:
    assert "There is no database" in run("db", "backup", "b.db", code=1).stderr
    assert "The file b.db does not exist." in run("db", "restore", "b.db", code=1).stderr
    assert not data.exists()
