"""`detent db`: clock, schema, backup, restore, trim and move."""

import json
import shutil
import threading
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import pytest
from click.testing import Result

from detent.clock import HostClock
from detent.engine import Engine
from detent.kernel import commands as c
from detent.store.sqlite import SqliteStore, backup
from detent.testing.audit import picture
from detent.testing.clock import VirtualClock
from detent.testing.conformance.work_actions import claim_one, complete, do, submit_job, submit_task
from tests.cli.databases import alter, opened, worker_row

Run = Callable[..., Result]


# ---- the clock ---------------------------------------------------------------------------------


def test_the_clock_is_shown_and_reset(run: Run, data: Path, job: str) -> None:
    with opened(data) as store:
        before = picture(store)
    fast = SqliteStore(data / "detent.db", VirtualClock(HostClock()() + 3_600_000_000))
    submit_job(Engine(fast))
    fast.close()
    shown = json.loads(run("db", "clock", "--json").stdout)
    assert 3_599_000_000 < shown["ahead_us"] <= 3_600_000_000
    assert "3600.000 s" in run("db", "clock").stdout or "3599." in run("db", "clock").stdout
    reset = json.loads(run("db", "clock", "--reset", "--json").stdout)
    assert (reset["ahead_us"], reset["set_back_us"] > 3_590_000_000) == (0, True)
    assert json.loads(run("db", "clock", "--json").stdout)["ahead_us"] == 0
    run("verify")
    with opened(data) as store:
        assert len(picture(store)) == len(before)
        with store.read() as view:
            positions = [each.position for each in view.events(0, 100)]
    assert positions == sorted(positions)
    assert run("state", "set", "clock", "1", code=1)


# ---- the schema --------------------------------------------------------------------------------


def test_status_changes_nothing_and_init_makes_the_database(run: Run, data: Path) -> None:
    assert json.loads(run("db", "status", "--json", code=1).stdout)["waiting"] == [
        "0001_first",
        "0002_lists",
        "0003_tags",
        "0004_questions",
        "0005_settled",
        "0006_lanes",
        "0007_reservations",
    ]
    assert not (data / "detent.db").exists()
    assert "Created" in run("db", "init").stdout
    assert "current schema" in run("db", "upgrade").stdout
    found = json.loads(run("db", "status", "--json").stdout)
    assert (found["exists"], found["waiting"], found["position"]) == (True, [], 0)


def test_the_printed_statements_make_the_same_database(run: Run, data: Path) -> None:
    printed = run("db", "sql").stdout
    data.mkdir(mode=0o700)
    (data / "detent.db").touch(0o600)
    alter(data / "detent.db", printed)
    assert json.loads(run("db", "status", "--json").stdout)["waiting"] == []
    assert run("db", "sql").stdout == ""
    assert run("db", "sql", "--all").stdout == printed
    with opened(data) as store:
        submit_job(Engine(store))
    run("verify")


# ---- copies ------------------------------------------------------------------------------------


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
    assert "its bytes are others" in run("db", "restore", "b.db", code=70).stderr


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
    assert "is there already" in run("db", "backup", "b.db", code=1).stderr
    assert Path("b.db").read_text() == "mine"


def test_nothing_is_backed_up_or_restored_from_nothing(run: Run, data: Path) -> None:
    assert "There is no database" in run("db", "backup", "b.db", code=1).stderr
    assert "The file b.db does not exist." in run("db", "restore", "b.db", code=1).stderr
    assert not data.exists()


# ---- trim --------------------------------------------------------------------------------------


def test_trim_removes_deleted_work_from_the_log(run: Run, data: Path) -> None:
    with opened(data) as store:
        engine = Engine(store)
        gone = submit_job(engine)
        complete(engine, claim_one(engine))
        do(engine, c.DeleteJob(gone))
        with store.read() as view:
            events = view.head()
    run("verify", "--write-anchor", "anchor.json")
    with opened(data) as store:
        submit_job(Engine(store))
    assert f"Removed {events} events" in run("db", "trim").stdout
    assert json.loads(run("db", "status", "--json").stdout)["trimmed"] == events
    run("verify", "--anchor", "anchor.json")
    assert "Nothing to remove" in run("db", "trim").stdout


def test_trim_leaves_what_lives(run: Run, data: Path, job: str) -> None:
    with opened(data) as store:
        before = picture(store)["log"]
    assert "Nothing to remove" in run("db", "trim").stdout
    with opened(data) as store:
        assert picture(store)["log"] == before


# ---- move --------------------------------------------------------------------------------------


def test_move_copies_everything_to_postgresql(
    run: Run, data: Path, job: str, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = json.loads(run("verify", "--json", "--write-anchor", "anchor.json").stdout)
    assert here["anchor"]["chain"] in run("db", "move", postgres_url).stdout
    assert "is not empty" in run("db", "move", postgres_url, code=1).stderr
    monkeypatch.setenv("DETENT_STORE_URL", postgres_url)
    there = json.loads(run("verify", "--json", "--anchor", "anchor.json").stdout)
    assert there == here
    found = json.loads(run("db", "status", "--json").stdout)
    assert (found["position"], found["waiting"]) == (here["position"], [])
    assert "For PostgreSQL, use pg_dump" in run("db", "backup", "b.db", code=1).stderr
    assert "schema" in run("doctor", "--json", code=1).stdout  # work waits without a worker


def test_move_goes_to_postgresql_only_and_from_what_is_quiet(
    run: Run, data: Path, job: str, postgres_url: str
) -> None:
    assert "other.db is no PostgreSQL URL" in run("db", "move", "other.db", code=1).stderr
    worker_row(data)
    assert "is in use by" in run("db", "move", postgres_url, code=1).stderr
