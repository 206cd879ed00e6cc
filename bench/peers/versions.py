"""The versions of what the tools need: SQLite, PostgreSQL, Redis, Node."""

import sqlite3
import subprocess
from collections.abc import Callable

import apsw

from bench.peers import stores
from bench.peers.environments import Missing, node


def versions() -> dict[str, str]:
    """By name of the program."""
    found = {"SQLite": f"{apsw.sqlite_lib_version()} (of the peers: {sqlite3.sqlite_version})"}
    found["PostgreSQL"] = _or_missing(_postgres)
    found["Redis"] = _or_missing(stores.redis_version)
    found["Node"] = _or_missing(_node)
    return found


def _postgres() -> str:
    import psycopg

    from bench.workloads.jobs_postgres import database

    with psycopg.connect(database()) as connection:
        return str(connection.info.parameter_status("server_version"))


def _node() -> str:
    output = subprocess.run([str(node()), "--version"], capture_output=True, text=True, check=True)
    return output.stdout.strip()


def _or_missing(ask: Callable[[], str]) -> str:
    try:
        return ask()
    except Missing as reason:
        return f"none ({reason})"
