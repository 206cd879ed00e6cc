"""Commands on the data: verify, rebuild, the clock, the schema, trim and move."""

import json
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import psutil
import pytest

from detent import server_file
from detent.engine import Engine
from detent.kernel import commands as c
from detent.store.clock import HostClock
from detent.store.migration_files import Migration
from detent.store.sqlite import SqliteStore, schema
from detent.testing.audit import picture
from detent.testing.clock import VirtualClock
from detent.testing.conformance.work_actions import claim_one, complete, do, submit_job
from tests.altered_database import alter
from tests.cli.conftest import Run
from tests.cli.databases import opened
from tests.store import old_databases


def differences(run: Run, *options: str) -> list[dict[str, Any]]:
    found = json.loads(run("verify", "--json", *options, code=1).stdout)["differences"]
    assert found
    return list(found)


# ---- verify ------------------------------------------------------------------------------------


def test_verify_extends_the_chain_and_shows_its_end(run: Run, data: Path, job: str) -> None:
    verdict = json.loads(run("verify", "--json").stdout)
    assert verdict["differences"] == []
    assert verdict["timers_checked"] is True
    assert verdict["anchor"]["position"] == verdict["position"] == verdict["events"] > 0
    assert verdict["anchor"]["chain"] in run("verify").stdout


def test_verify_names_the_row_that_was_changed(run: Run, data: Path, job: str) -> None:
    alter(data / "detent.db", f"UPDATE jobs SET fence = 7 WHERE id = '{job}'")
    (found,) = differences(run)
    assert (found["stream"], found["what"], found["field"]) == (job, "job", "fence")
    assert (found["log"], found["row"]) == (1, 7)
    shown = run("verify", code=1).stdout
    assert job in shown
    assert "fence" in shown


def test_verify_names_the_range_whose_data_was_changed(run: Run, data: Path, job: str) -> None:
    run("verify")
    alter(
        data / "detent.db",
        "UPDATE events SET data = replace(data, 'secret', 'public') WHERE position = 1",
        "UPDATE jobs SET payload = replace(payload, 'secret', 'public')",
    )
    (found,) = differences(run)
    assert (found["what"], found["field"]) == ("seal", "chain")


def test_verify_finds_a_deadline_that_is_gone(run: Run, data: Path) -> None:
    with opened(data) as store:
        submit_job(Engine(store), options={"job_timeout_ms": 60_000})
    run("verify")
    alter(data / "detent.db", "DELETE FROM deadlines")
    assert {each["what"] for each in differences(run)} == {"deadline"}


def test_an_anchor_finds_a_cut_tail(run: Run, data: Path, job: str, tmp_path: Path) -> None:
    anchor = str(tmp_path / "anchor.json")
    run("db", "backup", "early.db")
    with opened(data) as store:
        submit_job(Engine(store))
    run("verify", "--write-anchor", anchor)
    run("verify", "--anchor", anchor)
    run("db", "restore", "early.db")
    run("verify")
    (found,) = differences(run, "--anchor", anchor)
    assert found["field"] == "anchor"


def test_a_long_log_shows_progress_beside_the_answer(
    run: Run, job: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run("verify").stderr == ""
    monkeypatch.setattr("detent.cli.verify.NOTE_EVERY", 5)
    result = run("verify", "--json")
    assert [line.split(":")[0] for line in result.stderr.splitlines()] == ["chain", "fold"]
    assert json.loads(result.stdout)["differences"] == []


def test_deleted_chain_blocks_are_reported_with_what_to_do(run: Run, data: Path, job: str) -> None:
    run("verify")
    alter(
        data / "detent.db",
        "DELETE FROM seals",
        "UPDATE events SET actor = 'eve' WHERE position = 2",
    )
    run("verify", "--write-anchor", "anchor.json", code=1)
    assert not Path("anchor.json").exists()
    shown = run("verify", code=1).stdout
    assert "removed" in shown
    assert "--accept-unsealed" in shown
    assert "Clean" not in shown
    (found,) = json.loads(run("verify", "--json", code=1).stdout)["unsealed"]
    assert found["what"] == "removed"
    assert "Clean" in run("verify", "--accept-unsealed").stdout


def test_no_anchor_is_written_of_what_is_wrong(run: Run, data: Path, job: str) -> None:
    alter(data / "detent.db", "UPDATE jobs SET fence = 7")
    run("verify", "--write-anchor", "anchor.json", code=1)
    assert not Path("anchor.json").exists()


def test_an_anchor_that_cannot_be_written_is_reported(run: Run, job: str) -> None:
    assert "cannot be written" in run("verify", "--write-anchor", "no/where", code=2).stderr


def test_what_is_no_anchor_is_refused(run: Run, job: str) -> None:
    Path("anchor.json").write_text("{}")
    assert "is not an anchor file" in run("verify", "--anchor", "anchor.json", code=2).stderr


# ---- rebuild -----------------------------------------------------------------------------------


def test_rebuild_repairs_rows(run: Run, data: Path, job: str) -> None:
    with opened(data) as store:
        before = picture(store)
    alter(data / "detent.db", "UPDATE jobs SET fence = 7", "DELETE FROM tasks", "DELETE FROM queue")
    run("verify", code=1)
    assert "Clean" in run("rebuild").stdout
    with opened(data) as store:
        assert picture(store) == before


def worker_row(data: Path, **fields: Any) -> None:
    with opened(data) as store, store.write() as tx:
        row = {"host": socket.gethostname(), "pid": os.getpid(), "seen_at": tx.now(), **fields}
        tx.put_rows("workers", {"w1": row})


def gateway_file(data: Path) -> None:
    process = psutil.Process()
    server = {
        "url": "http://127.0.0.1:1",
        "pid": process.pid,
        "began": server_file.began(process.pid),
    }
    (data / "server.json").write_text(json.dumps(server))


@pytest.mark.parametrize("command", [("rebuild",), ("db", "restore", "b.db")])
@pytest.mark.parametrize("live", [worker_row, gateway_file])
def test_what_is_in_use_is_left_alone(
    run: Run, data: Path, job: str, command: tuple[str, ...], live: Callable[[Path], None]
) -> None:
    run("db", "backup", "b.db")
    live(data)
    assert "is in use by" in run(*command, code=1).stderr


@pytest.mark.parametrize("gone", [{"pid": 2**22 + 1}, {"host": "elsewhere", "seen_at": 1}])
def test_a_worker_that_is_gone_does_not_block_a_rebuild(
    run: Run, data: Path, job: str, gone: dict[str, Any]
) -> None:
    worker_row(data, **gone)
    run("rebuild")


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
        "0008_limits",
        "0009_commits",
        "0010_layout",
        "0011_lifecycles",
        "0012_review",
        "0013_forges",
        "0014_slack",
        "0015_graphs",
        "0016_quotas",
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
    apsw.Connection(str(data / "detent.db")).execute(printed).fetchall()
    assert json.loads(run("db", "status", "--json").stdout)["waiting"] == []
    assert run("db", "sql").stdout == ""
    assert run("db", "sql", "--all").stdout == printed
    with opened(data) as store:
        submit_job(Engine(store))
    run("verify")


def test_grants_are_printed_for_a_role_of_postgresql_only(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "Only a store on PostgreSQL has roles." in run("db", "sql", "--role", "x", code=1).stderr
    monkeypatch.setenv("DETENT_STORE_URL", "postgresql://owner@127.0.0.1:1/nothing")
    printed = run("db", "sql", "--role", 'o"x').stdout
    assert printed.startswith("GRANT SELECT, INSERT, UPDATE, DELETE ON")
    assert printed.count('TO "o""x";') == 5
    assert ':"role"' not in printed
    statements = json.loads(run("db", "sql", "--role", 'o"x', "--json").stdout)["statements"]
    assert statements == [printed]
    assert "--role must be the name of a role" in run("db", "sql", "--role", "", code=2).stderr


def test_an_upgrade_is_finished_by_a_command(
    run: Run, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("db", "init")
    known = len(schema.MIGRATIONS)
    added = Migration(known + 1, "expand_notes", "CREATE TABLE notes (name TEXT);", "1")
    removed = Migration(known + 2, "contract_notes", "DROP TABLE snoozes;", "2")
    older = schema.MIGRATIONS
    monkeypatch.setattr(schema, "MIGRATIONS", (*older, added, removed))
    assert "expand_notes" in run("db", "sql").stdout
    assert "contract_notes" not in run("db", "sql").stdout
    shown = run("db", "upgrade").stdout
    assert f"Upgraded {data / 'detent.db'}: {added}.\nNot applied yet: {removed}." in shown
    assert "contract_notes" in run("db", "sql").stdout
    assert json.loads(run("db", "status", "--json", code=1).stdout)["waiting"] == [str(removed)]
    findings = json.loads(run("doctor", "--json", code=1).stdout)["findings"]
    (remedy,) = (each["remedy"] for each in findings if each["name"] == "schema")
    assert remedy.endswith("detent db upgrade --finish")
    assert f": {removed}." in run("db", "upgrade", "--finish").stdout
    assert "current schema" in run("db", "upgrade", "--finish").stdout
    monkeypatch.setattr(schema, "MIGRATIONS", older)
    assert "which cannot use it" in run("jobs", code=7).stderr


def test_a_rebuild_with_an_older_program_is_refused(run: Run, data: Path) -> None:
    run("db", "init")
    note = "INSERT INTO schema_migrations VALUES (99, 'expand_notes', 'x', 0)"
    apsw.Connection(str(data / "detent.db")).execute(note)
    assert run("jobs").stdout
    for command in (["rebuild"], ["db", "move", "postgresql://localhost/none"]):
        assert "newer versions have stored" in run(*command, code=1).stderr


def test_a_database_of_an_earlier_layout_is_upgraded(run: Run, data: Path, tmp_path: Path) -> None:
    with opened(data) as store:
        for _ in range(3):
            submit_job(Engine(store))
        before = picture(store)
    (data / "detent.db").rename(tmp_path / "new.db")
    old_databases.copy(tmp_path / "new.db", data / "detent.db")
    refused = run("jobs", code=7).stderr
    assert "storage layout of an earlier version" in refused
    assert "detent db upgrade" in refused
    run("db", "backup", str(tmp_path / "backup.db"))
    done = json.loads(run("db", "upgrade", "--json").stdout)
    later = ["0011_lifecycles", "0012_review", "0013_forges", "0014_slack", "0015_graphs"]
    later += ["0016_quotas"]
    applied = ["0009_commits", "0010_layout", *later]
    assert (done["applied"], done["events"]) == (applied, 3)
    with opened(data) as store:
        after = picture(store)
    after["system_state"].pop("clock", None)  # the verification may write it
    assert after == before
    run("verify")
    assert "current schema" in run("db", "upgrade").stdout


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
    refused = run("db", "backup", "b.db", code=1).stderr
    assert "store.url names" in refused
    assert "For PostgreSQL, use pg_dump. For SQLite, unset" in refused
    assert "schema" in run("doctor", "--json", code=1).stdout  # work waits without a worker


def test_move_goes_to_postgresql_only_and_from_what_is_quiet(
    run: Run, data: Path, job: str, postgres_url: str
) -> None:
    assert "other.db is no PostgreSQL URL" in run("db", "move", "other.db", code=1).stderr
    worker_row(data)
    assert "is in use by" in run("db", "move", postgres_url, code=1).stderr
