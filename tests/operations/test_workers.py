"""Workers: their jobs, whether they are alive, and draining them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from detent.app.app import App
from detent.engine.claims import ClaimRequest, waiting
from detent.errors import DetentError
from detent.worker.worker import Worker
from tests.operations.installation import OURS, LocalInstallation, local_installation


@pytest.fixture
def installed(tmp_path: Path) -> Iterator[LocalInstallation]:
    with local_installation(tmp_path) as made:
        row = {"host": "h", "pid": 7, "seen_at": made.clock(), "concurrency": 4, "intents": ["a"]}
        made.put("workers", {"w": row})
        yield made


def test_workers_are_listed_with_their_jobs_and_heartbeats(installed: LocalInstallation) -> None:
    task_id = installed.submit()
    installed.claim()
    (worker,) = installed.call("list_workers")["items"]
    assert (worker["name"], worker["pid"], worker["alive"]) == ("w", 7, True)
    assert [(each["task_id"], each["intent"]) for each in worker["running"]] == [(task_id, "runQA")]
    (seen_by_others,) = installed.call("list_workers", OURS)["items"]
    assert seen_by_others["running"] == []


def test_a_worker_without_a_heartbeat_for_a_lease_is_not_alive(
    installed: LocalInstallation,
) -> None:
    installed.clock.advance(seconds=29)
    assert installed.call("list_workers")["items"][0]["alive"] is True
    installed.clock.advance(seconds=2)
    assert installed.call("list_workers")["items"][0]["alive"] is False


def test_a_drained_worker_claims_nothing_and_others_do(installed: LocalInstallation) -> None:
    installed.submit()
    assert installed.call("drain_worker", name="w") == {"name": "w", "draining": True}
    assert installed.call("list_workers")["items"][0]["draining"] is True
    assert installed.claim("w") == []
    assert (
        installed.core.engine.transaction(lambda tx: waiting(tx, ClaimRequest("w", "", 1))) is False
    )
    assert (
        installed.core.engine.transaction(lambda tx: waiting(tx, ClaimRequest("v", "", 1))) is True
    )
    assert len(installed.claim("v")) == 1


def test_an_undrained_worker_claims_again(installed: LocalInstallation) -> None:
    installed.submit()
    installed.call("drain_worker", name="w")
    installed.call("undrain_worker", name="w")
    assert len(installed.claim("w")) == 1
    assert installed.rows("limits") == {}


def test_a_drain_ends_with_a_new_start_and_leaves_nothing_behind(
    installed: LocalInstallation,
) -> None:
    installed.call("drain_worker", name="w")
    worker = Worker(installed.core, App(), name="w")
    worker.start()
    assert installed.rows("limits") == {}
    installed.call("drain_worker", name="w")
    worker.stop()
    assert (installed.rows("limits"), installed.rows("workers")) == ({}, {})


def test_only_a_known_worker_is_drained_and_by_no_projects_token(
    installed: LocalInstallation,
) -> None:
    with pytest.raises(DetentError) as caught:
        installed.call("drain_worker", name="missing")
    assert (caught.value.code, caught.value.details["known"]) == ("not_found", ["w"])
    with pytest.raises(DetentError) as caught:
        installed.call("drain_worker", OURS, name="w")
    assert caught.value.code == "forbidden"
