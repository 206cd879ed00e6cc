"""`detent up` when its store is lost, full or late, beside another one, and when it stops."""

import json
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.e2e.installation import DEADLINE_S, Installation, wait_until
from verification.postgres_server import Server

TASK = {"source": "api", "intent": "runQA", "payload": {"project": "p"}}


@pytest.fixture
def detent(tmp_path: Path) -> Iterator[Installation]:
    made = Installation(tmp_path)
    yield made
    made.stop()


def ready(detent: Installation) -> tuple[int, Any]:
    answer = httpx2.get(f"{detent.url}/ready", timeout=DEADLINE_S)
    return answer.status_code, answer.json()


def is_ready(detent: Installation) -> bool:
    return ready(detent)[0] == 200


def findings(detent: Installation) -> dict[str, Any]:
    found = json.loads(detent.run("doctor", "--json").stdout)["findings"]
    return {each["name"]: each for each in found if not each["well"]}


def test_a_database_that_is_deleted_is_reported_everywhere(detent: Installation) -> None:
    detent.start()
    assert is_ready(detent)
    (detent.data / "detent.db").unlink()
    answer = detent.post("/add", TASK)
    assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
    assert "was deleted or replaced" in answer.json()["detail"]
    wait_until(lambda: not is_ready(detent), "it is not ready")
    assert "does not accept writes" in ready(detent)[1]["detail"]
    found = findings(detent)
    assert "does not accept writes" in found["gateway"]["what"]
    assert "was deleted or replaced" in (detent.home / "up.log").read_text()
    assert "does not exist any more" in found["database"]["what"]
    detent.stop()
    done = detent.run("up", "--port", "0")
    assert done.returncode == 7
    assert "does not exist any more" in done.stderr
    assert "detent db init" in done.stderr
    assert not (detent.data / "detent.db").exists()
    assert detent.run("db", "init").returncode == 0
    detent.start()
    assert is_ready(detent)


def test_it_is_not_ready_while_the_disk_is_full(detent: Installation) -> None:
    """No file may grow, which is what a full disk does to every write."""
    detent.start()
    assert detent.process is not None
    pid = detent.process.pid
    before = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (1, before[1]))
    wait_until(lambda: not is_ready(detent), "it is not ready")
    status, problem = ready(detent)
    assert (status, problem["code"]) == (503, "unavailable")
    assert detent.post("/add", TASK).status_code == 503
    resource.prlimit(pid, resource.RLIMIT_FSIZE, before)
    wait_until(lambda: is_ready(detent), "it is ready again")
    assert detent.post("/add", TASK).status_code == 201


def test_a_second_one_leaves_the_announcement_of_the_first_alone(detent: Installation) -> None:
    detent.start()
    file = detent.data / "server.json"
    announced = file.read_text()
    second = Installation.__new__(Installation)
    second.home, second.project, second.data = detent.home, detent.project, detent.data
    second.start()
    assert second.url != detent.url
    assert file.read_text() == announced
    second.stop()
    assert file.read_text() == announced
    assert detent.run("tasks").returncode == 0
    detent.stop()
    assert not file.exists()


def test_it_waits_for_a_database_that_starts_later(detent: Installation, tmp_path: Path) -> None:
    directory = tmp_path / "pg"
    server = Server.start(directory)
    with server:
        url = server.create_database("later")
        server.stop()
        log = (tmp_path / "log").open("w+")
        process = subprocess.Popen(
            [sys.executable, "-m", "detent", "serve", "--port", "0", "--store", url],
            cwd=detent.project,
            env=detent.environment,
            stdout=subprocess.DEVNULL,
            stderr=log,
        )
        try:
            output = tmp_path / "log"
            wait_until(lambda: "waiting for the database" in output.read_text(), "it waits")
            assert process.poll() is None
            server.restart()
            wait_until((detent.data / "server.json").exists, "it serves")
            detent.url = json.loads((detent.data / "server.json").read_text())["url"]
            assert is_ready(detent)
        finally:
            process.terminate()
            assert process.wait(DEADLINE_S) == 0
            log.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_idle_one_stops_within_a_second(detent: Installation, number: signal.Signals) -> None:
    """Under load by the best of many tries: what waits by design waits each time."""
    took_s = [DEADLINE_S]
    end_s = time.monotonic() + DEADLINE_S
    while took_s[-1] >= 1.0 and time.monotonic() < end_s:
        detent.start()
        assert detent.process is not None
        assert detent.process.stdout is not None
        assert is_ready(detent)
        begun_s = time.monotonic()
        detent.process.send_signal(number)
        assert detent.process.wait(DEADLINE_S) == 0
        took_s.append(time.monotonic() - begun_s)
        detent._close()
    assert min(took_s) < 1.0, took_s
