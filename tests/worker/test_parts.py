"""The worker's parts one by one: the line, the reporter, files of a run, due times, isolation."""

import json
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from types import SimpleNamespace
from typing import Any, BinaryIO

import pytest

from detent import redaction
from detent.engine import CommandRequest, CommandResult, Engine, PendingResults, due_timers
from detent.engine.claims import ClaimRequest
from detent.errors import Invalid, Refused, TooLarge, Unavailable
from detent.kernel import commands as c
from detent.kernel.entities import Job
from detent.store.blobs import Blob
from detent.store.memory import MemoryStore
from detent.store.types import LoggedEvent
from detent.testing.audit import audit
from detent.testing.clock import VirtualClock
from detent.transfer.archive import History
from detent.worker import engine_client, run_files
from detent.worker.active_run import HeldJob
from detent.worker.due_times import Alarms
from detent.worker.engine_client import EngineClient
from detent.worker.held_jobs import HeldJobs
from detent.worker.pace import FEWEST_RUNS, LEAST_COST_S, Pace
from detent.worker.pools import Threads
from detent.worker.reporter import Reporter
from detent.worker.retried_blobs import RetriedBlobs
from detent.worker.run_files import RunFiles
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
    monkeypatch.setattr(engine_client, "RETRY_S", 0.0)
    engine: Any = Flaky(AWAY)
    with pytest.raises(Unavailable):
        EngineClient(engine, "w").execute(c.RestPlan(c.Grant("j", 1, "n")))


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


# ---- files of a run ------------------------------------------------------------------------


def test_output_is_appended_up_to_its_limit(tmp_path: Path) -> None:
    run = RunFiles(tmp_path, "r1", max_output=10)
    assert not (tmp_path / "r1").exists()
    run.write("12345")
    run.write(b"67890abc")
    run.write("more")
    assert run.output() == b"1234567890" + run_files.CUT


def test_output_that_reaches_its_limit_exactly_is_cut_by_what_follows(tmp_path: Path) -> None:
    run = RunFiles(tmp_path, "r1", max_output=10)
    run.write("1234567890")
    assert run.output() == b"1234567890"
    run.write("more")
    run.write("more")
    assert run.output() == b"1234567890" + run_files.CUT


def test_output_that_was_cut_before_it_arrived_says_so_once(tmp_path: Path) -> None:
    redaction.remember(["a-secret-that-is-long"])
    run = RunFiles(tmp_path, "r1", max_output=100)
    run.write(b"the key is a-secret-that-is-long, not a-sec")
    run.cut_output()
    run.cut_output()
    run.write("more")
    run.end_output()
    # The possible beginning of a secret is not written.
    assert run.output() == b"the key is [secret], not " + run_files.CUT


def test_evidence_is_stored_when_the_store_is_available_again(tmp_path: Path) -> None:
    stored = MemoryStore().blobs

    class Away:
        tries = 0

        def put(self, file: BinaryIO) -> Blob:
            self.tries += 1
            if self.tries < 3:
                file.read(2)  # a part was sent before the connection was lost
                raise AWAY
            return stored.put(file)

    blobs: Any = Away()
    kept = RunFiles(tmp_path, "r1", blobs=RetriedBlobs(blobs)).keep("a.log", "text")
    assert blobs.tries == 3
    assert b"".join(stored.read(kept.sha256)) == b"text"


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


@pytest.mark.parametrize("name", ["../x", "a/b", ".hidden", "", " x"])
def test_evidence_has_a_plain_name(tmp_path: Path, name: str) -> None:
    with pytest.raises(Invalid):
        RunFiles(tmp_path, "r1").keep(name, "x")


@pytest.mark.parametrize("run_id", ["../r", "a/b", ".r"])
def test_a_run_id_stays_inside_the_directory(tmp_path: Path, run_id: str) -> None:
    with pytest.raises(Invalid):
        RunFiles(tmp_path, run_id)


def test_evidence_is_kept_with_kind_size_and_digest(tmp_path: Path) -> None:
    run = RunFiles(tmp_path, "r1")
    source = tmp_path / "shot"
    source.write_bytes(b"png")
    kept = [run.keep("a.log", "text"), run.keep("b.png", source), run.keep("c.json", {"n": 1})]
    assert [(each.file, each.kind, each.size) for each in kept] == [
        ("a.log", "log", 4),
        ("b.png", "screenshot", 3),
        ("c.json", "artifact", 11),
    ]
    digest = "982d9e3eb996f559e633f4d194def3761d909f5a3b647d1a851fead67c32c9d1"
    assert kept[0].sha256 == digest
    assert kept[1].media_type == "image/png"


def test_evidence_over_the_limit_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_files, "MAX_EVIDENCE_BYTES", 10)
    run = RunFiles(tmp_path, "r1")
    large = tmp_path / "large"
    large.write_bytes(b"x" * 11)
    for content in (b"x" * 11, large):
        with pytest.raises(TooLarge):
            run.keep("a.txt", content)


def test_only_plain_files_of_their_own_are_collected(tmp_path: Path) -> None:
    run = RunFiles(tmp_path, "r1")
    evidence = run.directory("evidence")
    (evidence / "good.txt").write_text("good")
    (evidence / "deep").mkdir()
    (evidence / "deep" / "QA-DECISION.md").write_text("pass")
    outside = tmp_path / "secret"
    outside.write_text("secret")
    (evidence / "symlink.txt").symlink_to(outside)
    os.link(outside, evidence / "hardlink.txt")
    os.mkfifo(evidence / "pipe")
    (evidence / "elsewhere").symlink_to(tmp_path, target_is_directory=True)
    assert [(each.file, each.kind) for each in run.collect()] == [
        ("deep/QA-DECISION.md", "qa_report"),
        ("good.txt", "unknown"),
    ]


def test_a_result_file_that_is_a_link_is_not_read(tmp_path: Path) -> None:
    run = RunFiles(tmp_path, "r1")
    assert run.result() is None
    (tmp_path / "outside").write_text('{"a": 1}')
    (run.directory() / "result.json").symlink_to(tmp_path / "outside")
    assert run.result() is None


def test_evidence_is_not_kept_through_a_link(tmp_path: Path) -> None:
    run = RunFiles(tmp_path / "runs", "r1")
    outside = tmp_path / "outside"
    outside.mkdir()
    (run.directory() / "evidence").symlink_to(outside)
    with pytest.raises(Invalid, match="evidence cannot be opened"):
        run.keep("question.json", "mine")
    assert list(outside.iterdir()) == []


@pytest.mark.parametrize("how", ["symlink", "hardlink", "fifo"])
def test_what_is_in_the_place_of_our_own_files_is_removed_and_not_opened(
    tmp_path: Path, how: str
) -> None:
    run = RunFiles(tmp_path / "runs", "r1")
    outside = tmp_path / "outside"
    outside.write_text("theirs")
    make: dict[str, Callable[[Path, Path], None]] = {
        "symlink": os.symlink,
        "hardlink": os.link,
        "fifo": lambda _, place: os.mkfifo(place),
    }
    places = [run.directory() / "prompt.md"]
    places += [run.directory("evidence") / name for name in (".a.log.part", "a.log")]
    for place in places:
        make[how](outside, place)
    run.put("prompt.md", "ours")
    kept = run.keep("a.log", "ours")
    assert (kept.size, outside.read_text()) == (4, "theirs")
    assert [each.read_text() for each in (places[0], places[2])] == ["ours", "ours"]


def test_a_result_has_no_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redaction, "_values", set())
    monkeypatch.setattr(redaction, "_pattern", redaction.SECRET_FORM)
    redaction.remember(["hunter2-and-more"])
    run = RunFiles(tmp_path, "r1")
    found = {"key": ["it is hunter2-and-more", 5], "hunter2-and-more": None}
    (run.directory() / "result.json").write_text(json.dumps(found))
    assert run.result() == {"key": ["it is [secret]", 5], "[secret]": None}


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


class LogOf:
    """A line to a log that is only read."""

    def __init__(self, rows: list[tuple[str, str, str]]) -> None:
        self._log = History(
            [
                LoggedEvent(at, "job", at, "p", name, 1, subject, 0, "worker:w", data, None)
                for at, (name, subject, data) in enumerate(rows, 1)
            ]
        )

    @contextmanager
    def read(self) -> Iterator[Any]:
        yield self._log


def test_a_critic_is_shown_every_earlier_run_however_long_the_history_is() -> None:
    begun = '{"worker": "w", "fence": 1, "attempt": 1, "step": "build"}'
    between = [("checkpoint_recorded", f"c{number}", "{}") for number in range(10_000)]
    ended = ("run_failed", "r1", '{"error_class": "error", "error": "no"}')
    log: Any = LogOf([("run_queued", "r1", begun), *between, ended])
    (only,) = earlier_results(log, "job", "build")
    assert (only.run_id, only.state, only.error) == ("r1", "failed", "no")
