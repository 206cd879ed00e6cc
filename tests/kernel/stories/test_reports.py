"""Facts that move nothing, and logs that cannot be."""

import pytest

from detent.errors import Broken
from detent.kernel import commands as c
from detent.kernel import events as e
from detent.kernel.world import CHECKPOINTS, RUNS, World
from detent.task_lifecycles import SHIPPED
from tests.kernel.stories.world import WORKER, Story, plan, running


def test_progress_and_evidence_are_facts() -> None:
    s = running("board")
    assert s.do(c.ReportProgress(s.grant(), s.run_id(), 0.5, "half"), WORKER) == ""
    assert s.facts() == ["run_progressed"]
    run = s.world.part(RUNS, "T-j1", s.run_id())
    assert (run.progress, run.note) == (0.5, "half")
    evidence = c.AddEvidence(s.grant(), s.run_id(), "a.log", "log", "0" * 64, 3)
    assert s.do(evidence, WORKER) == ""
    assert s.facts() == ["evidence_added"]


def test_a_session_is_opened_once() -> None:
    s = running("review")
    s.do(c.OpenSession(s.grant(), "one"), WORKER)
    assert s.facts() == ["session_opened"]
    s.do(c.OpenSession(s.grant(), "one"), WORKER)
    assert s.facts() == []
    assert s.task().session_id == "one"


def test_a_run_notes_its_session_and_a_step_keeps_its_own() -> None:
    s = running("review")
    s.do(c.OpenSession(s.grant(), "one", s.run_id()), WORKER)
    assert s.facts() == ["session_opened", "run_joined"]
    assert s.world.part(RUNS, "T-j1", s.run_id()).session_id == "one"
    s.do(c.OpenSession(s.grant(), "one", s.run_id()), WORKER)
    assert s.facts() == []
    assert s.refused(c.OpenSession(s.grant(), "one", "T-j1-r9")).code == "stale_fence"
    s = Story()
    s.submit("review", options={"plan": plan("A")})
    s.claim("T", "A")
    s.do(c.OpenSession(s.grant("T"), "two", s.run_id("T", "A")), WORKER)
    assert s.facts() == ["run_joined"]
    assert s.task().session_id is None


@pytest.mark.parametrize(
    ("event", "subject"),
    [
        (e.TaskStarted("r"), None),
        (e.JobRunning("w", "n", 1, 1), None),
        (e.RunStarted(), "r"),
        (e.StepRunning("local"), "A"),
    ],
)
def test_a_stream_that_does_not_begin_at_its_beginning_is_broken(
    event: e.Event, subject: str | None
) -> None:
    with pytest.raises(Broken):
        World(lifecycles=SHIPPED).apply(e.Record("X", subject, event, 0, "other"))


def test_a_claim_of_another_system_is_read() -> None:
    s = Story()
    s.submit_job()
    s.happened("J", (e.JobLeased(), None))
    assert s.job().state == "running"


def test_a_wait_of_another_system_without_a_recorded_beginning() -> None:
    s = Story()
    s.submit_job()
    s.happened("J", (e.WaitCompleted("unknown", "signalled"), None))
    assert s.job().state == "queued"
    assert s.world.part(CHECKPOINTS, "J", "unknown") is None


@pytest.mark.parametrize(
    ("lifecycle", "priority", "code"),
    [
        ("weather", "P2", "unknown_lifecycle"),
        ("job", "P2", "unknown_lifecycle"),
        ("board", "P9", "invalid"),
    ],
)
def test_a_task_is_asked_for_in_known_words(lifecycle: str, priority: str, code: str) -> None:
    command = c.SubmitTask("T", "demo", lifecycle, "build", "cli", priority)
    assert Story().refused(command).code == code


def test_names_are_kept_in_their_one_spelling() -> None:
    s = Story()
    assert s.submit("Board", priority="high") == "task_created task_queued job_created"
    assert (s.task().lifecycle, s.task().priority, s.job().priority) == ("board", "P0", "P0")
