"""Checks a PostgreSQL database before it is used: its version, its durability, its encoding.

The operator of the server must correct what they find, so each error says what to do.
"""

import psycopg

from detent.errors import Misconfigured

OLDEST_SERVER = 15

#: Settings that protect confirmed writes, and the values with which a write can be lost.
DURABLE = {
    "fsync": ("off",),
    "full_page_writes": ("off",),
    "synchronous_commit": ("off",),
}

SETTINGS = "SELECT name, setting FROM pg_settings WHERE name = ANY(%s)"


def check_server(connection: psycopg.Connection, where: str, *, unsafe: bool) -> None:
    """Refuse a server that is too old, can lose confirmed writes, or does not use UTF-8."""
    check_version(connection.info.server_version, where)
    names = ["server_encoding", *DURABLE]
    settings: dict[str, str] = dict(connection.execute(SETTINGS, [names]).fetchall())
    if settings["server_encoding"] != "UTF8":
        raise Misconfigured(
            f"{where} has the encoding {settings['server_encoding']}. detent needs UTF8.",
            setting="store",
            hint="Create the database with ENCODING 'UTF8'.",
        )
    if not unsafe:
        check_durability(settings, where)


def check_version(version: int, where: str) -> None:
    if version < OLDEST_SERVER * 10_000:
        raise Misconfigured(
            f"{where} is PostgreSQL {version // 10_000}. detent needs {OLDEST_SERVER} or later.",
            setting="store",
            hint="Upgrade the server, or use another one.",
        )


def check_durability(settings: dict[str, str], where: str) -> None:
    lossy = [name for name, values in DURABLE.items() if settings[name] in values]
    if lossy:
        raise Misconfigured(
            f"{where} runs with {' and '.join(f'{name} = {settings[name]}' for name in lossy)}: "
            "a crash loses what was acknowledged.",
            setting="store",
            hint=f"Set {' and '.join(f'{name} = on' for name in lossy)} on the server. If losing "
            "data is acceptable, add ?durability=unsafe to the URL.",
        )
