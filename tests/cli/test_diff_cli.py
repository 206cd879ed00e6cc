"""`detent diff`: the changes of a task, and what changed since an earlier round."""

import hashlib
import json
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import click
import pytest

from detent.cli import output
from detent.engine.claims import ClaimRequest
from detent.gateway.auth import ensure_token
from detent.gateway.server import Server
from detent.kernel import commands as c
from detent.operations.context import Core
from detent.operations.registry import OWNER, call
from detent.service import announce, open_core
from detent.settings import load
from tests.cli.conftest import Run
from tests.operations.reviewed_task import patch

SAME = patch("same.txt", "y")
FIRST = patch("src/a.py", "one", "two") + patch("gone.txt", "x") + SAME
MODE = "diff --git a/run.sh b/run.sh\nold mode 100644\nnew mode 100755\n"
SECOND = patch("src/a.py", "one", "2\x1b[31m") + MODE + SAME
BINARY = "diff --git a/b.bin b/b.bin\nindex 1111111..2222222 100644\nGIT binary patch\n"


def work(core: Core, changes: str) -> None:
    (claimed,) = core.engine.claim(ClaimRequest("w", "nonce", 1))
    run_id = str(claimed.job.run_id)
    blob = core.store.blobs.put(BytesIO(changes.encode()))
    actor = c.Actor("worker:w")
    core.engine.do(c.AddEvidence(claimed.grant, run_id, "changes.diff", "unknown", *blob), actor)
    core.engine.do(c.CompleteRun(claimed.grant, run_id, None, 0), actor)


@pytest.fixture
def core(data: Path) -> Iterator[Core]:
    """A task that is in review for the second time, and one without a diff."""
    with open_core(load(flags={"gateway_port": 0})) as made:
        submit = c.SubmitTask("t", "p", "review", "runQA", "cli", queue=True)
        made.engine.do(submit, c.Actor("person"))
        work(made, FIRST)
        call("reject_task", made, OWNER, task_id="t", comment="again", run=True)
        work(made, SECOND + BINARY)
        made.engine.do(c.SubmitTask("empty", "p", "review", "runQA", "cli"), c.Actor("person"))
        yield made


@pytest.fixture(params=["direct", "gateway"])
def ready(core: Core, data: Path, request: pytest.FixtureRequest) -> Iterator[Core]:
    """Reached through the store, and through a live gateway."""
    if request.param == "direct":
        yield core
        return
    ensure_token(core)
    server = Server(core)
    announce(data, f"http://127.0.0.1:{server.start()}")
    yield core
    server.stop()


@pytest.mark.usefixtures("ready")
def test_the_diff_under_review_is_printed(run: Run) -> None:
    assert run("diff", "t").stdout.splitlines() == [
        "src/a.py  +2 -1",
        "@@ -1,1 +1,2 @@",
        "-old",
        "+one",
        "+2",
        "run.sh  +0 -0",
        "Mode: 100644 -> 100755.",
        "same.txt  +1 -1",
        "@@ -1,1 +1,1 @@",
        "-old",
        "+y",
        "b.bin  +0 -0",
        "Binary file.",
    ]
    assert "run.sh" not in run("diff", "t", "src/a.py").stdout


@pytest.mark.usefixtures("ready")
def test_the_changes_since_a_round_are_printed(run: Run) -> None:
    assert run("diff", "t", "src/a.py", "--since", "0").stdout.splitlines() == [
        "src/a.py  +1 -1",
        "@@ -1,2 +1,2 @@",
        " one",
        "-two",
        "+2",
    ]
    assert run("diff", "t", "--since", "0", "same.txt").stdout == "No file differs.\n"
    listed = run("diff", "t", "--since", "0", "--stat").stdout
    assert [line.split()[0] for line in listed.splitlines()] == [
        *("FILE", "src/a.py", "run.sh", "b.bin", "gone.txt")
    ]


@pytest.mark.usefixtures("ready")
def test_programs_get_json(run: Run) -> None:
    found = json.loads(run("diff", "t", "--json").stdout)
    assert found["diff"] == hashlib.sha256((SECOND + BINARY).encode()).hexdigest()
    assert found["files"][0]["hunks"][0]["lines"][2]["text"] == "2\x1b[31m"
    listed = json.loads(run("diff", "t", "--since", "0", "--stat", "--json").stdout)
    assert listed["since"] == hashlib.sha256(FIRST.encode()).hexdigest()
    assert "hunks" not in listed["files"][0]


@pytest.mark.usefixtures("ready")
def test_wrong_input_is_clear(run: Run) -> None:
    assert "Task empty has no diff." in run("diff", "empty", code=3).stderr
    for since in ((), ("--since", "0")):
        assert "no file 'src/b.py'" in run("diff", "t", "src/b.py", *since, code=3).stderr
    refused = run("diff", "t", "--since", "7", code=2).stderr
    assert "Task t has no earlier diff of round 7; rounds: 0." in refused
    assert "There is no task 'unknown'" in run("diff", "unknown", code=3).stderr


@pytest.mark.usefixtures("core")
def test_a_diff_that_is_too_large_says_how_to_save_it(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("review_diffs", "review_page"):
        monkeypatch.setattr(f"detent.operations.{module}.MAX_DIFF_BYTES", 10)
    refused = run("diff", "t", code=5).stderr
    assert "at most 10 are shown" in refused
    assert "detent evidence t-j2-r1 --save DIR" in refused


@pytest.mark.usefixtures("core")
def test_colours_are_for_terminals(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "\x1b" not in run("diff", "t").stdout
    monkeypatch.setattr(output, "has_colour", lambda: True)
    styled: list[str] = []
    monkeypatch.setattr(click, "echo", lambda text, **_: styled.append(text))
    run("diff", "t", "src/a.py")
    assert "\x1b[32m+one\x1b[0m" in styled
    assert "\x1b[32m+2\x1b[0m" in styled  # the escape sequence of the content is removed
