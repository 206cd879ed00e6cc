"""Three machines with etcd, Patroni and PostgreSQL, and the faults that happen to their leader.

etcd has three members, one on each machine, so that it survives the loss of any machine, too. The
machines and everything on them end with the context.
"""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil
import psycopg

from verification.network import Machine, network
from verification.patroni.configuration import (
    CLIENT_PORT,
    POSTGRES_PORT,
    SCOPE,
    Timing,
    etcd_command,
    write_patroni_file,
)
from verification.postgres_programs import as_ordinary_user, binaries_of, environment

NAMES = ("a", "b", "c")
#: The machine with the bridge, on which the clients run.
CLIENTS = "clients"
#: The version of Debian 12.
POSTGRES_VERSION = 15
WITHIN_S = 240.0
#: A new cluster without a leader after this time gets none.
FIRST_LEADER_S = 60.0
LOOK_S = 0.05
COMPLETE = "the leader has two standbys"
#: The key in etcd with the leader and the standbys that Patroni may promote.
SYNCHRONOUS = f"/service/{SCOPE}/sync"
#: A client gives up a machine that does not respond within these times, and tries the next one.
PARAMETERS = "target_session_attrs=read-write&connect_timeout=2&tcp_user_timeout=5000"


class ClusterFailed(RuntimeError):
    """A program ended, or what was waited for did not happen; the logs follow the first line."""


class NoLeader(ClusterFailed):
    """The same, and at the end of the wait no node accepted writes: Patroni promoted none."""


class Node:
    """One machine: its member of etcd, and Patroni, which starts and stops PostgreSQL."""

    def __init__(self, machine: Machine, directory: Path) -> None:
        self.machine, self.directory = machine, directory
        self.etcd: subprocess.Popen[bytes] | None = None
        self.patroni: subprocess.Popen[bytes] | None = None

    @property
    def name(self) -> str:
        return self.machine.name

    def start_etcd(self, members: list[Machine]) -> None:
        self.etcd = self._start(etcd_command(self.machine, members, self.directory), "etcd")

    def start_patroni(self) -> None:
        """PostgreSQL refuses to run as root, so that Patroni runs as another user."""
        command = [*as_ordinary_user(), _program("patroni"), str(self.directory / "patroni.json")]
        self.patroni = self._start(self.machine.command(command), "patroni")

    def ended(self) -> str:
        """Which program of the node has ended, and how; empty while both run."""
        for name, process in (("etcd", self.etcd), ("patroni", self.patroni)):
            if process is not None and process.poll() is not None:
                return f"{name} on {self.name} ended with {process.returncode}"
        return ""

    def kill(self) -> None:
        """SIGKILL Patroni and all processes of PostgreSQL."""
        assert self.patroni is not None
        self.patroni.send_signal(signal.SIGSTOP)  # or it starts what is being killed
        found = psutil.Process(self.patroni.pid).children(recursive=True)
        for each in [*found, *self._postgres()]:
            try:
                each.kill()
            except psutil.NoSuchProcess:
                continue
        self.patroni.kill()
        self.patroni.wait()

    def _postgres(self) -> list[psutil.Process]:
        """The processes of PostgreSQL, which are no children of Patroni."""
        try:
            pid = int((self.directory / "data" / "postmaster.pid").read_text().split()[0])
            server = psutil.Process(pid)
            server.suspend()
            return [server, *server.children(recursive=True)]
        except (OSError, ValueError, IndexError, psutil.NoSuchProcess):
            return []

    def ask(self, query: str, database: str = "postgres") -> tuple[object, ...] | None:
        """The first row of a query through the Unix socket; None without a response."""
        where = f"host={self.directory} port={POSTGRES_PORT} user=postgres dbname={database}"
        try:
            with psycopg.connect(where, connect_timeout=2, autocommit=True) as connection:
                return connection.execute(query.encode()).fetchone()
        except psycopg.Error:
            return None

    @property
    def is_primary(self) -> bool:
        return self.ask("SELECT pg_is_in_recovery()") == (False,)

    @property
    def is_readable(self) -> bool:
        return self.ask("SELECT 1") == (1,)

    @property
    def standbys(self) -> int:
        """How many standbys this primary has, if one of them is synchronous."""
        query = (
            "SELECT count(*), count(*) FILTER (WHERE sync_state = 'sync') FROM pg_stat_replication"
            " WHERE state = 'streaming' AND application_name = ANY('{a,b,c}')"
        )
        row = self.ask(query)
        return int(str(row[0])) if row and row[1] else 0

    def _start(self, command: list[str], name: str) -> "subprocess.Popen[bytes]":
        with (self.directory / f"{name}.log").open("ab") as log:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment(),
                start_new_session=True,
            )


class PatroniCluster:
    """The nodes, and the machine from which clients reach them."""

    def __init__(self, machines: dict[str, Machine], directory: Path, timing: Timing) -> None:
        self.directory, self.timing = directory, timing
        self.clients = machines[CLIENTS]
        self.nodes = [Node(machines[name], directory / name) for name in NAMES]
        programs = binaries_of(POSTGRES_VERSION).directory
        members = [node.machine for node in self.nodes]
        for node in self.nodes:
            node.directory.mkdir()
            write_patroni_file(node.machine, members, node.directory, programs, timing)

    def url(self, database: str) -> str:
        hosts = ",".join(f"{node.machine.address}:{POSTGRES_PORT}" for node in self.nodes)
        return f"postgresql://postgres@{hosts}/{database}?{PARAMETERS}"

    def start(self) -> None:
        members = [node.machine for node in self.nodes]
        for node in self.nodes:
            node.start_etcd(members)
        for node in self.nodes:
            node.start_patroni()
        leader_due_s = time.monotonic() + FIRST_LEADER_S

        def is_started() -> bool:
            for node in self.nodes:
                if ended := node.ended():
                    raise ClusterFailed(f"{ended}\n{self.logs()}")
            if time.monotonic() > leader_due_s and not self._has_leader():
                raise NoLeader(f"no leader after {FIRST_LEADER_S:.0f} s\n{self.logs()}")
            return self._is_complete()

        self.until(is_started, COMPLETE)

    def leader(self, other_than: Node | None = None) -> Node:
        """The node that accepts writes; waits until there is one."""
        found: list[Node] = []

        def is_found() -> bool:
            found[:] = [node for node in self.nodes if node is not other_than and node.is_primary]
            return bool(found)

        self.until(is_found, "there is a leader")
        return found[0]

    def _has_leader(self) -> bool:
        return any(node.is_primary for node in self.nodes)

    def _is_complete(self) -> bool:
        """Whether the leader has two standbys, one of them synchronous, that can be read.

        A standby that follows but has not reached a consistent state could not be promoted, nor
        could one that etcd does not know as synchronous.
        """
        return (
            any(node.is_primary and node.standbys == 2 for node in self.nodes)
            and all(node.is_readable for node in self.nodes)
            and self._has_successor()
        )

    def _has_successor(self) -> bool:
        """Whether etcd names the leader and a synchronous standby, as Patroni records them."""
        endpoints = ",".join(f"http://{each.machine.address}:{CLIENT_PORT}" for each in self.nodes)
        command = ["etcdctl", "--endpoints", endpoints, "get", "--print-value-only", SYNCHRONOUS]
        known = json.loads(self.run(command) or "{}")
        leaders = [node.name for node in self.nodes if node.is_primary]
        return bool(known.get("sync_standby")) and [known.get("leader")] == leaders

    def create_database(self, name: str) -> None:
        leader = self.leader()

        def is_created() -> bool:
            leader.ask(f"CREATE DATABASE {name}")  # fails if it exists, which is no harm
            return leader.ask("SELECT 1", name) == (1,)

        self.until(is_created, f"the database {name} exists")

    def switch_over(self) -> Node:
        """`patronictl switchover`, which etcd must know a synchronous standby for.

        Returns the leader that there was.
        """
        leader = self.leader()
        configuration = str(leader.directory / "patroni.json")
        command = [_program("patronictl"), "-c", configuration, "switchover", SCOPE]
        command += ["--leader", leader.name, "--force"]
        self.until(lambda: "Successfully switched over" in self.run(command), "switchover")
        return leader

    def kill_leader(self) -> Node:
        leader = self.leader()
        leader.kill()
        return leader

    def cut_leader(self) -> Node:
        """Cut the network of the leader, which continues to run."""
        leader = self.leader()
        leader.machine.connect(up=False)
        return leader

    def repair(self, node: Node) -> None:
        """Connect or start a node again, and wait until it follows the leader."""
        node.machine.connect(up=True)
        if node.patroni is None or node.patroni.poll() is not None:
            node.start_patroni()
        self.until(self._is_complete, COMPLETE)

    def run(self, command: list[str]) -> str:
        """Run a program on the machine of the clients; its output."""
        done = subprocess.run(
            self.clients.command(command),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        if done.returncode:
            raise ClusterFailed(f"{' '.join(command)} failed:\n{done.stdout}")
        return done.stdout

    def until(self, holds: Callable[[], bool], what: str, within_s: float = WITHIN_S) -> None:
        end_s = time.monotonic() + within_s
        while not holds():
            if time.monotonic() > end_s:
                failed = ClusterFailed if self._has_leader() else NoLeader
                raise failed(f"not within {within_s:.0f} s: {what}\n{self.logs()}")
            time.sleep(LOOK_S)

    def logs(self) -> str:
        """The last lines of all logs."""
        found = []
        for node in self.nodes:
            for name in ("etcd", "patroni"):
                found += [f"-- {node.name} {name}", last_lines(node.directory / f"{name}.log")]
        return "\n".join(found)

    def stop(self) -> None:
        for node in self.nodes:
            if node.patroni is not None and node.patroni.poll() is None:
                node.kill()
            if node.etcd is not None:
                node.etcd.kill()
                node.etcd.wait()


def last_lines(log: Path) -> str:
    """The end of the log of a program."""
    lines = log.read_text("utf-8", "replace").splitlines() if log.exists() else []
    return "\n".join(lines[-15:])


def _program(name: str) -> str:
    """A program of the Patroni that is installed with this Python."""
    return str(Path(sys.executable).with_name(name))


@contextmanager
def patroni_cluster(directory: Path, timing: Timing) -> Iterator[PatroniCluster]:
    """A cluster with a leader and two standbys, which ends with the context."""
    with ExitStack() as started:
        machines = started.enter_context(network(NAMES, centre=CLIENTS))
        cluster = PatroniCluster(machines, directory, timing)
        started.callback(cluster.stop)
        cluster.start()
        yield cluster
