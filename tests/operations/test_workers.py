"""Workers as operators see them: what they hold, whether they live, and a drain."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from detent.app.app import App
from detent.engine.claims import ClaimAsk, waiting
from detent.errors import DetentError
from detent.worker.worker import Worker
from tests.operations.installation import OURS, Place, placed


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with placed(tmp_path) as made:
        row = {"host": "h", "pid": 7, "seen_at": made.clock(), "concurrency": 4, "intents": ["a"]}
        made.put("workers", {"w": row})
        yield made


def test_it_says_what_each_runs_and_when_it_was_heard_of(place: Place) -> None:
    task_id = place.submit()
    place.claim()
    (worker,) = place.call("list_workers")["items"]
    assert (worker["name"], worker["pid"], worker["alive"]) == ("w", 7, True)
    assert [(each["task_id"], each["intent"]) for each in worker["running"]] == [(task_id, "runQA")]
    (seen_by_others,) = place.call("list_workers", OURS)["items"]
    assert seen_by_others["running"] == []


def test_one_that_is_silent_for_a_lease_counts_as_gone(place: Place) -> None:
    place.clock.advance(seconds=29)
    assert place.call("list_workers")["items"][0]["alive"] is True
    place.clock.advance(seconds=2)
    assert place.call("list_workers")["items"][0]["alive"] is False


def test_a_drained_worker_claims_nothing_and_others_do(place: Place) -> None:
    place.submit()
    assert place.call("drain_worker", name="w") == {"name": "w", "draining": True}
    assert place.call("list_workers")["items"][0]["draining"] is True
    assert place.claim("w") == []
    assert place.core.engine.within(lambda tx: waiting(tx, ClaimAsk("w", "", 1))) is False
    assert place.core.engine.within(lambda tx: waiting(tx, ClaimAsk("v", "", 1))) is True
    assert len(place.claim("v")) == 1


def test_an_undrained_one_claims_again(place: Place) -> None:
    place.submit()
    place.call("drain_worker", name="w")
    place.call("undrain_worker", name="w")
    assert len(place.claim("w")) == 1
    assert place.rows("limits") == {}


def test_a_drain_ends_with_a_new_start_and_leaves_nothing_behind(place: Place) -> None:
    place.call("drain_worker", name="w")
    worker = Worker(place.core, App(), name="w")
    worker.start()
    assert place.rows("limits") == {}
    place.call("drain_worker", name="w")
    worker.stop()
    assert (place.rows("limits"), place.rows("workers")) == ({}, {})


def test_only_a_known_worker_is_drained_and_by_no_projects_token(place: Place) -> None:
    with pytest.raises(DetentError) as caught:
        place.call("drain_worker", name="nobody")
    assert (caught.value.code, caught.value.details["known"]) == ("not_found", ["w"])
    with pytest.raises(DetentError) as caught:
        place.call("drain_worker", OURS, name="w")
    assert caught.value.code == "forbidden"
