"""The keeper: the election of one leader, and each of its duties."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from detent.engine import Engine
from detent.engine.claims import ClaimRequest
from detent.errors import NotFound
from detent.keeper import retention_sweep, state_file, timers, unblocker
from detent.keeper.keeper import Duty, Keeper, _pause_us
from detent.keeper.unblocker import Unblocker
from detent.kernel import commands as c
from detent.operations import store_time
from detent.operations.context import Core
from detent.operations.installation import figures, system_figures
from detent.operations.registry import OWNER
from detent.settings import Settings
from detent.store.sqlite import SqliteStore
from detent.store.store_url import open_store
from detent.testing.audit import audit
from detent.testing.clock import VirtualClock

PERSON = c.Actor("person")
DAY_S = 86_400
DUTY = Duty("note", 10_000, lambda _: 1)


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def core(tmp_path: Path, clock: VirtualClock) -> Iterator[Core]:
    store = open_store(str(tmp_path / "detent.db"), clock=clock)
    yield Core(store, Engine(store), Settings(store_data_dir=str(tmp_path)), {"x": {}})
    audit(store)
    store.close()


def submit(core: Core, task_id: str, lifecycle: str = "board", **more: object) -> None:
    command = c.SubmitTask(task_id, "p", lifecycle, "x", "cli", queue=True, **more)  # type: ignore[arg-type]
    core.engine.do(command, PERSON)


def claim(core: Core) -> c.Grant:
    (claimed,) = core.engine.claim(ClaimRequest("w", "nonce", 1))
    return claimed.grant


def finish(core: Core, grant: c.Grant) -> None:
    core.engine.do(c.CompleteRun(grant, f"{grant.job_id}-r1", None, 0), PERSON)


def task_state(core: Core, task_id: str) -> str:
    return core.task(OWNER, task_id)[0].state


def test_one_keeper_leads_until_it_resigns_or_its_term_ends(
    core: Core, clock: VirtualClock
) -> None:
    done: list[str] = []

    def keeper(name: str) -> Keeper:
        def note(_: Core) -> int:
            done.append(name)
            return 1

        return Keeper(core, name, [Duty("note", 0, note)])

    first, second = keeper("first"), keeper("second")
    first.run_once()
    second.run_once()
    assert done == ["first"]
    clock.advance(seconds=16)
    second.run_once()
    first.run_once()
    assert done == ["first", "second"]
    second.stop()
    first.run_once()
    assert done == ["first", "second", "first"]


def test_a_leader_with_a_fast_clock_is_replaced_after_a_term(
    core: Core, clock: VirtualClock
) -> None:
    """The keeper with the fast clock is killed: the next one leads after one term."""
    fast = Keeper(core, "fast", [])
    clock.advance(seconds=3_600)
    fast.run_once()
    clock.set(clock.now - 3_600_000_000)
    other = SqliteStore(core.store.url.removeprefix("sqlite://"), clock)
    second = Keeper(Core(other, Engine(other), core.settings), "second", [DUTY])
    assert second.run_once() == 0
    clock.advance(seconds=16)
    assert second.run_once() == 1
    other.close()


def test_the_keeper_continues_after_a_clock_reset(core: Core, clock: VirtualClock) -> None:
    clock.advance(seconds=3_600)
    submit(core, "t1")
    first, second = Keeper(core, "first", [DUTY]), Keeper(core, "second", [DUTY])
    assert (first.run_once(), second.run_once()) == (1, 0)
    clock.set(clock.now - 3_600_000_000)
    assert store_time.reset(core.store) == 3_600_000_000
    assert (first.run_once(), second.run_once()) == (1, 0)
    clock.advance(seconds=16)
    assert (second.run_once(), first.run_once()) == (1, 0)


@pytest.mark.parametrize("error", [NotFound("nothing is there"), RecursionError("too deep")])
def test_a_duty_that_fails_does_not_stop_the_others(core: Core, error: Exception) -> None:
    def fail(_: Core) -> int:
        raise error

    keeper = Keeper(core, "k", [Duty("bad", 0, fail), Duty("good", 0, lambda _: 7)])
    assert keeper.run_once() == 7


@pytest.mark.parametrize(("share", "pause_us"), [(None, 1_000_000), (0.05, 40_000_000)])
def test_a_count_that_takes_long_is_made_less_often(share: float | None, pause_us: int) -> None:
    assert _pause_us(Duty("count", 1_000, lambda _: 1, share), took_s=2.0, did=1) == pause_us


@pytest.mark.parametrize(("did", "pause_us"), [(9, 5_000_000), (10, 1_000_000)])
def test_a_pass_with_more_to_do_is_not_delayed(did: int, pause_us: int) -> None:
    duty = Duty("seal", 1_000, lambda _: 1, 0.05, full=10, max_ms=5_000)
    assert _pause_us(duty, took_s=2.0, did=did) == pause_us
    assert _pause_us(duty, took_s=0.1, did=9) == 2_000_000


def test_durations_and_queue_delays_are_those_of_runs_that_ended(
    core: Core, clock: VirtualClock
) -> None:
    for task, seconds in (("t1", 2), ("t2", 4)):
        submit(core, task)
        clock.advance(seconds=1)
        grant = claim(core)
        clock.advance(seconds=seconds)
        finish(core, grant)
    found = figures(core)
    assert (found.p50_duration_ms, found.p95_duration_ms) == (2_000, 4_000)
    submit(core, "t3")
    clock.advance(seconds=9)
    system = system_figures(core)
    assert (system.p50_queue_delay_ms, system.p95_queue_delay_ms) == (1_000, 1_000)
    assert system.oldest_queued_ms == 9_000


def test_the_job_of_a_lost_worker_is_requeued(core: Core, clock: VirtualClock) -> None:
    submit(core, "t")
    claim(core)
    assert timers.run(core) == 0
    clock.advance(seconds=31)
    assert timers.run(core) == 1
    assert task_state(core, "t") == "todo"


def test_a_retry_that_is_due_unblocks_its_task(core: Core, clock: VirtualClock) -> None:
    submit(core, "t")
    grant = claim(core)
    core.engine.do(c.FailRun(grant, "t-j1-r1", "network", "no route"), PERSON)
    assert task_state(core, "t") == "blocked"
    keeper = Unblocker()
    assert keeper.run(core) == 0
    clock.advance(seconds=31)
    assert keeper.run(core) == 1
    assert task_state(core, "t") == "todo"


def test_tasks_that_stay_blocked_do_not_keep_others_from_being_unblocked(
    core: Core, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unblocker, "MAX_ROWS", 2)
    submit(core, "open")
    for number in range(4):
        submit(core, f"waits-{number}", depends_on=("open",))
    clock.advance(seconds=1)
    submit(core, "t", priority="P0")
    core.engine.do(c.CancelTask("open"), PERSON)
    grant = claim(core)
    core.engine.do(c.FailRun(grant, "t-j1-r1", "network", "no route"), PERSON)
    clock.advance(seconds=31)
    keeper = Unblocker()
    assert [keeper.run(core) for _ in range(4)] == [0, 0, 1, 0]
    assert task_state(core, "t") == "todo"


@pytest.mark.parametrize(
    ("lifecycle", "end", "days"),
    [
        ("board", "done", 30),
        ("board", "cancelled", 7),
        ("board", "failed", 14),
        ("review", "failed", 14),
    ],
)
def test_ended_work_is_deleted_after_its_retention_time(
    core: Core, clock: VirtualClock, lifecycle: str, end: str, days: int
) -> None:
    submit(core, "t", lifecycle, options={"retry": {"max_attempts": 1}})
    if end == "cancelled":
        core.engine.do(c.CancelTask("t"), PERSON)
    else:
        grant = claim(core)
        if end == "done":
            finish(core, grant)
        else:
            core.engine.do(c.FailRun(grant, "t-j1-r1", "error", "bad"), PERSON)
    clock.advance(seconds=days * DAY_S - 60)
    assert retention_sweep.run(core) == 0
    clock.advance(seconds=120)
    assert retention_sweep.run(core) == 1
    with pytest.raises(NotFound):
        core.task(OWNER, "t")


def test_live_work_is_never_deleted(core: Core, clock: VirtualClock) -> None:
    submit(core, "t")
    clock.advance(seconds=400 * DAY_S)
    assert retention_sweep.run(core) == 0
    assert task_state(core, "t") == "todo"


def test_state_json_shows_queue_last_run_and_health(core: Core, tmp_path: Path) -> None:
    submit(core, "t")
    state_file.refresh(core)
    document = json.loads((tmp_path / "state.json").read_text())
    assert (document["queueLength"], document["lastRun"]) == (1, None)
    finish(core, claim(core))
    state_file.heartbeat(core)
    document = json.loads((tmp_path / "state.json").read_text())
    assert document["queueLength"] == 0
    assert document["lastRun"]["id"] == "t-j1-r1"
    assert document["stats"] == {"succeeded": 1}
    assert document["health"] == "ok"
    assert document["lastHeartbeat"]
    with core.store.read() as view:
        assert view.rows("system_state")["health"] == "ok"
