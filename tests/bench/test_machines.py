"""Several machines: namespaces that reach each other, PgBouncer before a store, the verdict."""

import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from bench.machines import command, pooler
from bench.machines.installation import until
from bench.machines.scenes import core_of
from bench.workloads.jobs import finish, submit
from detent import feed
from detent.integrity.verify import verify
from tests.ports import free_port
from verification.network import Unable, network
from verification.postgres_server import Server

#: What makes a user into the root of namespaces of its own, in which it may make more of them.
AS_ROOT = (
    *("unshare", "--user", "--map-root-user", "--mount", "--net"),
    *("sh", "-c", 'mount -t tmpfs none /run && exec "$@"', "sh"),
)
#: A machine that listens, says so, and answers one who asks.
LISTENER = """
import socket, sys
with socket.create_server((sys.argv[1], 7000)) as listening:
    print("ready", flush=True)
    listening.accept()[0].sendall(b"here")
"""
CALLER = "import socket, sys; print(socket.create_connection((sys.argv[1], 7000), 5).recv(4))"


def test_machines_reach_each_other_and_are_gone_at_the_end() -> None:
    rooted = () if os.geteuid() == 0 else AS_ROOT
    output = subprocess.check_output([*rooted, sys.executable, "-m", __name__], text=True)
    assert output == "b'here'\nall gone\n"


def two_machines() -> None:
    """Two machines of which one calls the other."""
    with network(["one", "two"]) as machines:
        at = machines["one"].address
        with subprocess.Popen(
            machines["one"].command([sys.executable, "-c", LISTENER, at]),
            stdout=subprocess.PIPE,
            text=True,
        ) as listener:
            assert listener.stdout is not None
            assert listener.stdout.readline() == "ready\n"
            calling = machines["two"].command([sys.executable, "-c", CALLER, at])
            sys.stdout.write(subprocess.check_output(calling, text=True))
        named = [machine.namespace for machine in machines.values()]
    left = subprocess.check_output(["ip", "netns", "list"], text=True)
    sys.stdout.write(left if [name for name in named if name in left] else "all gone\n")


def test_without_root_it_says_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(Unable, match="run it as root"), network(["one"]):
        pass
    assert command.main([]) == 2


def test_without_pgbouncer_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda *_names, **_options: None)
    with pytest.raises(Unable, match="install Debian's pgbouncer"):
        pooler.program()


def test_jobs_live_through_pgbouncer_in_transaction_mode_and_its_servers_restart() -> None:
    directory = Path("/tmp") / f"detent-pooler-{os.getpid()}"
    try:
        with (
            Server.start(directory / "pg") as server,
            pooler.pooler(server, "127.0.0.1", directory / "pooler", free_port()) as before,
        ):
            server.create_database("jobs")
            with core_of(before.url("jobs")) as core:
                submit(core.engine, 50)
                finish(core.engine, 20)
                assert before.clients("jobs") >= 1
                assert_feed_and_waits(core, before.url("jobs"))
                server.restart()
                until(lambda: _works(core), "the store is back", 60)
                assert not verify(core.store).differences
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def assert_feed_and_waits(core: Any, url: str) -> None:
    """The feed is complete, and a reader that waits notices a commit of another process."""
    seen: list[int] = []
    tail = feed.Tail(core.store, lambda batch: seen.extend(each.position for each in batch), 0)
    while tail.step():
        pass
    assert seen == list(range(1, feed.head(core.store) + 1))
    with ThreadPoolExecutor(1) as pool, core_of(url) as other:
        waiting = pool.submit(core.store.wait, tail.cursor, 60.0)
        submit(other.engine, 1)
        assert waiting.result()
    while tail.step():
        pass
    assert seen == list(range(1, feed.head(core.store) + 1))
    finish(core.engine, 1)


def _works(core: Any) -> bool:
    try:
        finish(core.engine, 30)
    except Exception:  # while it is unavailable, with any error
        return False
    return True


# ---- the verdict --------------------------------------------------------------------------------


def found(**scene: int) -> dict[str, Any]:
    clean = {
        "acknowledged": 40,
        "lost": 0,
        "made_twice": 0,
        "differences": 0,
        "longest_gap_s": 1.5,
        "database_away_s": 0.5,
    }
    row = {
        "workers": 1,
        "work": "nothing",
        "jobs_per_s": 100.0,
        "cpu_us_per_job": 3_000.0,
        "server_connections": 7,
    }
    return {
        "machine": {"cores": 2},
        "missing": {"pooler": "there is no PgBouncer"},
        "direct": {"throughput": [{**row, "by_machine": {"worker1": 4}}], "restart": clean},
        "failover": {**clean, **scene},
    }


def test_what_is_lost_or_made_twice_is_a_fault() -> None:
    assert command.faults(found()) == []
    assert command.faults(found(lost=2, made_twice=1)) == [
        "failover: 2 lost",
        "failover: 1 made_twice",
    ]


def test_what_was_found_and_what_was_left_out_are_reported() -> None:
    text = "\n".join(command.lines_of(found()))
    assert (
        "direct: 1 workers, nothing: 100 jobs/s, 3,000 µs CPU per job; 7 server_connections" in text
    )
    assert "pooler: there is no PgBouncer" in text
    assert "failover: 40 acknowledged, 0 lost" in text


if __name__ == "__main__":
    two_machines()
