"""PgBouncer in transaction mode before a PostgreSQL server, as Debian's package brings it."""

import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import psycopg

from verification.network import Unable
from verification.postgres_programs import as_ordinary_user
from verification.postgres_server import Server

PORT = 6432
START_S = 60.0
#: Connections to the server for one database, however many clients there are.
POOL = 20
#: After a refused login PgBouncer asks the server again after this many seconds. Its default of 15
#: would be all that a restart shows. https://www.pgbouncer.org/config.html#server_login_retry
RETRY_S = 1
#: The first version that knows which statements each client has prepared.
PREPARES = (1, 21)
CONFIGURATION = """\
[databases]
* = host=127.0.0.1 port={server} user=postgres
[pgbouncer]
listen_addr = {address}
listen_port = {port}
unix_socket_dir =
auth_type = trust
auth_file = {place}/users
admin_users = postgres
pool_mode = transaction
max_client_conn = 500
default_pool_size = {pool}
server_login_retry = {retry}
logfile = {place}/log
"""


class Pooler(NamedTuple):
    """A pooler that is up: `parameters` is what an address through it must say."""

    address: str
    version: tuple[int, ...]
    port: int = PORT

    @property
    def parameters(self) -> str:
        """LISTEN needs a session; prepared statements need a pooler that follows them."""
        return "notifier=no" if self.version >= PREPARES else "notifier=no&prepare=no"

    def url(self, database: str) -> str:
        return f"postgresql://postgres@{self.address}:{self.port}/{database}?{self.parameters}"

    def clients(self, database: str) -> int:
        """How many connections it has from clients."""
        console = f"postgresql://postgres@{self.address}:{self.port}/pgbouncer"
        with psycopg.connect(console, autocommit=True, cursor_factory=psycopg.ClientCursor) as line:
            rows = line.execute("SHOW CLIENTS").fetchall()
        return sum(database in row for row in rows)


def program() -> str:
    found = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
    if found is None:
        raise Unable("there is no PgBouncer: install Debian's pgbouncer")
    return found


def version() -> tuple[int, ...]:
    output = subprocess.run([program(), "--version"], capture_output=True, text=True, check=True)
    found = re.search(r"(\d+)\.(\d+)\.(\d+)", output.stdout)
    assert found is not None, output.stdout
    return tuple(map(int, found.groups()))


@contextmanager
def pooler(server: Server, address: str, place: Path, port: int = PORT) -> Iterator[Pooler]:
    """PgBouncer before this server until the end."""
    place.mkdir()
    known = version()
    text = CONFIGURATION.format(
        server=server.port, address=address, port=port, place=place, pool=POOL, retry=RETRY_S
    )
    if known >= PREPARES:
        text += "max_prepared_statements = 200\n"
    (place / "ini").write_text(text, encoding="utf-8")
    (place / "users").write_text('"postgres" ""\n', encoding="utf-8")
    command = [*as_ordinary_user(), program(), "-q", str(place / "ini")]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            made = Pooler(address, known, port)
            _await(made, process, place / "log")
            yield made
        finally:
            process.kill()


def _await(made: Pooler, process: "subprocess.Popen[bytes]", log: Path) -> None:
    until_s = time.monotonic() + START_S
    while time.monotonic() < until_s and process.poll() is None:
        try:
            psycopg.connect(made.url("postgres").partition("?")[0]).close()
            return
        except psycopg.OperationalError:
            time.sleep(0.02)
    raise Unable(f"PgBouncer did not start: {log.read_text('utf-8') if log.exists() else ''}")
