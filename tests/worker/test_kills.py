"""Real worker processes killed at work: what was done stays done, the rest is done by others."""

from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from detent.app.handle import Handle
from detent.engine import CommandRequest
from detent.ids import new_id
from detent.kernel import commands as c
from detent.operations.context import Core
from detent.store.types import Query
from tests.sampling import sampled
from tests.worker.fleet import GO, SETTINGS, Fleet, app_of, marks
from tests.worker.waiting import DEADLINE_S, installation, until

KILLS = 20


#: Short, so that lost work is soon taken up; long where a lease should not run out by itself, and
#: so long that it never does.
SHORT_MS, LONG_MS, ENDLESS_MS = 800, 4_000, 3_600_000


@pytest.fixture
def core(tmp_path: Path, url: str) -> Iterator[Core]:
    with installation(tmp_path, url, **SETTINGS) as made:
        yield made


@pytest.fixture
def fleet(core: Core, tmp_path: Path, url: str, request: pytest.FixtureRequest) -> Iterator[Fleet]:
    made = Fleet(tmp_path, url, getattr(request, "param", SHORT_MS))
    yield made
    made.stop()


def in_flight(core: Core, job_id: str) -> list[str]:
    with core.store.read() as view:
        return [str(run.step) for run in view.live_runs([job_id])]


def at_work(core: Core, fleet: Fleet, handle: Handle[Any]) -> list[str]:
    """The steps that the holder of the job is at; none before a worker has claimed it."""
    return in_flight(core, handle.job_id) if handle.job().worker in fleet.processes else []


def has_ended(core: Core, job_id: str, name: str) -> bool:
    with core.store.read() as view:
        return any(step.name == name and step.state == "succeeded" for step in view.steps([job_id]))


@pytest.mark.timeout(900)
@pytest.mark.parametrize("url", sampled(["sqlite", "postgres"], 2), indirect=True)
@pytest.mark.parametrize("fleet", [ENDLESS_MS], indirect=True)
def test_a_plan_of_thirty_steps_survives_twenty_kills(core: Core, fleet: Fleet) -> None:
    """After each step that ends, its worker is killed in the midst of others."""
    handle = app_of(fleet.directory).bind(core).submit("thirty")
    hit: Counter[str] = Counter()
    for _ in range(KILLS):
        fleet.refill(2)
        held_up = until(partial(at_work, core, fleet, handle), "a worker claims it")
        name = max(held_up, key=lambda each: hit[each])
        (fleet.directory / f"{GO}-{name}").touch()
        until(partial(has_ended, core, handle.job_id, name), f"the end of {name}")
        until(partial(at_work, core, fleet, handle), "the next step")
        job = handle.job()
        fleet.kill(str(job.worker))
        live = in_flight(core, job.id)
        assert live
        hit.update(live)
        # As when its lease has expired; the test does not wait for that.
        core.engine.do(c.ReclaimJob(job.id, job.fence), c.Actor("clock"))
    (fleet.directory / GO).touch()
    fleet.refill(2)
    result = handle.result(timeout=DEADLINE_S)
    assert len(result) == 30
    begun = fleet.begun()
    assert set(begun) == set(result)
    assert {name: count for name, count in begun.items() if count > 1 + hit[name]} == {}


def test_a_job_that_kills_its_worker_is_quarantined_and_the_others_go_on(
    core: Core, fleet: Fleet
) -> None:
    app = app_of(fleet.directory).bind(core)
    poison = app.submit("poison")
    others = [app.submit("small") for _ in range(20)]

    def poisoned() -> bool:
        fleet.refill(2)
        return poison.state() == "failed"

    until(poisoned, "the quarantine")
    assert [other.result(timeout=DEADLINE_S) for other in others] == [None] * 20
    job = poison.job()
    assert (job.error_class, job.state) == ("lost", "failed")
    with core.store.read() as view:
        runs = view.page(Query("runs", {"job_id": job.id}, "queued_at"))
    assert [run["state"] for run in runs] == ["cancelled"] * 4
    # A claim may run out on a busy machine before its worker has come to die of it.
    assert 1 <= sum(words == ["poison"] for words in marks(fleet.directory)) <= 4


@pytest.mark.timeout(900)
@pytest.mark.parametrize("fleet", [LONG_MS], indirect=True)
def test_three_workers_and_random_kills_lose_nothing(core: Core, fleet: Fleet) -> None:
    count = 1_200
    ids = [new_id() for _ in range(count)]
    asks = [
        CommandRequest(c.SubmitJob(each, "default", "small"), c.Actor("test"), fresh=True)
        for each in ids
    ]
    for at in range(0, count, 400):
        core.engine.execute(asks[at : at + 400], bulk=True)
    for kill in range(1, 6):
        fleet.refill(3)
        until(partial(_has_marks, fleet.directory, kill * 160), "work was done")
        fleet.kill(next(iter(fleet.processes)))
    fleet.refill(3)
    until(lambda: _completed(core) == count, "all done")
    ended = Counter[str]()
    with core.store.read() as view:
        for event in view.events(0, 1_000_000):
            ended[event.stream] += event.name == "job_completed"
    assert ended == Counter(ids)
    done = Counter(words[1] for words in marks(fleet.directory))
    assert set(done) == set(ids)


def _has_marks(directory: Path, count: int) -> bool:
    return len(marks(directory)) >= count


def _completed(core: Core) -> int:
    with core.store.read() as view:
        return view.count_by(Query("jobs", {"state": "completed"}), "state").get("completed", 0)
