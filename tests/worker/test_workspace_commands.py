"""Set-up and clean-up commands, caches that can only be read, and secrets of commands."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from detent.app.app import App
from detent.app.failures import JobFailed
from detent.errors import Invalid
from detent.operations.context import Core
from tests.worker.waiting import DEADLINE_S, installation, until, working


@pytest.fixture(params=["none", "bwrap"])
def core(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Core]:
    sandbox = request.param
    with installation(tmp_path, worker_grace_ms=300, worker_sandbox=sandbox) as made:
        yield made


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def output_of(core: Core, job_id: str) -> str:
    return (core.settings.data_dir / "runs" / f"{job_id}-r1" / "output.log").read_text()


def test_a_workspace_is_set_up_before_the_program_and_cleaned_up_after_it(core: Core) -> None:
    setup = [python("open('a', 'w').write('1')"), python("print('prepared')")]
    cleanup = [python("import os; os.remove('a'); print('cleaned')"), python("raise SystemExit(3)")]
    app, once = App(), {"retries": 0}
    work = "print('working', open('a').read(), flush=True)"
    common = {"setup": setup, "cleanup": cleanup, "retry": once}
    app.command("work", python(work), **common)
    app.command("fail", python(f"{work}; raise SystemExit('oh')"), **common)
    app.command("hang", python(f"{work}; import time; time.sleep(600)"), **common)
    broken = [python("raise SystemExit('no packages')")]
    app.command("unprepared", python(work), setup=broken, cleanup=cleanup, retry=once)
    with working(core, app):
        handles = {name: app.submit(name) for name in ("work", "fail", "hang", "unprepared")}
        handles["work"].result(timeout=DEADLINE_S)
        with pytest.raises(JobFailed, match=r"(?s)exit code 1: .*oh"):
            handles["fail"].result(timeout=DEADLINE_S)
        with pytest.raises(JobFailed, match=r"set-up of the workspace failed.*no packages"):
            handles["unprepared"].result(timeout=DEADLINE_S)
        log = core.settings.data_dir / "runs" / f"{handles['hang'].job_id}-r1" / "output.log"
        until(lambda: log.exists() and "working" in log.read_text())
        handles["hang"].cancel()
        until(lambda: handles["hang"].state() == "cancelled")
    for name in ("work", "fail", "hang"):
        lines = output_of(core, handles[name].job_id).splitlines()
        assert lines[:2] == ["prepared", "working 1"], name
        assert "cleaned" in lines, name
        assert any("the clean-up failed" in line and "exit code 3" in line for line in lines), name
    assert "working" not in output_of(core, handles["unprepared"].job_id)


CACHE = """
import pathlib, sys
cache = pathlib.Path(sys.argv[1])
print(cache.joinpath("wheel").read_text())
try:
    cache.joinpath("wheel").write_text("poisoned")
except OSError as error:
    print(error.strerror)
"""


def test_a_cache_can_be_read_and_not_written_in_the_sandbox(tmp_path: Path) -> None:
    """Also if it is in a directory that is hidden, as /tmp and the data directory are."""
    cache = tmp_path / "data" / "cache"
    cache.mkdir(parents=True)
    (cache / "wheel").write_text("good")
    app = App()
    app.command("read", [*python(CACHE), str(cache)], caches=[str(cache), "/no/such/cache"])
    with installation(tmp_path / "data", worker_sandbox="bwrap") as core:
        with working(core, app):
            handle = app.submit("read")
            handle.result(timeout=DEADLINE_S)
        assert output_of(core, handle.job_id) == "good\nRead-only file system\n"
    assert (cache / "wheel").read_text() == "good"


def test_a_command_gets_secrets_by_reference(core: Core, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VAULT", "hush-4711")
    app = App()
    show = python("import os; print(os.environ['SIGNING'], 'VAULT' in os.environ)")
    app.command("sign", show, secrets={"SIGNING": "env:VAULT"})
    with working(core, app):
        handle = app.submit("sign")
        handle.result(timeout=DEADLINE_S)
    assert output_of(core, handle.job_id) == "[secret] False\n"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"setup": "npm ci"}, "setup must be a list of at most 20 commands"),
        ({"cleanup": [["a"], []]}, r"cleanup\[1\] must be a list of strings"),
        ({"caches": "x"}, "caches must be a list"),
        ({"secrets": {"KEY": "hush-4711"}}, "secrets.KEY must be a reference"),
    ],
)
def test_wrong_options_are_refused_at_registration(
    options: dict[str, object], message: str
) -> None:
    with pytest.raises(Invalid, match=message) as refused:
        App().command("x", ["true"], **options)
    assert "hush" not in str(refused.value)
