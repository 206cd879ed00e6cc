"""The doctor on PostgreSQL: each check of the server, the URL and the replica finds its fault."""

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from detent.cli import postgres_checks
from detent.cli.doctor_checks import check_installation
from detent.cli.postgres_checks import check_postgres
from detent.errors import Unavailable
from detent.ids import new_id
from detent.settings import Settings
from detent.store.postgres import PostgresStore
from tests.ports import free_port
from verification.memory_directory import directory_in_memory
from verification.postgres_server import Pair, primary_with_standby


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    with (
        directory_in_memory("detent-doctor-") as directory,
        primary_with_standby(directory, settings={"max_connections": "100"}) as made,
    ):
        yield made


@pytest.fixture
def name(pair: Pair) -> str:
    name = f"doctor_{new_id()}"
    PostgresStore(pair.primary.create_database(name)).close()
    return name


def settings(pair: Pair, name: str, **given: str) -> Settings:
    return Settings(**{"store_url": pair.url(name), "store_data_dir": "/nowhere", **given})  # type: ignore[arg-type]


def ills(given: Settings) -> list[tuple[str, str]]:
    wrong = [each for each in check_postgres(given) if not each.well]
    assert all(each.remedy for each in wrong)
    return [(each.name, each.what) for each in wrong]


def alter(pair: Pair, statement: str, name: str = "postgres") -> None:
    with psycopg.connect(pair.primary.url(name), autocommit=True) as connection:
        connection.execute(statement.encode())
        connection.execute("SELECT pg_reload_conf()")


def test_a_server_with_a_synchronous_standby_is_well(pair: Pair, name: str) -> None:
    replica = pair.standby.url(name)
    alter_standby(pair, "on")
    found = check_postgres(settings(pair, name, store_replica_url=replica))
    assert [(each.name, each.well) for each in found] == [
        ("durability", True),
        ("standbys", True),
        ("connections", True),
        ("replica", True),
    ]


def alter_standby(pair: Pair, feedback: str) -> None:
    with psycopg.connect(pair.standby.url("postgres"), autocommit=True) as connection:
        connection.execute(f"ALTER SYSTEM SET hot_standby_feedback = {feedback}".encode())
        connection.execute("SELECT pg_reload_conf()")


def test_settings_that_lose_work(pair: Pair, name: str) -> None:
    alter(pair, f"ALTER DATABASE {name} SET synchronous_commit = 'off'")
    wrong = ills(settings(pair, name, store_url=f"{pair.url(name)}&durability=unsafe"))
    assert [each for each, _ in wrong] == ["durability", "standbys"]
    assert "synchronous_commit = off" in wrong[0][1]


def test_commits_that_wait_for_no_standby(pair: Pair, name: str) -> None:
    alter(pair, f"ALTER DATABASE {name} SET synchronous_commit = 'local'")
    ((which, what),) = ills(settings(pair, name))
    assert which == "standbys"
    assert "synchronous_commit = local waits for no standby" in what


def test_standbys_of_which_none_is_synchronous(pair: Pair, name: str) -> None:
    alter(pair, "ALTER SYSTEM SET synchronous_standby_names = ''")
    try:
        ((which, what),) = ills(settings(pair, name))
    finally:
        alter(pair, "ALTER SYSTEM SET synchronous_standby_names = 'standby'")
    assert (which, what) == (
        "standbys",
        "1 connected, none synchronous: a failover can lose acknowledged work",
    )


def test_a_url_that_does_not_lead_to_the_new_primary(pair: Pair, name: str) -> None:
    alone = pair.primary.url(name)
    ((which, what),) = ills(settings(pair, name, store_url=alone))
    assert which == "failover"
    assert what.endswith("store.url names only 127.0.0.1")
    assert not ills(settings(pair, name, store_url=f"{alone}?target_session_attrs=read-write"))
    several = pair.url(name).partition("?")[0]
    ((which, what),) = ills(settings(pair, name, store_url=several))
    assert (which, what) == (
        "failover",
        "store.url names several hosts without target_session_attrs=read-write",
    )


def test_a_statement_timeout(pair: Pair, name: str) -> None:
    alter(pair, f"ALTER DATABASE {name} SET statement_timeout = '2s'")
    ((which, what),) = ills(settings(pair, name))
    assert which == "timeouts"
    assert what.startswith("statement_timeout is 2000 ms")


def test_too_few_connections_for_the_workers(
    pair: Pair, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_checks, "_workers", lambda _: 4)
    ((which, what),) = ills(settings(pair, name))
    assert (which, what) == (
        "connections",
        "97 for clients; 4 workers and a gateway use up to 130",
    )


def test_a_replica_that_cancels_reads_is_paused_or_is_none(pair: Pair, name: str) -> None:
    standby = pair.standby.url(name)
    alter_standby(pair, "off")
    given = Settings(
        store_url=pair.url(name), store_replica_url=standby, store_replica_max_lag_ms=300
    )
    assert ills(given) == [
        ("replica", "hot_standby_feedback is off: the replica cancels long reads")
    ]
    alter_standby(pair, "on")
    with psycopg.connect(standby, autocommit=True) as connection:
        connection.execute("SELECT pg_wal_replay_pause()")
        alter(pair, f"COMMENT ON DATABASE {name} IS 'written after the pause'")
        try:
            assert ills(given) == [
                ("replica", "more than 0.3 s behind: the primary is read instead")
            ]
        finally:
            connection.execute("SELECT pg_wal_replay_resume()")
    primary = settings(pair, name, store_replica_url=pair.primary.url(name))
    ((which, what),) = ills(primary)
    assert (which, what.endswith("is no standby")) == ("replica", True)
    nowhere = f"postgresql://127.0.0.1:{free_port()}/x?connect_timeout=1"
    ((which, what),) = ills(settings(pair, name, store_replica_url=nowhere))
    assert which == "replica"
    assert "cannot be read, so the primary is" in what


def test_a_server_that_is_down(tmp_path: Path) -> None:
    url = f"postgresql://127.0.0.1:{free_port()}/x?connect_timeout=1"
    with pytest.raises(Unavailable, match="Connection refused"):
        check_postgres(Settings(store_url=url, store_data_dir=str(tmp_path)))
    found = check_installation(Settings(store_url=url, store_data_dir=str(tmp_path)))
    (database,) = (each for each in found if each.name == "database")
    assert "the database cannot be reached" in database.what
    assert database.remedy == "Start the database server, or correct store.url."
