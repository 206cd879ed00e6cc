"""A PostgreSQL database of layout 1 is refused, converted, and is what it was."""

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import apsw
import psycopg
import pytest

from detent.engine import Engine
from detent.errors import Broken, Misconfigured
from detent.integrity.hash_chain import Anchor
from detent.integrity.rebuild import rebuild
from detent.integrity.upgrade import upgrade_postgres
from detent.integrity.verify import verify
from detent.kernel import commands as c
from detent.store.layout_upgrade import CHUNK
from detent.store.postgres import PostgresStore, log_conversion, schema
from detent.store.sqlite import SqliteStore
from detent.store.sqlite import schema as sqlite_schema
from detent.testing.audit import audit, picture
from detent.testing.clock import START, VirtualClock
from detent.testing.conformance.work_actions import claim_one, code, complete, submit_job
from tests.store import old_databases
from tests.store.postgres_scene import beside
from tools.golden import GOLDEN, PERSON, found_in

DAY_US = 86_400_000_000
#: The last migration of layout 1.
LAYOUT_1 = 8
OLD = sorted(GOLDEN.glob("*.db.gz"))[0]
EXPECTED = json.loads(OLD.with_name(OLD.name.replace(".db.gz", ".json")).read_text())


def rows_of_layout_1(tmp_path: Path) -> apsw.Connection:
    """The golden SQLite database, with the tables of layout 1."""
    path = tmp_path / "old.db"
    path.write_bytes(gzip.decompress(OLD.read_bytes()))
    file = apsw.Connection(str(path))
    (done,) = next(file.execute("SELECT max(number) FROM schema_migrations"))
    for migration in sqlite_schema.MIGRATIONS[done:LAYOUT_1]:
        file.execute(migration.text)
    return file


@pytest.fixture
def url(empty_postgres_url: str, tmp_path: Path) -> str:
    """The golden database on PostgreSQL, as layout 1 had it."""
    with rows_of_layout_1(tmp_path) as file:
        copy_all(file, empty_postgres_url)
    return empty_postgres_url


def copy_all(file: apsw.Connection, url: str) -> None:
    """Put the tables of a SQLite database of layout 1 into an empty PostgreSQL database."""
    with beside(url) as database:
        for migration in schema.MIGRATIONS[:LAYOUT_1]:
            database.execute(migration.text.encode())
            database.execute(schema.NOTE, [migration.number, migration.name, migration.digest])
        query = """
            SELECT table_name, column_name, data_type FROM information_schema.columns
            JOIN information_schema.tables USING (table_schema, table_name)
            WHERE table_schema = 'public' AND table_type = 'BASE TABLE'
            ORDER BY table_name, ordinal_position
        """
        tables: dict[str, list[tuple[str, str]]] = {}
        for table, column, kind in database.execute(query.encode()).fetchall():
            tables.setdefault(table, []).append((column, kind))
        known = {name for (name,) in file.execute("SELECT name FROM sqlite_schema")}
        for table, columns in tables.items():
            if table in known and table not in ("schema_migrations", "task_tags"):
                copy(file, database, table, columns)


def copy(
    file: apsw.Connection,
    database: psycopg.Connection,
    table: str,
    columns: list[tuple[str, str]],
) -> None:
    names = ", ".join(name for name, _ in columns)
    text = f"COPY {table} ({names}) FROM STDIN".encode()
    with database.cursor() as cursor, cursor.copy(text) as rows:
        for row in file.execute(f"SELECT {names} FROM {table}"):
            rows.write_row(
                [
                    bool(value) if kind == "boolean" and value is not None else value
                    for value, (_, kind) in zip(row, columns, strict=True)
                ]
            )


def upgrade(url: str, progress: Any = lambda _what, _at: None) -> None:
    upgraded = upgrade_postgres(url, START, progress)
    assert upgraded is not None
    assert upgraded.anchor == Anchor(**EXPECTED["anchor"])


def opened(url: str) -> PostgresStore:
    return PostgresStore(url, VirtualClock(START + DAY_US))


def test_a_database_of_layout_1_is_refused_and_not_changed(url: str) -> None:
    with pytest.raises(Misconfigured) as caught:
        opened(url)
    assert "detent db upgrade" in (caught.value.hint or "")
    with beside(url) as database:
        assert len(schema.applied(database)) == LAYOUT_1


def test_a_converted_database_is_what_it_was(url: str) -> None:
    with beside(url) as database:
        before = database.execute("SELECT * FROM events ORDER BY position").fetchall()
        upgrade(url)
        assert database.execute("SELECT * FROM events ORDER BY position").fetchall() == before
    store = opened(url)
    assert verify(store, Anchor(**EXPECTED["anchor"])).differences == []
    assert found_in(store) == EXPECTED
    again = c.SubmitTask("deleted", "golden", "board", "deleted", "cli")
    assert code(lambda: Engine(store).do(again, PERSON, fresh=True)) == "task_exists"
    store.close()


def test_work_continues_in_a_converted_database(url: str) -> None:
    upgrade(url)
    store = opened(url)
    engine = Engine(store)
    with store.read() as view:
        head = view.head()
    complete(engine, claim_one(engine, intents=["needed"]))
    assert claim_one(engine, intents=["waiting"]).job.task_id == "waiting"
    with store.read() as view:
        new = view.events(head, 100)
    assert [event.position for event in new] == list(range(head + 1, head + len(new) + 1))
    audit(store)
    before = picture(store)
    rebuild(store, 1)
    after = picture(store)
    assert after["log"] == before["log"]
    assert after["jobs"] == before["jobs"]
    audit(store)
    store.close()


class Killed(Exception):
    """Raised in the middle of an upgrade."""


def test_an_upgrade_that_is_interrupted_anywhere_continues(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After each chunk of the log, and before the tables of layout 1 are removed."""
    monkeypatch.setattr(log_conversion, "CHUNK", 7)
    positions: list[int] = []

    def stop(what: str, position: int) -> None:
        if what == "convert":
            positions.append(position)
            raise Killed

    while True:
        try:
            upgrade(url, stop)
            break
        except Killed:
            with pytest.raises(Misconfigured):
                opened(url)
    assert len(positions) > 5
    assert positions == sorted(set(positions))
    store = opened(url)
    assert verify(store, Anchor(**EXPECTED["anchor"])).differences == []
    assert found_in(store) == EXPECTED
    store.close()


def test_more_events_than_one_part_of_the_conversion(
    empty_postgres_url: str, tmp_path: Path
) -> None:
    new, old = tmp_path / "new.db", tmp_path / "old.db"
    store = SqliteStore(new, VirtualClock())
    engine = Engine(store)
    submit_job(engine, job_id="job-000000")
    complete(engine, claim_one(engine))
    store.close()
    old_databases.copy(new, old)
    old_databases.multiply(old, "job-000000", 4_000)
    with apsw.Connection(str(old)) as file:
        copy_all(file, empty_postgres_url)
    parts: list[int] = []
    upgraded = upgrade_postgres(
        empty_postgres_url,
        START,
        lambda what, position: parts.append(position) if what == "convert" else None,
    )
    assert upgraded is not None
    assert upgraded.events == 4_001 * 6 > 2 * CHUNK
    assert parts == [10_000, 20_000, upgraded.events]
    converted = opened(empty_postgres_url)
    with converted.read() as view:
        assert view.head() == upgraded.events
        assert len(view.events(0, 100, stream="job-003210")) == 6
    converted.close()


UPGRADE = """
import sys
from detent.integrity.upgrade import upgrade_postgres
from detent.store.postgres import log_conversion
log_conversion.CHUNK = 30
upgrade_postgres(sys.argv[1], 1, lambda what, position: None)
"""


def is_killed(url: str, passage: int) -> bool:
    """Upgrade in a process that is killed before its n-th commit; False if it was not."""
    armed = {"DETENT_TESTING": "1", "DETENT_FAILPOINTS": f"migration.commit:kill:{passage}"}
    run = subprocess.run(
        [sys.executable, "-c", UPGRADE, url],
        env={**os.environ, **armed},
        timeout=120,
        capture_output=True,
        check=False,
    )
    assert run.returncode in (0, -9), run.stderr
    return run.returncode != 0


def test_an_upgrade_whose_process_is_killed_before_any_commit_continues(url: str) -> None:
    """Each process commits one part, the next one is killed before the same commit."""
    kills, passage = 0, 1
    while is_killed(url, passage):
        kills, passage = kills + 1, 3 - passage
        with pytest.raises(Misconfigured):
            opened(url)
    assert kills >= 4
    store = opened(url)
    assert verify(store, Anchor(**EXPECTED["anchor"])).differences == []
    assert found_in(store) == EXPECTED
    store.close()


def test_an_event_that_was_not_converted_keeps_the_tables(url: str) -> None:
    """An older process that is still running may append after the conversion."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(schema.MIGRATIONS[LAYOUT_1].text.encode())
        log_conversion.convert_log(connection)
        connection.execute("""
            INSERT INTO events (position, stream, version, project, name, schema, at, actor, data)
            OVERRIDING SYSTEM VALUE
            SELECT position + 1, 'late', 1, project, name, schema, at, actor, data
            FROM events ORDER BY position DESC LIMIT 1
        """)
        with pytest.raises(psycopg.errors.RaiseException, match="was not converted"):
            connection.execute(schema.MIGRATIONS[LAYOUT_1 + 1].text.encode())


def test_an_upgrade_that_was_interrupted_while_it_was_verified_is_verified_again(url: str) -> None:
    seen: list[str] = []

    def stop(what: str, position: int) -> None:
        assert position >= 0
        seen.append(what)
        if "convert" in seen and what != "convert":
            raise Killed

    with pytest.raises(Killed):
        upgrade(url, stop)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("UPDATE ended_jobs SET state = 'failed' WHERE state = 'completed'")
        with pytest.raises(Broken, match="rows differ from the log"):
            upgrade(url)
        connection.execute("UPDATE ended_jobs SET state = 'completed' WHERE state = 'failed'")
    upgrade(url)
    assert upgrade_postgres(url, START, stop) is None
