"""A PostgreSQL server for tests that comes up by itself and ends with the process that started it.

`DETENT_TEST_PG` names a running server to use instead. Touches one directory, one loopback port
and the processes it starts.
"""

import contextlib
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self
from urllib.parse import quote, urlsplit

import psutil
import psycopg
from psycopg import sql

from detent.errors import Misconfigured
from verification import postgres_programs as programs
from verification.postgres_programs import VARIABLE, Binaries, PostgresFailed, find_binaries

__all__ = [
    "VARIABLE",
    "Binaries",
    "Cluster",
    "Pair",
    "PostgresFailed",
    "Server",
    "cluster_for_tests",
    "find_binaries",
    "primary_with_standby",
]

HOST = "127.0.0.1"
USER = "postgres"

# Below the range from which the kernel takes ports for outgoing connections: while a killed
# server is down, no connection can be given its port.
PORTS = range(20_000, 32_000)
PORT_ATTEMPTS = 20
SOCKET_PATH_BYTES = 107

START_SECONDS = 60.0
STOP_SECONDS = 60.0
POLL_SECONDS = 0.005

# Durability stays on because tests check it; only the memory is small. A process of detent opens up
# to 24 connections, and fault injection runs about 20 processes at a time on one server: with the
# server's default of 100 connections, some would be refused.
SETTINGS: Mapping[str, str] = {
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "shared_buffers": "32MB",
    "max_connections": "600",
    "timezone": "UTC",
}

StopMode = Literal["fast", "immediate"]
STOP_SIGNALS: Mapping[StopMode, signal.Signals] = {
    "fast": signal.SIGINT,
    "immediate": signal.SIGQUIT,
}

# `read` returns when the process at the other end of the pipe is gone, however it went. A
# parent-death signal would come already when the thread that started the server ends.
WATCH = 'read _; kill -QUIT "$1"'


class _PortTaken(PostgresFailed):
    pass


class Cluster:
    """A running server in which databases are created and dropped.

    Leaving it as a context manager ends what was started for it, here one connection.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        #: Kept open: a test that has a database of its own needs it twice.
        self._connection: psycopg.Connection | None = None

    def url(self, dbname: str) -> str:
        return urlsplit(self._url)._replace(path="/" + quote(dbname, safe="")).geturl()

    def create_database(self, name: str, *, template: str = "template0") -> str:
        """Create database `name` as a copy of `template`; return its URL.

        The files are copied, which takes half the time of the default, a copy through the log.
        """
        statement = sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY file_copy")
        self._administer(statement.format(sql.Identifier(name), sql.Identifier(template)))
        return self.url(name)

    def drop_database(self, name: str) -> None:
        """Drop database `name`, ending whatever is still connected to it."""
        statement = sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)")
        self._administer(statement.format(sql.Identifier(name)))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._disconnect()

    def _administer(self, statement: sql.SQL | sql.Composed) -> None:
        if self._connection is None:
            # CREATE DATABASE and ALTER SYSTEM are refused inside a transaction.
            self._connection = psycopg.connect(self._url, autocommit=True)
        self._connection.execute(statement)

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None


class Server(Cluster):
    """A server of our own: one directory, one loopback port, one Unix socket, no password.

    It survives `kill` and `restart` with the same data on the same port.
    """

    def __init__(
        self, directory: Path, settings: Mapping[str, str], port: int, binaries: Binaries
    ) -> None:
        super().__init__(f"postgresql://{USER}@{HOST}:{port}/postgres")
        self.directory = directory
        self.port = port
        self.binaries = binaries
        self._settings = {**SETTINGS, **settings}
        self._postmaster: subprocess.Popen[bytes] | None = None
        self._watcher: subprocess.Popen[bytes] | None = None

    @classmethod
    def start(
        cls,
        directory: Path,
        *,
        settings: Mapping[str, str] | None = None,
        port: int | None = None,
        binaries: Binaries | None = None,
    ) -> Self:
        """Start a server on `directory`, which is filled first if it holds none.

        Without `port` it takes a free one. The server's own bind decides what is free, so two
        servers that start at the same time cannot get the same.
        """
        directory = directory.resolve()
        binaries = binaries or programs.newest_binaries()
        _check_socket_path(directory)
        _fill(directory, binaries)
        for _ in range(PORT_ATTEMPTS if port is None else 1):
            server = cls(directory, settings or {}, port or random.choice(PORTS), binaries)
            with contextlib.suppress(_PortTaken):
                server._launch()
                return server
        raise PostgresFailed(f"No free port for PostgreSQL on {HOST}: tried {port or PORTS}.")

    @property
    def pid(self) -> int:
        return self._running().pid

    @property
    def log(self) -> Path:
        return self.directory / "log"

    def socket_url(self, dbname: str) -> str:
        """Like `url`, through the Unix socket, where a round trip costs less."""
        host = quote(str(self.directory), safe="")
        return f"postgresql://{USER}@/{quote(dbname, safe='')}?host={host}&port={self.port}"

    def stop(self, mode: StopMode = "fast") -> None:
        """Stop the server if it runs; `immediate` leaves recovery to the next start."""
        if self._postmaster is None:
            return
        self._postmaster.send_signal(STOP_SIGNALS[mode])
        try:
            self._postmaster.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired as error:
            self.kill()
            raise PostgresFailed(f"It did not stop and was killed; see {self.log}.") from error
        self._forget()

    def kill(self) -> None:
        """SIGKILL the whole server; return when its port, sockets and memory are free."""
        postmaster = self._running()
        postmaster.send_signal(signal.SIGSTOP)  # or it starts a backend after they were listed
        backends = psutil.Process(postmaster.pid).children(recursive=True)
        postmaster.kill()
        for backend in backends:
            with contextlib.suppress(psutil.NoSuchProcess):
                backend.kill()
        postmaster.wait()
        self._forget()
        _wait_until(lambda: all(map(_is_gone, backends)), STOP_SECONDS, "its backends end")

    def restart(self) -> None:
        """Start again with the same data on the same port, after a clean stop if it runs."""
        self.stop()
        self._launch()

    def promote(self) -> None:
        """Make this standby a primary; return when it accepts writes."""
        self._administer(sql.SQL("SELECT pg_promote()"))

    def __exit__(self, *error: object) -> None:
        self.stop("immediate")

    def _running(self) -> subprocess.Popen[bytes]:
        if self._postmaster is None:
            raise PostgresFailed("This server is stopped; restart() starts it again.")
        return self._postmaster

    def _forget(self) -> None:
        self._disconnect()
        if self._watcher is not None:
            self._watcher.kill()
            self._watcher.communicate()
        self._postmaster = self._watcher = None

    def _launch(self) -> None:
        logged_bytes = self.log.stat().st_size if self.log.exists() else 0
        self._postmaster = self._spawn()
        self._watcher = _watch(self._postmaster.pid)
        try:
            _wait_until(self._is_ready_or_ended, START_SECONDS, "PostgreSQL accepts connections")
        except PostgresFailed:
            self.kill()
            raise
        if self._postmaster.poll() is not None:
            self._forget()
            raise _start_failure(self.log.read_bytes()[logged_bytes:].decode(errors="replace"))

    def _spawn(self) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            return subprocess.Popen(
                [*programs.as_ordinary_user(), *self._command()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=programs.environment(),
                start_new_session=True,  # Ctrl-C is for the tests, which then stop the server
            )

    def _command(self) -> list[str]:
        settings = {
            "listen_addresses": HOST,
            **self._settings,
            "port": str(self.port),
            "unix_socket_directories": f'"{self.directory}"',
        }
        flags = [f"--{name}={value}" for name, value in settings.items()]
        return [self.binaries.path("postgres"), "-D", str(self.directory / "data"), *flags]

    def _is_ready_or_ended(self) -> bool:
        # The server writes its state into its pid file. Asking the port could reach another one.
        if self._running().poll() is not None:
            return True
        try:
            lines = (self.directory / "data" / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return False
        return lines[:1] == [str(self.pid)] and [line.strip() for line in lines[7:8]] == ["ready"]


def cluster_for_tests(directory: Path) -> Cluster:
    """The server that `DETENT_TEST_PG` names, or without it one of our own in `directory`."""
    given = os.environ.get(VARIABLE)
    return Cluster(given) if given else Server.start(directory)


@dataclass(frozen=True, slots=True)
class Pair:
    """A primary and its synchronous standby: what is acknowledged is on the disks of both."""

    primary: Server
    standby: Server

    def url(self, dbname: str) -> str:
        """A URL that finds whichever of the two accepts writes."""
        hosts = f"{HOST}:{self.primary.port},{HOST}:{self.standby.port}"
        path = quote(dbname, safe="")
        return f"postgresql://{USER}@{hosts}/{path}?target_session_attrs=read-write"

    def fail_over(self) -> None:
        """Kill the primary and promote the standby."""
        self.primary.kill()
        self.standby.promote()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.primary.stop("immediate")
        self.standby.stop("immediate")


def primary_with_standby(directory: Path, *, settings: Mapping[str, str] | None = None) -> Pair:
    """Start a primary and a synchronous standby under `directory`."""
    with contextlib.ExitStack() as started:
        primary = started.enter_context(Server.start(directory / "primary", settings=settings))
        _copy(primary, directory / "standby")
        standby = started.enter_context(Server.start(directory / "standby", settings=settings))
        # Set after the copy was taken: a promoted standby must not wait for one of its own.
        primary._administer(sql.SQL("ALTER SYSTEM SET synchronous_standby_names = 'standby'"))
        primary._administer(sql.SQL("SELECT pg_reload_conf()"))
        _wait_until(lambda: _is_followed(primary), START_SECONDS, "the standby is in step")
        started.pop_all()
    return Pair(primary, standby)


def _copy(primary: Server, directory: Path) -> None:
    directory.mkdir(parents=True)
    programs.run(
        primary.binaries.path("pg_basebackup"),
        f"--dbname={primary.socket_url('postgres')}&application_name=standby",
        f"--pgdata={directory / 'data'}",
        *("--checkpoint=fast", "--no-sync"),
        *("--write-recovery-conf", "--create-slot", "--slot=standby"),
    )


def _is_followed(primary: Server) -> bool:
    with psycopg.connect(primary.url("postgres")) as connection:
        query = "SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'"
        return connection.execute(query).fetchone() is not None


def _check_socket_path(directory: Path) -> None:
    if len(os.fsencode(directory / f".s.PGSQL.{PORTS[-1]}")) > SOCKET_PATH_BYTES:
        raise Misconfigured(
            f"{directory} is too long a path for a Unix socket.",
            setting="directory",
            hint="Choose a directory with a shorter path.",
        )


def _fill(directory: Path, binaries: Binaries) -> None:
    data = directory / "data"
    if data.exists():
        return
    directory.mkdir(parents=True, exist_ok=True)
    programs.run(
        binaries.path("initdb"),
        *(f"--pgdata={data}", f"--username={USER}", "--auth=trust"),
        *("--encoding=UTF8", "--no-locale", "--no-sync"),
    )


def _watch(pid: int) -> subprocess.Popen[bytes]:
    command = ["sh", "-c", WATCH, "sh", str(pid)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)


def _start_failure(output: str) -> Exception:
    if "could not bind" in output:
        return _PortTaken(output)
    return programs.failure("PostgreSQL did not start", output)


def _is_gone(process: psutil.Process) -> bool:
    # A zombie holds nothing any more, and stays for long where no process collects orphans.
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def _wait_until(condition: Callable[[], bool], seconds: float, what: str) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise PostgresFailed(f"Waited {seconds:.0f} s in vain until {what}.")
        time.sleep(POLL_SECONDS)
