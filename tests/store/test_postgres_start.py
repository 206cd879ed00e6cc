"""What a PostgreSQL database must fulfil when a store is opened on it, and the errors if not."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg
import pytest

from detent.errors import DetentError, Misconfigured, Unavailable
from detent.store.migration_files import Migration
from detent.store.postgres import PostgresStore, checks, schema
from detent.store.postgres.address import read_address
from detent.store.store_url import open_store
from detent.testing.conformance.work_actions import together
from verification.postgres_server import Cluster, Server


@pytest.fixture
def database(postgres_url: str) -> Iterator[psycopg.Connection]:
    """A database with the present schema."""
    PostgresStore(postgres_url).close()
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        yield connection


def refusal(url: str, kind: type[DetentError] = Misconfigured) -> str:
    """The message and the hint that an operator gets."""
    with pytest.raises(kind) as caught:
        PostgresStore(url)
    return f"{caught.value.message} {caught.value.hint}"


def opens(url: str) -> bool:
    PostgresStore(url).close()
    return True


# ---- the server ------------------------------------------------------------------------------


def test_a_server_that_is_too_old() -> None:
    with pytest.raises(Misconfigured, match=r"is PostgreSQL 14\. detent needs 15 or later"):
        checks.check_version(140_012, "here")
    checks.check_version(150_000, "here")


def test_a_server_that_loses_what_it_acknowledged() -> None:
    lossy = {"fsync": "off", "full_page_writes": "off"}
    with (
        TemporaryDirectory(prefix="detent-pg-") as directory,
        Server.start(Path(directory), settings=lossy) as server,
    ):
        message = refusal(server.url("postgres"))
        assert "fsync = off and full_page_writes = off" in message
        assert "Set fsync = on and full_page_writes = on on the server." in message
        assert opens(f"{server.url('postgres')}?durability=unsafe")


@pytest.mark.parametrize(
    ("value", "safe"), [("off", False), ("local", True), ("remote_apply", True)]
)
def test_commits_that_do_not_wait_for_the_disk(postgres_url: str, value: str, safe: bool) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        name = connection.info.dbname
        connection.execute(f'ALTER DATABASE "{name}" SET synchronous_commit = {value}'.encode())
    if safe:
        assert opens(postgres_url)
    else:
        assert "synchronous_commit = off" in refusal(postgres_url)
        assert opens(f"{postgres_url}?durability=unsafe")


def test_a_database_that_cannot_hold_every_text(postgres_server: Cluster) -> None:
    with psycopg.connect(postgres_server.url("postgres"), autocommit=True) as connection:
        connection.execute("CREATE DATABASE ascii ENCODING 'SQL_ASCII' TEMPLATE template0")
    try:
        assert "ENCODING 'UTF8'" in refusal(postgres_server.url("ascii"))
    finally:
        postgres_server.drop_database("ascii")


def test_a_server_that_is_not_there() -> None:
    message = refusal("postgresql://me:secret@127.0.0.1:1/nothing", Unavailable)
    assert "postgresql://me@127.0.0.1:1/nothing: the database cannot be reached." in message
    assert "Connection refused" in message
    assert "secret" not in message


# ---- the URL ---------------------------------------------------------------------------------


def test_the_parameters_of_a_url() -> None:
    address = read_address("postgresql://me:x@a:1,b:2/d?prepare=no&sslmode=disable&notifier=no")
    assert address.shown == "postgresql://me@a:1,b:2/d"
    assert (address.unsafe, address.prepare, address.notifier) == (False, False, False)
    for part in ("sslmode=disable", "host=a,b", "port=1,2", "password=x", "connect_timeout=5"):
        assert part in address.conninfo
    assert address.max_hold_s == 60
    assert read_address("postgresql://h/d?max_hold_s=2.5").max_hold_s == 2.5
    assert read_address("postgresql://h/d?connect_timeout=9").conninfo.count("connect_timeout") == 1


def test_the_older_name_of_the_notifier_parameter_is_accepted() -> None:
    off, on = (read_address(f"postgresql://h/d?doorbell={value}") for value in ("no", "yes"))
    assert (off.notifier, on.notifier) == (False, True)


@pytest.mark.parametrize(
    "url", ["postgresql://h/d?prepare=maybe", "postgresql://h/d?nonsense=1", "postgresql://[h/d"]
)
def test_a_url_that_says_nothing(url: str) -> None:
    assert "A URL is like postgresql://" in refusal(url)


def test_a_url_opens_this_store(empty_postgres_url: str) -> None:
    store = open_store(empty_postgres_url)
    assert isinstance(store, PostgresStore)
    store.close()


# ---- migrations ------------------------------------------------------------------------------


def test_six_concurrent_processes_apply_each_migration_once(empty_postgres_url: str) -> None:
    """They share no memory: what keeps them apart is a lock of the server's."""
    assert together(*[lambda: opens(empty_postgres_url)] * 6) == [True] * 6
    with psycopg.connect(empty_postgres_url) as connection:
        rows = connection.execute("SELECT number, digest FROM schema_migrations").fetchall()
    assert rows == [(each.number, each.digest) for each in schema.MIGRATIONS]


def test_a_newer_schema_is_refused(postgres_url: str, database: psycopg.Connection) -> None:
    database.execute("INSERT INTO schema_migrations VALUES (99, 'future', 'd', 1)")
    message = refusal(postgres_url)
    assert "has schema 99 (future), newer than" in message
    assert "Upgrade detent" in message


def test_another_migration_is_refused(postgres_url: str, database: psycopg.Connection) -> None:
    database.execute("UPDATE schema_migrations SET digest = 'other'")
    assert "Migration 0001 (first) of " in refusal(postgres_url)


def test_a_migration_that_fails_leaves_nothing_behind(
    postgres_url: str, database: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = Migration(2, "bad", "CREATE TABLE half (x int); CREATE TABLE queue (x int);", "d")
    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, bad))
    with pytest.raises(DetentError, match='"queue" already exists'):
        PostgresStore(postgres_url)
    assert database.execute("SELECT to_regclass('half')").fetchone() == (None,)
    monkeypatch.undo()
    assert opens(postgres_url)


def test_a_role_that_may_not_change_the_schema(empty_postgres_url: str) -> None:
    with psycopg.connect(empty_postgres_url, autocommit=True) as connection:
        role = f"guest_{connection.info.backend_pid}"
        connection.execute(f"CREATE ROLE {role}".encode())
    try:
        message = refusal(f"{empty_postgres_url}?options=-c%20role%3D{role}")
        assert "this role may not change it" in message
        assert "as the owner of its tables" in message
    finally:
        with psycopg.connect(empty_postgres_url, autocommit=True) as connection:
            connection.execute(f"DROP ROLE {role}".encode())


@pytest.mark.parametrize("given", ["", "soon", "0", "nan", "100000"])
def test_a_time_for_locks_that_is_none(given: str) -> None:
    with pytest.raises(Misconfigured, match="max_hold_s in the store's URL must be a number"):
        read_address(f"postgresql://h/d?max_hold_s={given}")
