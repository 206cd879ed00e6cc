"""Each statement of the page on the sandbox, and the test that tries to break it from inside a run.

One run in the sandbox tries everything, and the tests below check what it found. A statement is an
item of a list, or a row of a table, of docs/howto/sandbox.md; it is identified by its beginning.
"""

import ast
import dataclasses
import json
import os
import pwd
import re
import shutil
import socket
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from detent.app.app import App
from detent.worker import sandbox
from tests.worker.test_sandbox import listening
from tests.worker.waiting import DEADLINE_S, installation, working

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "howto" / "sandbox.md"
NETWORK = "test_sandbox_network.py::test_a_program_reaches_the_named_hosts_and_nothing_else"
HOSTS = "../test_allowed_hosts.py::test_only_named_hosts_and_ports_are_allowed"
LIMITS = "test_program_limits.py::test_a_run_that_exceeds_a_limit_ends_with_its_class"
AGENT = "test_sandbox_network.py::test_an_agent_reaches_the_gateway_and_its_provider"
#: Statements that tests of other modules try, also from inside runs.
ELSEWHERE = {
    "has a network of its own": NETWORK,
    "the `hosts` of the intent": NETWORK,
    "the provider of the agent": AGENT,
    "the gateway of this installation": AGENT,
    "`api.example.com`": HOSTS,
    "`api.example.com:8443`": HOSTS,
    "`*.example.com`": HOSTS,
    "`192.0.2.7`": HOSTS,
    "`localhost:5432`": NETWORK,
    "`*`": "../test_allowed_hosts.py::test_every_public_host_is_no_private_address",
    "`memory_mb`": LIMITS,
    "`cpu_s`": LIMITS,
    "`processes`": LIMITS,
    "`disk_mb`": LIMITS,
}
IMAGE = "test_containers.py::test_a_command_runs_in_its_image_and_reaches_only_what_it_may"
ENDS = "test_containers.py::test_limits_a_cancel_and_a_missing_image"
ELSEWHERE |= {
    "sees of this machine only": IMAGE,
    "has the same network": IMAGE,
    "has the same limits": ENDS,
    "has no capabilities and cannot gain": IMAGE,
    "ends with its run": ENDS,
}
TRIED: dict[str, str] = {}

Test = Callable[..., None]


def tries(statement: str) -> Callable[[Test], Test]:
    """Mark a test as the one that tries to break a statement of the page."""

    def noted(test: Test) -> Test:
        TRIED[statement] = f"{Path(__file__).name}::{test.__name__}"
        return test

    return noted


def statements() -> list[str]:
    """The items of lists and the rows of tables on the page."""
    text = re.sub(r"```.*?```", "", PAGE.read_text(), flags=re.DOTALL)
    items = re.findall(r"^- (.+)$", text, re.MULTILINE)
    rows = re.findall(r"^\| (.+?) \|", text, re.MULTILINE)
    return [*items, *(row for row in rows if row not in ("entry", "limit"))]


def test_every_statement_has_a_test_that_exists() -> None:
    tests = {**ELSEWHERE, **TRIED}
    for statement in statements():
        # The longest beginning counts: one entry may be the beginning of another.
        found = [start for start in tests if statement.startswith(start)]
        assert found, f"no test tries to break the statement {statement!r}"
        file, name = tests[max(found, key=len)].split("::")
        tree = ast.parse((Path(__file__).parent / file).read_text())
        assert name in {each.name for each in tree.body if isinstance(each, ast.FunctionDef)}
    for start in tests:
        assert any(each.startswith(start) for each in statements()), f"{start!r} is not stated"


# ---- one run that tries everything -----------------------------------------------------------

TRY = """
import json, os, pathlib, socket, sys
given = json.loads(sys.argv[1])
found = {}

def tried(name, act):
    try:
        found[name] = act()
    except OSError as error:
        found[name] = type(error).__name__ if error.errno is None else os.strerror(error.errno)

def written(path):
    pathlib.Path(path).write_text("x")
    return "written"

def connected(address):
    with socket.socket(socket.AF_UNIX) as made:
        made.connect("\\0" + address[1:] if address.startswith("@") else address)
        return made.recv(100).decode()

def listed(path):
    return sorted(each.name for each in pathlib.Path(path).iterdir())

tried("the data", lambda: listed(given["data"]))
tried("the runs", lambda: listed(given["data"] + "/runs"))
tried("the token", lambda: pathlib.Path(given["data"] + "/token").read_text())
for path in given["writes"]:
    tried(f"write {path}", lambda: written(path))
os.symlink("/etc", "etc")
tried("write by a link", lambda: written("etc/detent-was-here"))
tried("a hard link", lambda: os.link("/etc/hostname", "hostname"))
for path in ("/tmp", "/run", "/dev/shm", "/dev"):
    tried(f"list {path}", lambda: listed(path))
def opened_for_writing(path):
    os.close(os.open(path, os.O_WRONLY))
    return path

def writable_settings():
    found = []
    for folder, _, names in os.walk("/proc/sys"):
        for path in (os.path.join(folder, name) for name in names):
            try:
                found.append(opened_for_writing(path))
            except OSError:
                continue
    return found

def vsock():
    socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM).close()
    return "made"

tried("settings of the kernel", writable_settings)
tried("sysrq", lambda: opened_for_writing("/proc/sysrq-trigger"))
tried("vsock", vsock)
tried("processes", lambda: [each for each in listed("/proc") if each.isdigit()])
tried("signal", lambda: os.kill(given["pid"], 0))
status = pathlib.Path("/proc/self/status").read_text()
facts = dict(line.split(":\\t", 1) for line in status.splitlines())
found["capabilities"] = [facts[f"Cap{each}"] for each in ("Inh", "Prm", "Eff", "Amb")]
found["no new ones"] = facts["NoNewPrivs"]
tried("mount", lambda: os.chroot("/usr"))
for address in given["sockets"]:
    tried(f"connect {address}", lambda: connected(address))
tried("read resolv.conf", lambda: len(pathlib.Path("/etc/resolv.conf").read_bytes()) >= 0)
found["variables"] = [name for name in os.environ if "TOKEN" in name or name == "HUSH"]
pathlib.Path(os.environ["DETENT_RESULT_FILE"]).write_text(json.dumps(found))
"""


@dataclasses.dataclass
class Tried:
    """What the run found, and where it looked."""

    found: dict[str, Any]
    run_id: str
    sockets: dict[str, str]
    writes: dict[str, str]


@pytest.fixture(scope="module")
def tried() -> Iterator[Tried]:
    name = f"detent-{uuid.uuid4().hex}"
    # Not below /tmp, so that the sandbox shows it.
    outside = Path("/var/tmp") / name
    data = outside / "data"
    data.mkdir(parents=True)
    (outside / "writable").mkdir()
    sockets = {
        "abstract": f"@{name}",
        "tmp": f"/tmp/{name}",
        "dev": f"/dev/shm/{name}",
        "run": f"/run/{name}",
        "elsewhere": str(outside / "socket"),
        "writable": str(outside / "writable" / "socket"),
    }
    writes = {
        "system": "/usr/detent-was-here",
        # Not HOME, which may be below /tmp: the sandbox has a /tmp of its own.
        "home": str(Path(pwd.getpwuid(os.getuid()).pw_dir) / "detent-was-here"),
        "data": str(data / "detent-was-here"),
        "other run": str(data / "runs" / "other" / "detent-was-here"),
        "outside": str(outside / "detent-was-here"),
        "writable": str(outside / "writable" / "made"),
        "workspace": "made",
    }
    chosen = {"worker_sandbox": "bwrap", "worker_sandbox_writable": (str(outside / "writable"),)}
    try:
        with installation(data, audited=True, **chosen) as core:  # type: ignore[arg-type]
            (data / "token").write_text("secret")
            (data / "runs" / "other").mkdir(parents=True)
            given = {
                "data": str(data),
                "writes": list(writes.values()),
                "sockets": list(sockets.values()),
                "pid": os.getpid(),
            }
            app = App()
            app.command("try", [sys.executable, "-c", TRY, json.dumps(given)])
            with listening_all(sockets.values()), working(core, app):
                handle = app.submit("try")
                found = handle.result(timeout=DEADLINE_S)
        yield Tried(found, f"{handle.job_id}-r1", sockets, writes)
    finally:
        shutil.rmtree(outside)
        for each in ("tmp", "dev", "run"):
            Path(sockets[each]).unlink(missing_ok=True)


@contextmanager
def listening_all(addresses: Any) -> Iterator[None]:
    with ExitStack() as stack:
        for address in addresses:
            stack.enter_context(listening(address))
        yield


@tries("finds an empty directory in the place of detent's data directory")
def test_the_data_directory_is_hidden(tried: Tried) -> None:
    assert tried.found["the data"] == ["runs"]
    assert tried.found["the runs"] == [tried.run_id]
    assert tried.found["the token"] == "No such file or directory"


@tries("sees the rest of the file system read-only")
def test_the_file_system_is_read_only(tried: Tried) -> None:
    found = tried.found
    for each in ("system", "home", "data", "outside"):
        assert found[f"write {tried.writes[each]}"] == "Read-only file system", each
    assert found[f"write {tried.writes['other run']}"] == "No such file or directory"
    assert found["write by a link"] == "Read-only file system"
    assert found["a hard link"] in ("Invalid cross-device link", "Operation not permitted")
    assert found["list /dev/shm"] == []
    # Only what detent itself and its programs need, if it is there.
    shown = {Path(each).parts[2] for each in sandbox._shown(sandbox.OWN)[1::3]}
    assert set(found["list /tmp"]) | set(found["list /run"]) <= shown
    assert not {"sda", "vda", "kmsg", "mem"} & set(found["list /dev"])


@tries("cannot change settings of the kernel")
def test_settings_of_the_kernel_are_read_only(tried: Tried) -> None:
    """Root may write to them without a capability; the kernel starts what core_pattern names."""
    assert tried.found["settings of the kernel"] == []
    assert tried.found["sysrq"] in ("Read-only file system", "No such file or directory")


@tries("can write to the directory of its run")
def test_the_workspace_can_be_written(tried: Tried) -> None:
    assert tried.found[f"write {tried.writes['workspace']}"] == "written"
    assert tried.found[f"write {tried.writes['writable']}"] == "written"


@tries("sees only its own processes and has no capabilities")
def test_it_has_its_own_processes_and_no_capabilities(tried: Tried) -> None:
    assert len(tried.found["processes"]) < 5
    assert tried.found["signal"] == "No such process"
    assert set(tried.found["capabilities"]) == {"0000000000000000"}
    assert tried.found["no new ones"] == "1", "no program, such as sudo, gives it any"
    assert tried.found["mount"] == "Operation not permitted"


@tries("cannot connect to abstract unix sockets of the machine")
def test_sockets_of_the_machine_are_hidden(tried: Tried) -> None:
    found = {name: tried.found[f"connect {each}"] for name, each in tried.sockets.items()}
    assert found["abstract"] == "Connection refused"
    hidden = {found["tmp"], found["dev"], found["run"]}
    assert hidden == {"No such file or directory"}


@tries("Unix sockets in other directories")
@tries("Sockets in its workspace")
def test_sockets_elsewhere_can_be_reached(tried: Tried) -> None:
    found = {name: tried.found[f"connect {each}"] for name, each in tried.sockets.items()}
    assert (found["elsewhere"], found["writable"]) == ("hello", "hello")


@tries("Sockets of the family vsock")
def test_vsock_is_as_without_the_sandbox(tried: Tried) -> None:
    try:
        socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM).close()
        outside = "made"
    except OSError as error:
        outside = os.strerror(error.errno or 0)
    assert tried.found["vsock"] == outside


@tries("In `/run`, read-only")
def test_names_can_be_configured_in_run(tried: Tried) -> None:
    assert tried.found["read resolv.conf"] is True
    assert tried.found["variables"] == [], "a command has no token"
