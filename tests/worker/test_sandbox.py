"""The sandbox: the arguments before a program's argv, and that it really hides what it must."""

import json
import shutil
import socket
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from detent.app.app import App
from detent.errors import Misconfigured
from detent.operations.context import Core
from detent.settings import Settings
from detent.worker import sandbox
from detent.worker.runners.process_group import Group
from detent.worker.sandbox import ALONE, confined, words
from tests.worker.waiting import DEADLINE_S, installation, until, working

DATA, RUN = Path("/srv/app/.detent"), Path("/srv/app/.detent/runs/t-j1-r1")


def settings(kind: str) -> Settings:
    return Settings(store_data_dir=str(DATA), worker_sandbox=kind)


# ---- the argv --------------------------------------------------------------------------------


def test_what_detent_is_made_of_is_seen_though_tmp_is_empty() -> None:
    """Also where it was unpacked below /tmp, as tests and builds are."""
    shown = sandbox._shown([Path("/usr"), Path("/tmp/clone/.venv")])
    assert shown == ["--ro-bind-try", "/tmp/clone/.venv", "/tmp/clone/.venv"]


def test_without_a_sandbox_the_argv_stays() -> None:
    assert confined(["agent", "-p"], settings("none"), RUN, RUN / "work") == ["agent", "-p"]


def test_the_data_directory_is_hidden_and_the_run_bound_in_it() -> None:
    argv = confined(["agent"], settings("bwrap"), RUN, RUN / "work")
    assert argv[1 : len(ALONE) + 1] == list(ALONE)
    assert words(DATA, RUN, RUN / "work") == [
        *("--tmpfs", str(DATA)),
        *("--bind", str(RUN), str(RUN)),
        *("--bind", str(RUN / "work"), str(RUN / "work")),
        *("--remount-ro", str(DATA)),
        *("--chdir", str(RUN / "work"), "--"),
    ]


def test_a_workspace_around_the_data_directory_does_not_show_it_again() -> None:
    arguments = words(DATA, RUN, Path("/srv/app"), [Path("/home/me/.agent")])
    at = [arguments.index(word) for word in ("/srv/app", "/home/me/.agent", str(DATA), str(RUN))]
    assert at[0] < at[2] < at[3]
    assert at[1] < at[2]
    assert arguments[arguments.index(str(DATA)) - 1] == "--tmpfs"


def test_the_data_directory_itself_is_never_bound() -> None:
    assert words(DATA, RUN, DATA, [DATA]).count("--bind") == 1


def test_an_unknown_sandbox_is_refused() -> None:
    with pytest.raises(Misconfigured, match="one of none, bwrap, not 'jail'"):
        sandbox.check(settings("jail"))


def test_a_missing_program_is_reported_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(Misconfigured) as refused:
        confined(["agent"], settings("bwrap"), RUN, RUN)
    assert "apt-get install bubblewrap" in refused.value.hint


# ---- a real one ------------------------------------------------------------------------------

LOOK = """
import json, os, pathlib, sys
data, work = map(pathlib.Path, sys.argv[1:3])
found = {"data": sorted(each.name for each in data.iterdir())}
try:
    found["token"] = (data / "token").read_text()
except OSError as error:
    found["token"] = type(error).__name__
try:
    pathlib.Path("/usr/detent-was-here").write_text("x")
    found["root"] = "writable"
except OSError:
    found["root"] = "read-only"
found["processes"] = [each for each in os.listdir("/proc") if each.isdigit()]
pathlib.Path("made.txt").write_text("mine")
print(json.dumps(found))
"""


def test_a_program_in_it_sees_no_data_and_writes_into_its_workspace(tmp_path: Path) -> None:
    assert shutil.which("bwrap"), "the tests need bubblewrap; on Debian: apt-get install bubblewrap"
    data, run_dir = tmp_path / "data", tmp_path / "data" / "runs" / "r1"
    work = run_dir / "work"
    work.mkdir(parents=True)
    (data / "runs" / "r2").mkdir()
    (data / "token").write_text("secret")
    chosen = Settings(store_data_dir=str(data), worker_sandbox="bwrap")
    look = [sys.executable, "-c", LOOK, str(data), str(work)]
    argv = confined(look, chosen, run_dir, work)
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["data"], found["token"]) == (["runs"], "FileNotFoundError")
    assert found["root"] == "read-only"
    assert len(found["processes"]) < 5, "it sees processes of others"
    assert (work / "made.txt").read_text() == "mine"
    assert (data / "token").read_text() == "secret"


CONNECT = """
import json, os, socket, sys
found = {}
for address in sys.argv[1:]:
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.connect("\\0" + address[1:] if address.startswith("@") else address)
            found[address] = made.recv(100).decode()
    except OSError as error:
        found[address] = type(error).__name__
with socket.socket() as listening, socket.socket() as connecting:
    listening.bind(("127.0.0.1", 0))
    listening.listen()
    connecting.connect(listening.getsockname())
    found["tcp"] = "open"
with socket.socketpair()[0]:
    found["pair"] = "open"
found["seen"] = {each: sorted(os.listdir(each)) for each in ("/run", "/tmp", "/dev/shm")}
print(json.dumps(found))
"""
OWN_SOCKETS = """
import socket
with socket.socket(socket.AF_UNIX) as listening, socket.socket(socket.AF_UNIX) as connecting:
    listening.bind("\\0own-" + str(id(listening)))
    listening.listen()
    connecting.connect(listening.getsockname())
    print("open")
"""


@contextmanager
def listening(address: str) -> Iterator[str]:
    """A socket of the machine that greets everybody who connects; `@` begins an abstract name."""
    with socket.socket(socket.AF_UNIX) as made:
        made.bind("\0" + address[1:] if address.startswith("@") else address)
        made.listen()

        def greet() -> None:
            with suppress(OSError):
                while True:
                    with made.accept()[0] as connected:
                        connected.sendall(b"hello")

        thread = threading.Thread(target=greet, daemon=True)
        thread.start()
        yield address
        made.shutdown(socket.SHUT_RDWR)
        thread.join()


@pytest.fixture
def addresses(tmp_path: Path) -> Iterator[list[str]]:
    """An abstract socket and two with a path, and a proof that they can be connected to."""
    name = f"detent-{uuid.uuid4().hex}"
    with (
        listening(f"@{name}") as abstract,
        listening(str(tmp_path / "s")) as path,
        listening(f"/dev/shm/{name}") as device,
    ):
        found = [abstract, path, device]
        outside = connected([sys.executable, "-c", CONNECT, *found])
        assert [outside[each] for each in found] == ["hello"] * 3
        yield found
    Path(device).unlink()


def connected(argv: list[str]) -> dict[str, Any]:
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("network", ["closed", "open"])
def test_a_program_in_it_reaches_no_socket_of_the_machine(
    tmp_path: Path, addresses: list[str], network: str
) -> None:
    """Neither an abstract one, as of the user's bus, nor one in /tmp or /dev; TCP is as it was."""
    data, run_dir = tmp_path / "data", tmp_path / "data" / "runs" / "r1"
    run_dir.mkdir(parents=True)
    chosen = Settings(
        store_data_dir=str(data), worker_sandbox="bwrap", worker_sandbox_network=network
    )
    argv = [sys.executable, "-c", CONNECT, *addresses]
    found = connected(confined(argv, chosen, run_dir, run_dir))
    refused = [found[each] for each in addresses]
    # In a network namespace of its own, the abstract name does not exist.
    abstract = "ConnectionRefusedError" if network == "closed" else "PermissionError"
    assert refused == [abstract, "FileNotFoundError", "FileNotFoundError"]
    assert (found["tcp"], found["pair"]) == ("open", "open")
    shown = {Path(each).parts[2] for each in sandbox._shown(sandbox.OWN)[1::2] if "/run/" in each}
    assert set(found["seen"]["/run"]) <= shown, "only what programs need of /run"
    assert found["seen"]["/dev/shm"] == []


@pytest.mark.parametrize("how", ["landlock", "seccomp"])
def test_both_ways_of_closing_abstract_sockets(addresses: list[str], how: str) -> None:
    """Landlock is used where the kernel has it; the filter is for older ones."""
    script = [*sandbox.SCOPED[:-1], how, sys.executable, "-c"]
    found = connected([*script, CONNECT, addresses[0]])
    assert found[addresses[0]] == "PermissionError"
    assert (found["tcp"], found["pair"]) == ("open", "open")
    own = subprocess.run(
        [*script, OWN_SOCKETS], capture_output=True, text=True, timeout=60, check=False
    )
    assert (own.stdout == "open\n") == (how == "landlock"), own.stderr


def test_a_program_has_its_signals_as_without_the_sandbox() -> None:
    argv = ["grep", "SigIgn", "/proc/self/status"]
    plain, scoped = (
        subprocess.run([*before, *argv], capture_output=True, text=True, timeout=60, check=True)
        for before in ((), sandbox.SCOPED)
    )
    assert scoped.stdout == plain.stdout


def test_a_program_that_is_not_there_is_reported() -> None:
    argv = [*sandbox.SCOPED, "no-such-program"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 127
    assert "no-such-program was not started" in done.stderr


@pytest.fixture
def core(tmp_path: Path) -> Iterator[Core]:
    with installation(
        tmp_path, worker_grace_ms=300, worker_heartbeat_ms=200, worker_sandbox="bwrap"
    ) as made:
        yield made


READ = """
import json, os, pathlib
run = pathlib.Path(os.environ["DETENT_RUN_DIR"])
payload = json.loads(pathlib.Path(os.environ["DETENT_PAYLOAD_FILE"]).read_text())
(pathlib.Path(os.environ["DETENT_EVIDENCE_DIR"]) / "a.log").write_text("seen")
beside = sorted(each.name for each in run.parent.parent.iterdir())
pathlib.Path(os.environ["DETENT_RESULT_FILE"]).write_text(json.dumps([payload, beside]))
"""


def test_a_command_runs_in_it_with_its_own_files_only(core: Core) -> None:
    app = App()
    app.command("look", [sys.executable, "-c", READ])
    with working(core, app):
        handle = app.submit("look", {"n": 1})
        assert handle.result(timeout=DEADLINE_S) == [{"n": 1}, ["runs"]]


def test_a_run_in_it_is_stopped_with_everything_that_it_started(core: Core) -> None:
    app = App()
    code = "import subprocess, time; subprocess.Popen(['sleep', '600']); print('up', flush=True)"
    app.command("sleep", [sys.executable, "-c", f"{code}; time.sleep(600)"])
    with working(core, app):
        handle = app.submit("sleep")
        output = core.settings.data_dir / "runs" / f"{handle.job_id}-r1" / "output.log"
        until(lambda: output.exists() and "up" in output.read_text())
        assert len(Group(f"{handle.job_id}-r1").members()) >= 2
        handle.cancel()
        until(lambda: handle.state() == "cancelled")
        assert Group(f"{handle.job_id}-r1").members() == []
