"""Failpoints: off they do nothing, armed by the environment they act once and say so."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from detent import failpoints
from detent.errors import Misconfigured
from detent.failpoints import Action

SOURCE = Path(failpoints.__file__).parent
CALL = re.compile(r'failpoints\.hit\("([^"]+)"\)')


def run(code: str, tmp_path: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", f"from detent.failpoints import hit\n{code}"],
        env={"PATH": os.environ["PATH"], **environment},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )


def armed(text: str, tmp_path: Path) -> dict[str, str]:
    log = str(tmp_path / "hits")
    return {"DETENT_FAILPOINTS": text, "DETENT_TESTING": "1", "DETENT_FAILPOINTS_LOG": log}


def test_every_name_is_in_the_code_and_every_call_has_a_name() -> None:
    called = {
        name
        for path in SOURCE.rglob("*.py")
        for name in CALL.findall(path.read_text())
        if path.name != "failpoints.py"
    }
    assert called == set(failpoints.NAMES)
    assert len(called) >= 20


def test_off_it_does_nothing(tmp_path: Path) -> None:
    assert run("hit('commit.before'); print('on')", tmp_path).stdout == "on\n"


def test_it_is_refused_outside_of_tests() -> None:
    with pytest.raises(Misconfigured, match="DETENT_FAILPOINTS"):
        failpoints.arm({"DETENT_FAILPOINTS": "commit.before:kill"})


@pytest.mark.parametrize("text", ["nowhere:kill", "commit.before", "commit.before:explode", "x"])
def test_what_is_no_failpoint_is_refused(text: str) -> None:
    with pytest.raises(Misconfigured, match=re.escape(text)):
        failpoints.arm({"DETENT_FAILPOINTS": text, "DETENT_TESTING": "1"})


def test_kill_ends_the_process_on_the_count_and_is_noted(tmp_path: Path) -> None:
    code = "hit('claim.after'); print('once', flush=True); hit('claim.after'); print('twice')"
    ended = run(code, tmp_path, **armed("claim.after:kill:2", tmp_path))
    assert (ended.returncode, ended.stdout) == (-signal.SIGKILL, "once\n")
    assert (tmp_path / "hits").read_text().split()[:2] == ["claim.after", "kill"]


def test_raise_raises_once(tmp_path: Path) -> None:
    code = """
from detent.failpoints import Injected
try:
    hit('claim.after')
except Injected as error:
    print(error)
hit('claim.after')
print('on')
"""
    assert run(code, tmp_path, **armed("claim.after:raise", tmp_path)).stdout == (
        "failpoint claim.after\non\n"
    )


def test_delay_takes_its_time(tmp_path: Path) -> None:
    code = (
        "import time; a = time.monotonic(); hit('claim.after'); print(time.monotonic() - a > 0.05)"
    )
    given = {**armed("claim.after:delay", tmp_path), "DETENT_FAILPOINTS_DELAY_MS": "60"}
    assert run(code, tmp_path, **given).stdout == "True\n"


def test_stop_stops_until_it_is_continued(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", "from detent.failpoints import hit; hit('claim.after')"],
        env={"PATH": os.environ["PATH"], **armed("claim.after:stop", tmp_path)},
    )
    _, status = os.waitpid(process.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status)
    process.send_signal(signal.SIGCONT)
    assert process.wait(60) == 0


def test_the_actions_are_four() -> None:
    assert [*Action] == ["kill", "stop", "raise", "delay"]
