"""A newer schema and older programs: which of them can use it, and how an upgrade is finished."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from types import ModuleType

import psycopg
import pytest

from detent.cli import db_upgrade
from detent.cli.db_upgrade import finish_upgrade
from detent.engine import Engine
from detent.errors import Misconfigured, Refused, Unavailable
from detent.operations import process_registry
from detent.operations.context import Core
from detent.operations.process_registry import ProcessRegistration, live_processes
from detent.store.migration_files import Migration
from detent.store.postgres import schema as postgres_schema
from detent.store.schema_status import program_schema, schema_status
from detent.store.sqlite import schema as sqlite_schema
from detent.store.store_url import is_postgres, open_store
from detent.testing.conformance.work_actions import claim_one, complete, submit_job
from tests.store.test_postgres_schema import wait_for_a_waiter

#: Makes the program a later release, which has these migrations too.
Release = Callable[..., None]
ADDED = ("expand_origin", "ALTER TABLE active_jobs ADD COLUMN origin text;")
REMOVED = ("contract_snoozes", "DROP TABLE snoozes;")
LATER = ("expand_notes", "CREATE TABLE notes (name text);")


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database with the schema of this release."""
    if request.param == "postgres":
        found: str = request.getfixturevalue("postgres_url")
        return found
    open_store(f"sqlite://{tmp_path}/detent.db").close()
    return f"sqlite://{tmp_path}/detent.db"


@pytest.fixture
def release(url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Release]:
    module: ModuleType = postgres_schema if is_postgres(url) else sqlite_schema
    first = module.MIGRATIONS

    def install(*later: tuple[str, str]) -> None:
        made = [
            Migration(len(first) + place, name, text, sha256(text.encode()).hexdigest())
            for place, (name, text) in enumerate(later, 1)
        ]
        monkeypatch.setattr(module, "MIGRATIONS", (*first, *made))

    yield install
    monkeypatch.undo()


def names(url: str) -> tuple[list[str], list[str]]:
    """The names of migrations after this release: applied, and waiting."""
    found = schema_status(url)
    applied = [name for _, name, _ in sorted(found.applied) if name.startswith(("exp", "contr"))]
    return applied, [each.name for each in found.waiting]


def work(url: str) -> None:
    """Everything that a job needs of the schema."""
    store = open_store(url)
    engine = Engine(store)
    try:
        submit_job(engine)
        complete(engine, claim_one(engine))
    finally:
        store.close()


def test_an_older_program_works_after_an_addition(url: str, release: Release) -> None:
    running = open_store(url)
    release(ADDED)
    work(url)
    assert names(url) == (["expand_origin"], [])
    release()
    engine = Engine(running)
    submit_job(engine)
    complete(engine, claim_one(engine))
    running.close()
    work(url)
    found = schema_status(url)
    assert found.newer == program_schema(url) + 1
    assert not found.waiting


def test_a_command_that_would_lose_what_newer_programs_store(url: str, release: Release) -> None:
    release(ADDED)
    work(url)
    schema_status(url).require_own("rebuild")
    release()
    with pytest.raises(Refused, match=r"newer than schema \d+ of this .* `detent rebuild` would"):
        schema_status(url).require_own("rebuild")


def test_a_start_does_not_remove_what_older_programs_use(url: str, release: Release) -> None:
    release(ADDED, REMOVED)
    work(url)
    assert names(url) == (["expand_origin"], ["contract_snoozes"])
    assert not schema_status(url).needed
    finish_upgrade(schema_status(url))
    assert names(url) == (["expand_origin", "contract_snoozes"], [])
    release()
    with pytest.raises(Misconfigured, match=r"\(contract_snoozes\), newer than .* cannot use it"):
        open_store(url)


def test_a_new_database_has_everything(release: Release, url: str, tmp_path: Path) -> None:
    release(ADDED, REMOVED)
    if is_postgres(url):
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    else:
        url = f"sqlite://{tmp_path}/other.db"
    work(url)
    assert names(url) == (["expand_origin", "contract_snoozes"], [])


def test_a_release_after_an_unfinished_upgrade(url: str, release: Release) -> None:
    release(ADDED, REMOVED, LATER)
    with pytest.raises(Misconfigured, match=r"the upgrade .* \(contract_snoozes\) was not") as no:
        open_store(url)
    assert "detent db upgrade --finish" in str(no.value.hint)
    finish_upgrade(schema_status(url))
    work(url)
    assert names(url)[1] == []


def registered(url: str) -> tuple[Core, ProcessRegistration]:
    store = open_store(url)
    core = Core(store, Engine(store))
    return core, ProcessRegistration(core)


def test_an_upgrade_is_not_finished_while_an_older_program_runs(
    url: str, release: Release, monkeypatch: pytest.MonkeyPatch
) -> None:
    core, registration = registered(url)
    registration.start()
    release(ADDED, REMOVED)
    open_store(url).close()
    with pytest.raises(Refused, match=rf"in use by {registration.row[8:]} \(detent .*snoozes"):
        finish_upgrade(schema_status(url))
    assert names(url)[1] == ["contract_snoozes"]
    with monkeypatch.context() as killed:
        killed.setattr(db_upgrade, "may_be_running", lambda *_: False)
        older = live_rows(core)
        assert [each.schema for each in older] == [program_schema(url) - 2]
    registration.stop()
    assert live_rows(core) == []
    core.store.close()
    finish_upgrade(schema_status(url))
    assert names(url)[1] == []


def live_rows(core: Core) -> list[process_registry.RegisteredProcess]:
    with core.store.read() as view:
        return list(live_processes(view.rows("system_state"), view.now()))


def test_a_killed_process_is_forgotten(url: str) -> None:
    core, registration = registered(url)
    row = {"version": "0.1", "schema": 1}
    with core.store.write() as tx:
        killed = {"process:a:1": {**row, "seen_at": tx.now() - process_registry.LIVE_US - 1}}
        tx.put_rows("system_state", {**killed, "process:b:2": {**row, "seen_at": tx.now()}})
    assert [each.name for each in live_rows(core)] == ["b:2"]
    registration.start()
    registration.stop()
    with core.store.read() as view:
        assert [name for name in view.rows("system_state") if "process:" in name] == ["process:b:2"]
    core.store.close()


# ---- PostgreSQL: tables that other transactions use ----------------------------------------------


@pytest.mark.parametrize("url", ["postgres"], indirect=True)
def test_a_migration_does_not_block_others_behind_a_long_transaction(
    url: str, release: Release
) -> None:
    """It waits for the table a short time, lets the others pass, and tries again."""
    release(ADDED)
    with (
        psycopg.connect(url) as report,
        psycopg.connect(url, autocommit=True) as other,
        ThreadPoolExecutor(1) as pool,
    ):
        report.execute("SELECT count(*) FROM active_jobs")
        migrating = pool.submit(lambda: open_store(url).close())
        wait_for_a_waiter(other, migrating)
        other.execute("DELETE FROM active_jobs")
        assert not migrating.done()
        report.rollback()
        migrating.result()
    assert names(url) == (["expand_origin"], [])


@pytest.mark.parametrize("url", ["postgres"], indirect=True)
def test_a_table_that_stays_in_use(
    url: str, release: Release, monkeypatch: pytest.MonkeyPatch
) -> None:
    release(ADDED)
    monkeypatch.setattr(postgres_schema, "MIGRATE_WITHIN_S", 0.0)
    with psycopg.connect(url) as report:
        report.execute("SELECT count(*) FROM active_jobs")
        with pytest.raises(Unavailable, match="because other transactions use its tables") as no:
            open_store(url)
    assert "End long transactions" in str(no.value.hint)
    assert names(url) == ([], ["expand_origin"])
