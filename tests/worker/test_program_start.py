"""Programs that a worker cannot start, and those that it finds in their directory."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from detent.app.app import App
from detent.app.failures import JobFailed
from detent.operations.context import Core
from tests.worker.waiting import DEADLINE_S, installation, working


@pytest.fixture
def core(tmp_path: Path) -> Iterator[Core]:
    with installation(tmp_path / "data") as made:
        yield made


def output_of(core: Core, run_id: str) -> str:
    return (core.settings.data_dir / "runs" / run_id / "output.log").read_text()


@pytest.mark.parametrize(
    ("argv", "directory", "problem"),
    [
        (["no-such-program"], "here", "there is no program 'no-such-program' on this worker."),
        (["./missing.sh"], "here", "there is no program './missing.sh' on this worker."),
        (["./notes.txt"], "here", "'./notes.txt' is not an executable file."),
        (["true"], "elsewhere", "/elsewhere does not exist on this worker."),
    ],
)
def test_a_program_that_cannot_be_started_needs_a_person(
    core: Core, tmp_path: Path, argv: list[str], directory: str, problem: str
) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "notes.txt").write_text("echo")
    app = App()
    app.command("work", argv, directory=str(tmp_path / directory))
    with working(core, app):
        handle = app.submit("work")
        with pytest.raises(JobFailed) as failed:
            handle.result(timeout=DEADLINE_S)
    job = handle.job()
    assert problem in str(failed.value)
    assert "then retry." in str(failed.value)
    assert "Error" not in str(job.error)
    assert (job.error_class, job.attempt) == ("needs_user", 1)


def test_a_program_is_found_from_the_directory_of_its_command(core: Core, tmp_path: Path) -> None:
    program = tmp_path / "work.sh"
    program.write_text("#!/bin/sh\necho done\n")
    program.chmod(0o755)
    app = App()
    app.command("work", ["./work.sh"], directory=str(tmp_path))
    with working(core, app):
        handle = app.submit("work")
        handle.result(timeout=DEADLINE_S)
    assert output_of(core, f"{handle.job_id}-r1") == "done\n"


def test_a_program_that_the_set_up_makes_is_started(core: Core) -> None:
    app = App()
    made = "printf '#!/bin/sh\\necho made' > made.sh; chmod +x made.sh"
    app.command("work", ["./made.sh"], setup=[["sh", "-c", made]])
    with working(core, app):
        handle = app.submit("work")
        handle.result(timeout=DEADLINE_S)
    assert output_of(core, f"{handle.job_id}-r1") == "made\n"


def test_a_program_that_the_sandbox_hides_needs_a_person(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one that a link elsewhere leads to; not one in a directory that is bound, or one that
    is in another directory of the PATH too."""
    data = tmp_path / "data"
    programs = data / "programs"
    programs.mkdir(parents=True)
    (programs / "tool").write_text("#!/bin/sh\necho done\n")
    (programs / "tool").chmod(0o755)
    (here := tmp_path / "here").mkdir()
    (here / "link").symlink_to(programs / "tool")
    app = App()
    app.command("hidden", [str(programs / "tool")], directory=str(here))
    app.command("linked", ["./link"], directory=str(here))
    (programs / "true").symlink_to(programs / "tool")
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    app.command("twice", ["true"], directory=str(here))
    with installation(data, worker_sandbox="bwrap") as core, working(core, app):
        for name, shown in (("hidden", programs / "tool"), ("linked", here / "link")):
            handle = app.submit(name)
            with pytest.raises(JobFailed, match=r"worker\.sandbox_writable; then retry") as failed:
                handle.result(timeout=DEADLINE_S)
            assert f"the sandbox hides the program {shown}:" in str(failed.value)
            assert failed.value.error_class == "needs_user"
        app.submit("twice").result(timeout=DEADLINE_S)
    bound = (str(programs),)
    with (
        installation(
            tmp_path / "more", worker_sandbox="bwrap", worker_sandbox_writable=bound
        ) as core,
        working(core, app),
    ):
        for name in ("hidden", "linked"):
            app.submit(name).result(timeout=DEADLINE_S)
