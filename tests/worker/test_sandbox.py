"""The sandbox: what stands before a program's argv, and that it really hides what it must."""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from detent.errors import Misconfigured
from detent.operations.core import Core
from detent.settings import Settings
from detent.worker import sandbox
from detent.worker.app import App
from detent.worker.runners.processes import Group
from detent.worker.sandbox import ALONE, confined, words
from tests.worker.waiting import DEADLINE_S, installation, until, working

DATA, RUN = Path("/srv/app/.detent"), Path("/srv/app/.detent/runs/t-j1-r1")


def settings(kind: str) -> Settings:
    return Settings(store_data_dir=str(DATA), worker_sandbox=kind)


# ---- the argv --------------------------------------------------------------------------------


def test_what_detent_is_made_of_is_seen_though_tmp_is_empty() -> None:
    """Also where it was unpacked below /tmp, as tests and builds are."""
    shown = sandbox._shown([Path("/usr"), Path("/tmp/clone/.venv")])
    assert shown == ["--ro-bind", "/tmp/clone/.venv", "/tmp/clone/.venv"]


def test_without_a_sandbox_the_argv_stays() -> None:
    assert confined(["agent", "-p"], settings("none"), RUN, RUN / "work") == ["agent", "-p"]


def test_the_data_directory_is_hidden_and_the_run_bound_in_it() -> None:
    argv = confined(["agent"], settings("bwrap"), RUN, RUN / "work")
    assert argv[1 : len(ALONE) + 1] == list(ALONE)
    assert words(DATA, RUN, RUN / "work") == [
        *("--tmpfs", str(DATA)),
        *("--bind", str(RUN), str(RUN)),
        *("--bind", str(RUN / "work"), str(RUN / "work")),
        *("--chdir", str(RUN / "work"), "--"),
    ]


def test_a_workspace_around_the_data_directory_does_not_show_it_again() -> None:
    said = words(DATA, RUN, Path("/srv/app"), [Path("/home/me/.agent")])
    at = [said.index(word) for word in ("/srv/app", "/home/me/.agent", str(DATA), str(RUN))]
    assert at[0] < at[2] < at[3]
    assert at[1] < at[2]
    assert said[said.index(str(DATA)) - 1] == "--tmpfs"


def test_the_data_directory_itself_is_never_bound() -> None:
    assert words(DATA, RUN, DATA, [DATA]).count("--bind") == 1


def test_an_unknown_sandbox_is_refused() -> None:
    with pytest.raises(Misconfigured, match="one of none, bwrap, not 'jail'"):
        sandbox.check(settings("jail"))


def test_a_missing_program_is_said_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
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
