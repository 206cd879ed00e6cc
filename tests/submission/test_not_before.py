"""Delayed submissions: not started before their time, kept over a restart, explained by `why`."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from detent.app.app import App
from detent.app.run_context import Run
from detent.engine.claims import ClaimRequest
from detent.errors import Invalid, Refused
from detent.kernel import commands as c
from detent.operations.context import Core
from detent.operations.registry import OWNER, call
from detent.submission.not_before import Delay, delay_from
from detent.testing.harness import Harness
from detent.views import utc
from tests.operations.installation import LocalInstallation, local_installation
from tests.worker.waiting import done, installation, until

MINUTE_US = 60_000_000

# ---- parsing ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("90s", Delay(delay=90_000_000)),
        ("10m", Delay(delay=10 * MINUTE_US)),
        ("1h30m", Delay(delay=90 * MINUTE_US)),
        ("2d", Delay(delay=2 * 1_440 * MINUTE_US)),
        ("0s", Delay()),
        ("2030-01-01T12:00:00Z", Delay(1_893_499_200_000_000)),
        ("2030-01-01t12:00:00.5z", Delay(1_893_499_200_500_000)),
        ("2030-01-01T13:00:00+01:00", Delay(1_893_499_200_000_000)),
    ],
)
def test_a_time_or_a_delay(given: str, meant: Delay) -> None:
    assert delay_from(given) == meant


@pytest.mark.parametrize(
    "given",
    *[
        [
            *("", "10", "m", "10x", "-10m", "1.5h", "10 m", "9999d", "tomorrow"),
            *("2030-01-01", "2030-01-01T12:00:00", "12:00:00Z", "2030-13-01T12:00:00Z"),
        ]
    ],
)
def test_anything_else_is_refused_with_both_forms(given: str) -> None:
    with pytest.raises(Invalid, match="not_before must be a time with a time zone") as refused:
        delay_from(given)
    assert (refused.value.field, len(refused.value.allowed)) == ("not_before", 2)


# ---- behaviour -------------------------------------------------------------------------------


@pytest.fixture
def installed(tmp_path: Path) -> Iterator[LocalInstallation]:
    with local_installation(tmp_path) as made:
        yield made


@pytest.mark.parametrize("operation", ["submit_task", "submit_job"])
def test_it_is_claimed_when_its_time_has_come_and_not_before(
    installed: LocalInstallation, operation: str
) -> None:
    run = {"run": True} if operation == "submit_task" else {}
    made = installed.call(operation, intent="runQA", not_before="10m", **run)["id"]
    due = installed.clock() + 10 * MINUTE_US
    why = "why" if operation == "submit_task" else "job_why"
    id_of = {"task_id": made} if operation == "submit_task" else {"job_id": made}
    first = installed.call(why, **id_of)["reasons"][0]
    assert (first["reason"], first["looks_again_at"]) == ("not_before", utc(due))
    assert installed.claim() == []
    installed.clock.advance(seconds=599)
    assert installed.claim() == []
    installed.clock.advance(seconds=1)
    (claimed,) = installed.claim()
    assert made in (claimed.job.id, claimed.job.task_id)


def test_a_claim_by_name_is_refused_before_the_time(installed: LocalInstallation) -> None:
    job_id = installed.call("submit_job", intent="runQA", not_before="10m")["id"]
    with pytest.raises(Refused) as refused:
        installed.core.engine.do(c.ClaimJob(job_id, "w", "n"), c.Actor("worker:w"))
    assert refused.value.code == "not_claimable"


def test_a_time_that_has_passed_delays_nothing(installed: LocalInstallation) -> None:
    installed.submit(not_before="2020-01-01T00:00:00Z")
    assert len(installed.claim()) == 1


def test_its_rank_and_its_limits_count_from_its_time(installed: LocalInstallation) -> None:
    options = {"queue_timeout_ms": 1_000, "job_timeout_ms": 2_000}
    late = installed.submit(not_before="10m", options=options)
    installed.clock.advance(seconds=599)
    installed.submit()
    assert installed.call("show_task", task_id=late)["state"] == "queued"
    installed.clock.advance(seconds=1)
    assert [each.task.id == late for each in installed.claim() if each.task] == [False, True]


def test_a_pending_task_is_delayed_when_it_is_run(installed: LocalInstallation) -> None:
    task_id = installed.submit(not_before="10m", run=False)
    installed.call("run_task", task_id=task_id)
    assert installed.claim() == []
    installed.clock.advance(seconds=600)
    assert len(installed.claim()) == 1


def test_the_same_key_with_the_same_delay_is_one_task(installed: LocalInstallation) -> None:
    first = installed.submit(not_before="10m", idempotency_key="k")
    installed.clock.advance(seconds=60)
    assert installed.submit(not_before="10m", idempotency_key="k") == first
    with pytest.raises(Refused):
        installed.submit(not_before="20m", idempotency_key="k")


def test_the_time_is_shown_in_the_reasons(installed: LocalInstallation) -> None:
    task_id = installed.submit(not_before="2040-01-01T00:00:00Z")
    shown = installed.call("show_task", task_id=task_id)
    assert shown["options"]["not_before"] == "2040-01-01T00:00:00.000Z"
    (job,) = installed.call("task_jobs", task_id=task_id)["items"]
    assert job["not_before"] == "2040-01-01T00:00:00.000Z"


def test_a_delay_survives_a_restart(tmp_path: Path, url: str) -> None:
    ask = ClaimRequest("w", "n", 10)
    with installation(tmp_path, url) as first:
        made = _submitted(first, not_before="2s")
        _submitted(first, not_before="1h")
    with installation(tmp_path, url) as second:
        (claimed,) = until(lambda: second.engine.claim(ask))
        assert claimed.job.id == made
        with second.store.read() as view:
            assert view.now() >= claimed.job.not_before
        grant, run_id = claimed.grant, str(claimed.job.run_id)
        second.engine.do(c.CompleteRun(grant, run_id, None, 0), c.Actor("worker:w"))


def _submitted(core: Core, **fields: Any) -> str:
    core.intents = {"runQA": {}}
    made: str = call("submit_job", core, OWNER, intent="runQA", **fields)["id"]
    return made


# ---- entry points in Python ------------------------------------------------------------------


def test_an_app_and_a_run_delay_too() -> None:
    app = App()

    @app.intent("part")
    def part() -> int:
        return 7

    @app.intent("whole")
    def whole(run: Run) -> list[Any]:
        return run.gather([run.subtask(part, not_before="10m")])

    h = Harness(app)
    handle = h.submit("whole", not_before="1h")
    begun = h.clock()
    assert h.drain() == 0
    h.drain(advance=True)
    assert done(handle) == [7]
    assert h.clock() - begun == 70 * MINUTE_US
