"""The CPU priority of the programs of runs, and of git: lower than that of the worker."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from detent.app.app import App
from detent.settings import Settings
from detent.worker import git_command
from detent.worker.git_command import WorkspaceFailed, git, git_result
from detent.worker.program_priority import CALLS, LOWEST, ProgramPriority
from tests.worker.waiting import DEADLINE_S, installation, until, working

AUTOGROUP = Path("/proc/self/autogroup")
#: Prints the nice values of itself and of its session's group, once they have this value.
SHOW = """
import os, pathlib, sys, time
want, group = sys.argv[1], pathlib.Path("/proc/self/autogroup")
end_s = time.monotonic() + 60
while time.monotonic() < end_s:
    shown = [str(os.nice(0)), *(group.read_text().split()[-1:] if group.exists() else [])]
    if set(shown) == {want}:
        break
    time.sleep(0.01)
print(*shown)
"""


@pytest.mark.parametrize("sandbox", ["none", "bwrap"])
def test_a_program_has_a_lower_priority_than_its_worker(tmp_path: Path, sandbox: str) -> None:
    with installation(tmp_path, worker_sandbox=sandbox, worker_nice=3) as core:
        app = App()
        app.command("show", [sys.executable, "-c", SHOW, str(os.nice(0) + 3)])
        with working(core, app):
            handle = app.submit("show")
            handle.result(timeout=DEADLINE_S)
        [output] = tmp_path.glob("runs/*/output.log")
        assert set(output.read_text().split()) == {str(os.nice(0) + 3)}


def test_with_nice_0_a_program_has_the_priority_of_its_worker(tmp_path: Path) -> None:
    with installation(tmp_path, worker_nice=0) as core:
        app = App()
        app.command("show", [sys.executable, "-c", SHOW, str(os.nice(0))])
        with working(core, app):
            app.submit("show").result(timeout=DEADLINE_S)
        [output] = tmp_path.glob("runs/*/output.log")
        assert output.read_text().split()[0] == str(os.nice(0))


def test_an_autogroup_that_the_kernel_does_not_change_yet_is_changed_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Linux lets users other than root change one autogroup in a tenth of a second."""
    written: list[str] = []

    def write_text(path: Path, text: str) -> int:
        written.append(f"{path} {text}")
        if len(written) == 1:
            raise BlockingIOError(errno.EAGAIN, "write could not complete without blocking")
        return len(text)

    with subprocess.Popen(["sleep", "60"], start_new_session=True) as process:
        try:
            priority = ProgramPriority(process.pid, 7)
            monkeypatch.setattr(Path, "write_text", write_text)
            is_set = []
            for _ in range(4):
                priority.lower()
                is_set.append(priority.is_set)
        finally:
            process.kill()
    assert is_set == [False, False, True, True]
    assert written == [f"/proc/{process.pid}/autogroup 7"] * 2


def test_a_priority_is_never_below_the_lowest() -> None:
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as process:
        ProgramPriority(process.pid, 40).lower()
        try:
            assert os.getpriority(os.PRIO_PROCESS, process.pid) == LOWEST
        finally:
            process.kill()


def test_a_program_that_has_ended_is_left_alone() -> None:
    process = subprocess.Popen(["true"], start_new_session=True)
    process.wait()
    priority = ProgramPriority(process.pid, 5)
    for _ in range(CALLS):
        priority.lower()
    assert priority.is_set


def test_a_process_that_was_forked_during_the_first_call_is_found_by_the_second() -> None:
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as process:
        try:
            priority = ProgramPriority(process.pid, 5)
            priority.lower()
            os.setpriority(os.PRIO_PROCESS, process.pid, os.nice(0))
            priority.lower()
            assert os.getpriority(os.PRIO_PROCESS, process.pid) == os.nice(0) + 5
        finally:
            process.kill()


def test_git_has_a_lower_priority_and_the_worker_keeps_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(git_command, "NICE", 4)
    own = AUTOGROUP.read_text() if AUTOGROUP.exists() else ""
    code = "import os, time\nwhile os.nice(0) == int(__import__('sys').argv[1]): time.sleep(0.01)"
    argv = [sys.executable, "-c", f"{code}\nprint(os.nice(0))", str(os.nice(0))]
    done = git_result(tmp_path, ["status"], {}, lambda _: argv)
    assert int(done.stdout) == os.nice(0) + 4
    assert own == (AUTOGROUP.read_text() if AUTOGROUP.exists() else "")


def test_git_has_no_lower_priority_than_agents() -> None:
    """Below them it would reach its time limit while twenty agents use the CPU."""
    code = "from detent.worker import git_command; print(git_command.NICE)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert int(found.stdout) == Settings().worker_nice == 7


def test_git_that_takes_too_long_is_killed_with_its_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(git_command, "GIT_S", 0.5)
    script = f"sleep 600 & echo $! > {tmp_path / 'child'}; wait"
    with pytest.raises(WorkspaceFailed, match="git status took longer than"):
        git(tmp_path, ["status"], {"PATH": os.environ["PATH"]}, lambda _: ["sh", "-c", script])
    child = int((tmp_path / "child").read_text())
    until(lambda: not _is_alive(child), "the end of the child")


def _is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"
