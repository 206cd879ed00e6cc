"""`detent wait`: it ends with the task, or when the task needs a person, or after --timeout."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from detent.cli import wait
from detent.kernel import commands as c
from tests.operations.installation import LocalInstallation, local_installation

Run = Callable[..., Result]


def reviewed(place: LocalInstallation, task: str) -> None:
    place.complete(place.claim()[0])


def cancelled(place: LocalInstallation, task: str) -> None:
    place.call("cancel_task", task_id=task)


def failed(place: LocalInstallation, task: str) -> None:
    held = place.claim()[0]
    place.report(c.FailRun(held.grant, str(held.job.run_id), "needs_user", "no disk"))


@pytest.mark.parametrize(
    ("happens", "code", "state"),
    [(reviewed, 0, "ready"), (cancelled, 12, "cancelled"), (failed, 10, "failed")],
)
def test_the_exit_code_is_that_of_submit_wait(
    run: Run,
    data: Path,
    happens: Callable[[LocalInstallation, str], None],
    code: int,
    state: str,
) -> None:
    with local_installation(data) as place:
        task = place.submit()
        happens(place, task)
    done = run("wait", task, code=code)
    assert state in done.stdout
    assert f"  {state}" in done.stderr
    found = json.loads(run("wait", task, "--json", code=code).stdout)
    assert (found["task"]["id"], found["task"]["state"]) == (task, state)


def test_a_wait_ends_after_its_timeout(run: Run, data: Path) -> None:
    with local_installation(data) as place:
        task = place.submit()
    assert "queued" in run("wait", task, "--timeout", "0", code=wait.STILL_WAITING).stdout
    assert "no duration" in run("wait", task, "--timeout", "soon", code=2).stderr


@pytest.mark.parametrize(
    ("queued", "note"), [(True, "No worker has claimed it yet"), (False, "`detent run` queues it")]
)
def test_a_wait_says_why_nothing_happens(
    run: Run, data: Path, monkeypatch: pytest.MonkeyPatch, queued: bool, note: str
) -> None:
    monkeypatch.setattr(wait, "NOTE_AFTER_S", 0.0)
    with local_installation(data) as place:
        task = place.submit(run=queued)
    waited = run("wait", task, "--timeout", "1", code=wait.STILL_WAITING)
    assert waited.stderr.count(note) == 1


def test_an_unknown_task_is_refused(run: Run, data: Path) -> None:
    with local_installation(data):
        pass
    assert "no task" in run("wait", "01m7qgrv61fp5shq07d472cbsy", code=3).stderr
