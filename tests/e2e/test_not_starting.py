"""What cannot start says why in two lines, and leaves nothing behind that is not its own."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from detent import server_file


def up(place: Path, *options: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "detent", "up", *options],
        cwd=place,
        env={**os.environ, "DETENT_STORE_DATA_DIR": str(place / "data")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        done = up(tmp_path, "--port", str(taken.getsockname()[1]))
    assert done.returncode == 7
    assert "Address already in use" in done.stderr
    assert len(done.stderr.splitlines()) == 2


def test_an_address_beyond_loopback(tmp_path: Path) -> None:
    done = up(tmp_path, "--host", "0.0.0.0", "--port", "0")
    assert done.returncode == 7
    assert "which other machines can reach" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("pid", "stays"), [(os.getpid(), False), (1, True)], ids=["own", "other"])
def test_a_gateway_withdraws_its_own_announcement_only(
    tmp_path: Path, pid: int, stays: bool
) -> None:
    file = tmp_path / "server.json"
    server = {"url": "http://127.0.0.1:1", "pid": pid, "began": server_file.began(pid)}
    file.write_text(json.dumps(server))
    server_file.withdraw(tmp_path)
    assert file.exists() is stays
