"""Checks of `detent doctor` on a PostgreSQL server: what a failover, a pool and a replica need.

They read settings of the server and of the URL, and change nothing.
"""

import time
from collections.abc import Iterator, Mapping
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict

from detent.cli.finding import Finding
from detent.cli.processes_using_data import live_workers
from detent.errors import Unavailable
from detent.settings import Settings
from detent.store.postgres.address import MAX_HOLD_S, read_address
from detent.store.postgres.checks import DURABLE
from detent.store.postgres.connection import MAX_CONNECTIONS
from detent.store.store_url import open_store

#: Connections of one process: its pool, its notifier, and one that ends silent sessions.
PER_PROCESS = MAX_CONNECTIONS + 2
#: Values of synchronous_commit that do not wait for a standby.
LOCAL = ("off", "local")
#: Values of target_session_attrs with which a client finds the primary.
PRIMARY = ("read-write", "primary")
#: How often the position of the replica is read.
LOOK_S = 0.05

READ = """
SELECT jsonb_object_agg(name, setting) || jsonb_build_object(
    'standbys', (SELECT count(*) FROM pg_stat_replication),
    'in_recovery', pg_is_in_recovery(),
    'server', host(inet_server_addr()) || ':' || inet_server_port()
)
FROM pg_settings WHERE name = ANY(%s)
"""
NAMES = [
    *DURABLE,
    *("synchronous_standby_names", "statement_timeout", "transaction_timeout"),
    *("max_connections", "superuser_reserved_connections", "hot_standby_feedback"),
]

Facts = Mapping[str, Any]


def check_postgres(settings: Settings) -> list[Finding]:
    """All checks of the primary, and those of the replica if one is set."""
    address = read_address(settings.url)
    try:
        with psycopg.connect(address.conninfo, autocommit=True) as connection:
            facts = _facts(connection)
            given = conninfo_to_dict(address.conninfo)
            direct = facts["server"] == f"{connection.info.hostaddr}:{connection.info.port}"
            found = [
                *durability(facts),
                *standbys(facts),
                *hosts(facts, given, direct=direct),
                *timeouts(facts),
                *(connections(facts, _workers(settings)) if direct else ()),
            ]
            if settings.store_replica_url:
                found += replica(connection, settings)
    except psycopg.Error as error:
        raise Unavailable(f"{address.shown}: {error}", retry_after_s=1) from error
    return found


def _facts(connection: psycopg.Connection) -> Facts:
    row = connection.execute(READ, [NAMES]).fetchone()
    assert row is not None
    facts: Facts = row[0]
    return facts


def _workers(settings: Settings) -> int:
    store = open_store(settings.url)
    try:
        with store.read() as view:
            return len(live_workers(view, settings))
    finally:
        store.close()


# ---- the primary -------------------------------------------------------------------------------


def durability(facts: Facts) -> Iterator[Finding]:
    """Settings with which a crash loses work; only `durability=unsafe` lets detent start then."""
    lossy = [f"{name} = {facts[name]}" for name, bad in DURABLE.items() if facts[name] in bad]
    what = ", ".join(lossy) if lossy else "fsync, full_page_writes and synchronous_commit are on"
    remedy = "Set them to on, and remove durability=unsafe from store.url."
    yield Finding("durability", not lossy, what, remedy)


def standbys(facts: Facts) -> Iterator[Finding]:
    """Check that a commit waits for a standby, if there are standbys that could be promoted."""
    count = facts["standbys"]
    if not count:
        yield Finding("standbys", True, "the server has none")
        return
    if not facts["synchronous_standby_names"]:
        what = f"{count} connected, none synchronous: a failover can lose acknowledged work"
        remedy = "Set synchronous_standby_names, with Patroni synchronous_mode: true."
        yield Finding("standbys", False, what, remedy)
    elif facts["synchronous_commit"] in LOCAL:
        what = (
            f"synchronous_commit = {facts['synchronous_commit']} waits for no standby: a failover "
            "can lose acknowledged work"
        )
        yield Finding(
            "standbys", False, what, "Set synchronous_commit = on for the role of detent."
        )
    else:
        yield Finding("standbys", True, f"{count} connected, commits wait for a synchronous one")


def hosts(facts: Facts, given: Mapping[str, Any], *, direct: bool) -> Iterator[Finding]:
    """Check that the URL leads to the new primary after a failover."""
    named = str(given.get("host") or "").split(",")
    finds_primary = given.get("target_session_attrs") in PRIMARY
    if not facts["standbys"] or not direct or finds_primary:
        return
    if len(named) > 1:
        what = "store.url names several hosts without target_session_attrs=read-write"
        yield Finding("failover", False, what, "Add target_session_attrs=read-write to store.url.")
    else:
        what = f"the server has standbys, but store.url names only {named[0] or 'the local socket'}"
        remedy = (
            "Name all hosts, as in postgresql://user@host1,host2/detent?target_session_attrs="
            "read-write. For a virtual address, add target_session_attrs=read-write to it."
        )
        yield Finding("failover", False, what, remedy)


def timeouts(facts: Facts) -> Iterator[Finding]:
    """Check timeouts of the role or the database that cancel long reads and maintenance."""
    least_ms = round(MAX_HOLD_S * 1_000)
    for name in ("statement_timeout", "transaction_timeout"):
        limit_ms = int(facts.get(name, 0))
        if 0 < limit_ms < least_ms:
            what = f"{name} is {limit_ms} ms: it cancels long reads, detent verify and upgrades"
            remedy = f"Remove {name} for the role of detent, which limits its own writes."
            yield Finding("timeouts", False, what, remedy)


def connections(facts: Facts, workers: int) -> Iterator[Finding]:
    """Check that the server has connections for all workers and a gateway."""
    able = int(facts["max_connections"]) - int(facts["superuser_reserved_connections"])
    needed = PER_PROCESS * (workers + 1)
    what = f"{able} for clients; {workers} workers and a gateway use up to {needed}"
    remedy = f"Set max_connections to {needed + 10} or more, or use PgBouncer."
    yield Finding("connections", able >= needed, what, remedy)


# ---- the replica -------------------------------------------------------------------------------


def replica(primary: psycopg.Connection, settings: Settings) -> Iterator[Finding]:
    """Check that the replica is a standby that follows the primary and permits long reads."""
    address = read_address(settings.store_replica_url)
    try:
        with psycopg.connect(address.conninfo, autocommit=True) as connection:
            facts = _facts(connection)
            if not facts["in_recovery"]:
                what = f"{address.shown} is no standby"
                remedy = "Set store.replica_url to a standby of store.url, or remove it."
                yield Finding("replica", False, what, remedy)
                return
            yield _lag(primary, connection, settings.store_replica_max_lag_ms / 1_000)
            if facts["hot_standby_feedback"] == "off":
                what = "hot_standby_feedback is off: the replica cancels long reads"
                yield Finding(
                    "replica", False, what, "Set hot_standby_feedback = on on the replica."
                )
    except psycopg.Error as error:
        what = f"{address.shown} cannot be read, so the primary is: {' '.join(str(error).split())}"
        yield Finding("replica", False, what, "Start the replica, or correct store.replica_url.")


def _lag(primary: psycopg.Connection, standby: psycopg.Connection, max_s: float) -> Finding:
    """Whether the replica replays what the primary has written so far, in the permitted time."""
    row = primary.execute("SELECT pg_current_wal_lsn()::text").fetchone()
    assert row is not None
    begun_s = time.monotonic()
    reached = "SELECT coalesce(pg_last_wal_replay_lsn() >= %s::pg_lsn, false)"
    while standby.execute(reached, row).fetchone() != (True,):
        if time.monotonic() - begun_s > max_s:
            what = f"more than {max_s:g} s behind: the primary is read instead"
            remedy = "Check the replication, for example pg_stat_wal_receiver on the replica."
            return Finding("replica", False, what, remedy)
        time.sleep(LOOK_S)
    took_ms = round(1_000 * (time.monotonic() - begun_s))
    return Finding("replica", True, f"had the log of the primary after {took_ms} ms")
