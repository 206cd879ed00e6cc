"""Real worker processes killed at work: what was done stays done, the rest is done by others."""

from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from detent.engine import Ask
from detent.ids import new_id
from detent.kernel import commands as c
from detent.operations.core import Core
from detent.store.port import Query
from detent.worker.handle import Handle
from tests.worker.fleet import SETTINGS, Fleet, app_of, marks
from tests.worker.waiting import installation, until

KILLS = 20


#: Short, so that lost work is soon taken up; long where a lease must not run out by itself.
SHORT_MS, LONG_MS = 800, 4_000


@pytest.fixture
def core(tmp_path: Path, url: str) -> Iterator[Core]:
    with installation(tmp_path, url, **SETTINGS) as made:
        yield made


@pytest.fixture
def fleet(core: Core, tmp_path: Path, url: str, request: pytest.FixtureRequest) -> Iterator[Fleet]:
    made = Fleet(tmp_path, url, getattr(request, "param", SHORT_MS))
    yield made
    made.stop()


def step_states(core: Core, job_id: str) -> Counter[str]:
    with core.store.read() as view:
        return Counter(step.state for step in view.steps([job_id]))


def in_flight(core: Core, job_id: str) -> list[str]:
    with core.store.read() as view:
        return [str(run.step) for run in view.live_runs([job_id])]


def holder_at_work(core: Core, fleet: Fleet, handle: Handle[Any], done_before: int) -> str | None:
    """The worker that has finished a step under this claim and is at another; else None."""
    job = handle.job()
    if job.state in ("completed", "failed"):
        return "nobody"
    progressed = step_states(core, job.id)["succeeded"] > done_before
    at_work = job.worker in fleet.processes and in_flight(core, job.id)
    return job.worker if progressed and at_work else None


@pytest.mark.timeout(300)
def test_a_plan_of_thirty_steps_survives_twenty_kills(core: Core, fleet: Fleet) -> None:
    handle = app_of(fleet.directory).bind(core).submit("thirty")
    hit: Counter[str] = Counter()
    kills_in_flight = 0
    for _ in range(KILLS):
        fleet.refill(2)
        done = step_states(core, handle.job_id)["succeeded"]
        holder = until(partial(holder_at_work, core, fleet, handle, done), "progress")
        if holder == "nobody":
            break
        fleet.kill(holder)
        live = in_flight(core, handle.job_id)
        kills_in_flight += bool(live)
        hit.update(live)
    fleet.refill(2)
    result = handle.result(timeout=60)
    assert len(result) == 30
    begun = fleet.begun()
    assert set(begun) == set(result)
    assert {name: count for name, count in begun.items() if count > 1 + hit[name]} == {}
    assert kills_in_flight >= 15


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
    assert [other.result(timeout=30) for other in others] == [None] * 20
    assert sum(words == ["poison"] for words in marks(fleet.directory)) == 4
    job = poison.job()
    assert (job.error_class, job.state) == ("lost", "failed")


@pytest.mark.timeout(300)
@pytest.mark.parametrize("fleet", [LONG_MS], indirect=True)
def test_three_workers_and_random_kills_lose_nothing(core: Core, fleet: Fleet) -> None:
    count = 10_000
    ids = [new_id() for _ in range(count)]
    asks = [Ask(c.SubmitJob(each, "default", "small"), c.Actor("test"), fresh=True) for each in ids]
    for at in range(0, count, 500):
        core.engine.ask(asks[at : at + 500], bulk=True)
    for kill in range(1, 6):
        fleet.refill(3)
        until(partial(_has_marks, fleet.directory, kill * 1_400), "work was done")
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
