"""The worker's parts one by one: the engine client, the reporter, due times, isolation."""

import asyncio
import threading
from time import monotonic
from types import SimpleNamespace
from typing import Any

import pytest

from detent.app import retried_calls
from detent.engine import CommandRequest, CommandResult, Engine, PendingResults, due_timers
from detent.engine.claims import ClaimRequest
from detent.errors import Refused, StoreUnavailable, Unavailable
from detent.kernel import commands as c
from detent.kernel.entities import Job
from detent.store.memory import MemoryStore
from detent.store.types import LoggedEvent
from detent.testing.audit import audit
from detent.testing.clock import VirtualClock
from detent.transfer.archive import History
from detent.worker import engine_client
from detent.worker import reporter as reporter_module
from detent.worker.active_run import HeldJob
from detent.worker.due_times import Alarms
from detent.worker.engine_client import EngineClient, WorkerEngineClient
from detent.worker.held_jobs import HeldJobs
from detent.worker.pace import FEWEST_RUNS, LEAST_COST_S, Pace
from detent.worker.pools import Threads
from detent.worker.reporter import Reporter
from detent.worker.step_history import earlier_results
from detent.worker.suspect_jobs import MAX_WAIT_S, Isolation, is_suspect
from tests.worker.waiting import DEADLINE_S, until

ACTOR = c.Actor("test")
S = 1_000_000


# ---- the engine client --------------------------------------------------------------------


class Flaky:
    """An engine with prepared answers, one for each try."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.tries = 0

    def do(self, command: c.Command, actor: c.Actor, **options: Any) -> Any:
        self.tries += 1
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def enqueue(self, asks: list[CommandRequest]) -> PendingResults:
        self.tries += 1
        posted = PendingResults()
        posted.set_result([self.answers.pop(0)] * len(asks))
        return posted

    def serve(self, future: PendingResults) -> None:
        assert future.done()


AWAY = Unavailable("the store is unavailable", retry_after_s=1)
USED = Refused("used", code="name_used_twice")


def test_a_call_is_retried_while_the_store_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(
        engine_client, "time", SimpleNamespace(monotonic=monotonic, sleep=pauses.append)
    )
    engine: Any = Flaky(AWAY, AWAY, "done")
    assert EngineClient(engine, "w").execute(c.RestPlan(c.Grant("j", 1, "n"))) == "done"
    assert pauses == [0.05, 0.1]


def test_a_name_recorded_by_a_try_whose_answer_was_lost_is_recorded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        engine_client, "time", SimpleNamespace(monotonic=monotonic, sleep=lambda _: None)
    )
    engine: Any = Flaky(AWAY, USED)
    assert EngineClient(engine, "w").execute(c.RestPlan(c.Grant("j", 1, "n"))) is None
    first: Any = Flaky(USED)
    with pytest.raises(Refused):
        EngineClient(first, "w").execute(c.RestPlan(c.Grant("j", 1, "n")))


def test_retries_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retried_calls, "RETRY_S", 0.0)
    engine: Any = Flaky(AWAY)
    with pytest.raises(Unavailable):
        EngineClient(engine, "w").execute(c.RestPlan(c.Grant("j", 1, "n")))


STORE_AWAY = StoreUnavailable("the database cannot be reached", retry_after_s=1)


def test_a_run_asks_as_long_as_its_lease_for_a_store_that_is_unavailable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The lease can be longer than other calls are retried."""
    monkeypatch.setattr(retried_calls, "RETRY_S", 0.0)
    lease_over, command = held(HeldJobs(), "j").expired, c.RestPlan(c.Grant("j", 1, "n"))
    engine: Any = Flaky(STORE_AWAY, "done")
    assert EngineClient(engine, "w").execute(command, lease_over=lease_over) == "done"

    posted: Any = Flaky(STORE_AWAY, STORE_AWAY, CommandResult("done"))
    reporter = Reporter(posted)
    reporter.start()
    client = WorkerEngineClient(posted, "w", reporter)
    assert asyncio.run(client.execute_async(command, lease_over=lease_over)) == "done"
    reporter.stop()

    bucket: Any = Flaky(AWAY)
    with pytest.raises(Unavailable):
        EngineClient(bucket, "w").execute(command, lease_over=lease_over)


def test_a_report_is_sent_again_while_the_store_is_unavailable() -> None:
    engine: Any = Flaky(AWAY, AWAY, CommandResult("completed"))
    reporter = Reporter(engine)
    results: list[Any] = []
    reporter.start()
    ask = CommandRequest(c.HandBack(c.Grant("j", 1, "n")), ACTOR)
    reporter.report(ask, lambda _, result: results.append(result))
    until(lambda: results)
    reporter.stop()
    assert results == [CommandResult("completed")]
    assert engine.tries == 3


def test_a_stopping_reporter_sends_a_report_again(monkeypatch: pytest.MonkeyPatch) -> None:
    engine: Any = Flaky(AWAY, AWAY, CommandResult("completed"))
    reporter = Reporter(engine)
    results: list[Any] = []
    ask = CommandRequest(c.HandBack(c.Grant("j", 1, "n")), ACTOR)
    reporter.report(ask, lambda _, result: results.append(result))
    reporter.start()
    reporter.stop()
    assert results == [CommandResult("completed")]
    # A store that stays unavailable does not keep the worker from stopping.
    monkeypatch.setattr(reporter_module, "STOP_S", 0.0)
    stopped = Reporter(Flaky(AWAY, AWAY))  # type: ignore[arg-type]
    stopped.report(ask, lambda _, result: results.append(result))
    stopped.start()
    stopped.stop()
    assert len(results) == 1


def test_a_query_is_repeated_while_the_store_is_unavailable() -> None:
    store = MemoryStore()
    client = EngineClient(Engine(store), "w")
    answers: list[Any] = [AWAY, AWAY, 7]

    def read(view: object) -> int:
        answer = answers.pop(0)
        if isinstance(answer, Unavailable):
            raise answer
        return int(answer)

    assert client.query(read) == 7
    answers = [AWAY]
    with pytest.raises(Unavailable):
        client.query(read, lambda: True)


# ---- due times -----------------------------------------------------------------------------


def installed() -> tuple[VirtualClock, Engine]:
    clock = VirtualClock()
    return clock, Engine(MemoryStore(clock))


def pass_once(engine: Engine) -> int:
    return engine.transaction(lambda tx: due_timers.run(tx, 100, engine.lifetimes))


def state_of(engine: Engine, job_id: str) -> str:
    with engine.store.read() as view:
        return next(job.state for job, _ in view.jobs([job_id]))


def test_time_brings_lost_leases_ended_waits_and_passed_limits() -> None:
    clock, engine = installed()
    for name, options in (("lost", {}), ("waits", {}), ("late", {"queue_timeout_ms": 20_000})):
        engine.do(c.SubmitJob(name, "default", name, options=options), ACTOR)
    engine.claim(ClaimRequest("w", "n", 1, ["lost"]))
    claimed = engine.claim(ClaimRequest("w", "n", 1, ["waits"]))[0]
    wait = c.SuspendRun(
        claimed.grant, claimed.job.run_id or "", "nap", "timer", due_at=clock.now + 10 * S
    )
    engine.do(wait, ACTOR)
    assert pass_once(engine) == 0
    clock.advance(seconds=31)
    assert pass_once(engine) == 3
    states = [state_of(engine, name) for name in ("lost", "waits", "late")]
    assert states == ["queued", "queued", "cancelled"]
    assert pass_once(engine) == 0
    audit(engine.store)


def test_a_pass_is_bounded() -> None:
    clock, engine = installed()
    for number in range(5):
        engine.do(c.SubmitJob(f"j{number}", "default", "x"), ACTOR)
    engine.claim(ClaimRequest("w", "n", 5, None))
    clock.advance(seconds=31)
    passes = [
        engine.transaction(lambda tx: due_timers.run(tx, 2, engine.lifetimes)) for _ in range(4)
    ]
    assert passes == [2, 2, 1, 0]


def test_alarms_go_off_once() -> None:
    alarms = Alarms()
    assert alarms.next_s(0) == float("inf")
    alarms.add(3 * S)
    alarms.add(1 * S)
    assert alarms.next_s(0) == 1.0
    assert not alarms.due(S - 1)
    assert alarms.due(S)
    assert not alarms.due(S)
    assert alarms.next_s(S) == 2.0


# ---- isolation and pace --------------------------------------------------------------------


def held(held_jobs: HeldJobs, job_id: str, lost: int = 0) -> HeldJob:
    job = Job(job_id, "default", "running", 0, "x", "P2", 0, job_id, lost=lost)
    claimed: Any = type("Claimed", (), {})()
    claimed.grant, claimed.job = c.Grant(job_id, 1, "n"), job
    claimed.task, claimed.payload = None, None
    held = HeldJob(claimed)
    held_jobs.add(held)
    return held


def test_a_suspect_begins_when_it_is_alone_or_has_waited_long() -> None:
    held_jobs = HeldJobs()
    other, suspect = held(held_jobs, "other"), held(held_jobs, "suspect", lost=2)
    assert is_suspect(suspect.job)
    assert not is_suspect(other.job)
    begun: list[str] = []
    isolation = Isolation(held_jobs)
    isolation.take(suspect, lambda: begun.append("suspect"))
    assert (isolation.is_active(), isolation.careful, begun) == (True, True, [])
    held_jobs.drop(other)
    isolation.check(0)
    isolation.check(0)
    assert begun == ["suspect"]
    held_jobs.drop(suspect)
    assert not isolation.is_active()

    third, late = held(held_jobs, "third"), held(held_jobs, "late", lost=3)
    isolation.take(late, lambda: begun.append("late"))
    isolation.check(isolation._since_s + MAX_WAIT_S + 1)
    assert begun == ["suspect", "late"]
    assert third.stopped is None


def test_the_cost_of_an_intent_is_known_after_some_short_runs() -> None:
    pace = Pace(slots=4)
    for _ in range(FEWEST_RUNS - 1):
        pace.note("tiny", 0.000_002)
    assert pace.costs(["tiny"]) == {}
    pace.note("tiny", 0.000_002)
    for _ in range(50):
        pace.note("short", 0.004)
        pace.note("long", 0.5)
    costs = pace.costs(["tiny", "short", "long", "unknown"])
    assert costs.keys() == {"tiny", "short"}
    assert costs["tiny"] == LEAST_COST_S
    assert costs["short"] == pytest.approx(0.001, rel=0.01)
    assert [pace.tiny(each) for each in ("tiny", "short", "unknown")] == [True, False, False]
    pace.note("tiny", 1.0)
    assert pace.costs(["tiny"]) == {}


def test_the_interval_between_ends_counts_if_it_is_longer() -> None:
    pace = Pace(slots=4)
    for number in range(500):
        pace.note("tiny", 0.000_002)
        pace.note_end(number * 0.002, others_wait=True)
    assert pace.costs(["tiny"])["tiny"] == pytest.approx(0.002, rel=0.01)
    pace.note_end(1.0, others_wait=False)
    pace.note_end(100.0, others_wait=True)  # nothing waited meanwhile
    assert pace.costs(["tiny"])["tiny"] == pytest.approx(0.002, rel=0.01)


def test_runs_that_vary_cost_more_than_their_mean() -> None:
    pace = Pace(slots=4)
    for number in range(100):
        pace.note("varies", 0.03 if number % 10 == 0 else 0.000_1)
    assert pace.costs(["varies"])["varies"] > 2 * 0.003 / 4


def test_a_pool_goes_on_without_a_thread_that_was_abandoned() -> None:
    release = threading.Event()
    done: list[int] = []

    def carry(item: Any) -> None:
        item()

    def stuck() -> None:
        release.wait(DEADLINE_S)

    pool = Threads(1, carry, lambda: None)
    pool.put([stuck])
    until(lambda: pool.busy() == 1)
    pool.abandon(stuck)  # type: ignore[arg-type]
    pool.put([lambda: done.append(1)])
    until(lambda: done)
    release.set()
    pool.stop()


# ---- what a critic is shown ----------------------------------------------------------------


def test_a_critic_is_shown_every_earlier_run_however_long_the_history_is() -> None:
    begun = '{"worker": "w", "fence": 1, "attempt": 1, "step": "build"}'
    between = [("checkpoint_recorded", f"c{number}", "{}") for number in range(10_000)]
    ended = ("run_failed", "r1", '{"error_class": "error", "error": "no"}')
    rows = [("run_queued", "r1", begun), *between, ended]
    log: Any = History(
        [
            LoggedEvent(at, "job", at, "p", name, 1, subject, 0, "worker:w", data, None)
            for at, (name, subject, data) in enumerate(rows, 1)
        ]
    )
    (only,) = earlier_results(log, "job", "build")
    assert (only.run_id, only.state, only.error) == ("r1", "failed", "no")
