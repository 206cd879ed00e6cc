"""Cancelling in every state: immediately without a live run, in two steps with one."""

from collections.abc import Callable

import pytest

from detent.kernel import commands as c
from detent.kernel import events as e
from tests.kernel.stories.world import WORKER, Story, running

Way = Callable[[], Story]

# ---- ways into each state --------------------------------------------------------------------


def created(lifecycle: str) -> Story:
    s = Story()
    s.submit(lifecycle, queue=False)
    return s


def queued(lifecycle: str) -> Story:
    s = Story()
    s.submit(lifecycle)
    return s


def retrying(lifecycle: str, error_class: str = "network") -> Story:
    s = running(lifecycle)
    s.fail(error_class)
    return s


def resting(lifecycle: str, kind: str, seconds: float | None = None) -> Story:
    s = running(lifecycle)
    needs = ("go",) if kind in ("signal", "subtasks") else ()
    s.suspend(kind, needs=needs, seconds=seconds)
    return s


def woken(lifecycle: str) -> Story:
    s = resting(lifecycle, "timer", 20)
    s.wake()
    return s


def answered(lifecycle: str) -> Story:
    s = resting(lifecycle, "question")
    s.do(c.AnswerTask("T", "yes"))
    return s


def failed(lifecycle: str, error_class: str = "error") -> Story:
    s = running(lifecycle, retry={"retries": 0, "classes": {"timeout": {"retries": 0}}})
    s.fail(error_class)
    return s


def after(s: Story, command: c.Command) -> Story:
    s.do(command)
    return s


def succeeded(lifecycle: str) -> Story:
    s = running(lifecycle)
    s.succeed()
    return s


def blocked_by_dependency(lifecycle: str, *, failed: bool = False) -> Story:
    s = Story()
    s.submit(lifecycle, "D")
    s.submit(lifecycle, depends_on=("D",))
    if failed:
        s.cancel("D")
    return s


# ---- immediately ----------------------------------------------------------------------------

NOW = "job_cancelled task_cancelled"
TASK_ALONE = "task_cancelled"
IMMEDIATE: list[tuple[str, Way, str, str]] = [
    ("inbox", lambda: created("board"), "inbox", TASK_ALONE),
    ("todo", lambda: queued("board"), "todo", NOW),
    ("waits for a dependency", lambda: blocked_by_dependency("board"), "blocked", NOW),
    ("waits for a retry", lambda: retrying("board"), "blocked", NOW),
    ("waits for a rate limit", lambda: retrying("board", "rate_limit"), "blocked", NOW),
    ("has a short question", lambda: resting("board", "question", 30), "blocked", NOW),
    ("has a long question", lambda: resting("board", "question"), "blocked", NOW),
    ("needs a person", lambda: resting("board", "confirmation"), "blocked", NOW),
    ("is out of budget", lambda: resting("board", "budget"), "blocked", NOW),
    ("is out of retries", lambda: failed("board"), "blocked", TASK_ALONE),
    (
        "has a failed dependency",
        lambda: blocked_by_dependency("board", failed=True),
        "blocked",
        TASK_ALONE,
    ),
    ("sleeps shortly", lambda: resting("board", "timer", 20), "doing", NOW),
    ("waits for a signal", lambda: resting("board", "signal"), "doing", NOW),
    ("gathers", lambda: resting("board", "subtasks"), "doing", NOW),
    ("was woken", lambda: woken("board"), "doing", NOW),
    ("pending", lambda: created("review"), "pending", TASK_ALONE),
    ("rejected", lambda: after(succeeded("review"), c.RejectTask("T")), "pending", TASK_ALONE),
    ("queued", lambda: queued("review"), "queued", NOW),
    ("queued behind a dependency", lambda: blocked_by_dependency("review"), "queued", NOW),
    ("answered", lambda: answered("review"), "queued", NOW),
    ("retried", lambda: after(failed("review"), c.RetryTask("T")), "queued", NOW),
    ("unblocked", lambda: after(retrying("review"), c.UnblockTask("T")), "queued", NOW),
    ("review sleeps shortly", lambda: resting("review", "timer", 20), "running", NOW),
    ("review waits for a signal", lambda: resting("review", "signal"), "running", NOW),
    ("review was woken", lambda: woken("review"), "running", NOW),
    ("ready", lambda: succeeded("review"), "ready", TASK_ALONE),
    ("review has a question", lambda: resting("review", "question"), "blocked", NOW),
    ("review has a short question", lambda: resting("review", "question", 30), "blocked", NOW),
    ("review needs a person", lambda: resting("review", "confirmation"), "blocked", NOW),
    ("review is out of budget", lambda: resting("review", "budget"), "blocked", NOW),
    ("review waits for a retry", lambda: retrying("review"), "blocked", NOW),
    ("review is rate limited", lambda: retrying("review", "rate_limit"), "blocked", NOW),
]


@pytest.mark.parametrize(
    ("way", "state", "events"), [row[1:] for row in IMMEDIATE], ids=[row[0] for row in IMMEDIATE]
)
def test_what_does_not_run_is_cancelled_immediately(way: Way, state: str, events: str) -> None:
    s = way()
    assert s.task().state == state
    assert s.cancel() == events
    assert s.answer == "cancelled"
    assert s.task().state == "cancelled"
    assert s.task().job_id is None or s.waits() == []


ENDED: list[tuple[str, Way, list[str]]] = [
    ("done", lambda: succeeded("board"), []),
    ("cancelled on the board", lambda: after(queued("board"), c.CancelTask("T")), []),
    ("failed", lambda: failed("review"), ["task_retried"]),
    ("timed out", lambda: failed("review", "timeout"), ["task_retried", "task_resumed"]),
    ("completed", lambda: after(succeeded("review"), c.AcceptTask("T")), []),
    ("cancelled", lambda: after(queued("review"), c.CancelTask("T")), []),
    ("over its budget", lambda: failed("review", "budget"), []),
]


@pytest.mark.parametrize(
    ("way", "legal"), [row[1:] for row in ENDED], ids=[row[0] for row in ENDED]
)
def test_what_has_ended_is_not_cancelled(way: Way, legal: list[str]) -> None:
    refusal = way().refused(c.CancelTask("T"))
    assert (refusal.code, refusal.details["legal"]) == ("illegal_transition", legal)


@pytest.mark.parametrize(
    "way",
    [
        lambda: after(Story(), c.SubmitJob("J", "demo", "build")),
        lambda: retrying("job"),
        lambda: resting("job", "timer", 20),
        lambda: resting("job", "signal"),
    ],
    ids=["queued", "retrying", "waiting", "parked"],
)
def test_a_job_alone_that_does_not_run_is_cancelled_immediately(way: Way) -> None:
    s = way()
    assert s.cancel() == "job_cancelled"
    assert s.answer == "cancelled"


@pytest.mark.parametrize(
    ("way", "legal"),
    [
        (lambda: succeeded("job"), []),
        (lambda: failed("job"), ["job_requeued"]),
        (lambda: after(resting("job", "signal"), c.CancelJob("J")), []),
    ],
    ids=["completed", "failed", "cancelled"],
)
def test_a_job_alone_that_has_ended_is_not_cancelled(way: Way, legal: list[str]) -> None:
    refusal = way().refused(c.CancelJob("J"))
    assert (refusal.code, refusal.details["legal"]) == ("illegal_transition", legal)
    assert refusal.message.startswith("Job J cannot be cancelled: it is ")


@pytest.mark.parametrize("reason", ["dependency", "worker_lost", "handed_back", "job_timeout"])
def test_a_reason_that_decides_what_follows_is_not_for_people(reason: str) -> None:
    s = queued("board")
    assert s.refused(c.CancelTask("T", reason)).code == "invalid"
    assert s.refused(c.CancelJob("T-j1", reason)).code == "invalid"


# ---- in two steps ----------------------------------------------------------------------------

RUNS_END: list[tuple[str, Callable[[Story], str], str]] = [
    ("confirmed", lambda s: s.stopped(), "run_cancelled job_cancelled task_cancelled"),
    ("failure", lambda s: s.fail(), "run_failed(error) job_cancelled task_cancelled"),
    ("time limit", lambda s: s.time_out(), "run_timed_out(run) job_cancelled task_cancelled"),
    (
        "sleep",
        lambda s: s.suspend("timer", seconds=5),
        "run_succeeded(suspended) job_cancelled task_cancelled",
    ),
    (
        "question",
        lambda s: s.suspend("question"),
        "run_succeeded(suspended) job_cancelled task_cancelled",
    ),
    (
        "lost",
        lambda s: s.reclaim(),
        "run_cancelled(worker_lost) job_cancelled task_cancelled",
    ),
    (
        "handed back",
        lambda s: s.hand_back(),
        "run_cancelled(handed_back) job_cancelled task_cancelled",
    ),
]


@pytest.mark.parametrize(
    ("end", "events"), [row[1:] for row in RUNS_END], ids=[row[0] for row in RUNS_END]
)
@pytest.mark.parametrize("lifecycle", ["board", "review"])
def test_running_work_is_cancelled_when_it_has_stopped(
    lifecycle: str, end: Callable[[Story], str], events: str
) -> None:
    s = running(lifecycle)
    assert s.cancel() == ""
    assert s.answer == "requested"
    assert s.facts() == ["task_cancel_requested", "job_cancel_requested"]
    assert s.cancel() == ""
    assert (s.answer, s.facts()) == ("requested", [])
    assert end(s) == events
    assert s.waits() == []


@pytest.mark.parametrize(
    ("lifecycle", "end"), [("board", "task_completed"), ("review", "task_ready")]
)
def test_a_success_that_is_being_reported_wins(lifecycle: str, end: str) -> None:
    s = running(lifecycle)
    s.cancel()
    assert s.succeed() == f"run_succeeded job_completed {end}"


def test_after_a_success_won_the_task_can_still_be_cancelled() -> None:
    s = running("review")
    s.cancel()
    s.succeed()
    assert s.cancel() == "task_cancelled"


def test_a_request_that_came_too_late_is_forgotten() -> None:
    s = running("review")
    s.cancel()
    s.succeed()
    s.do(c.RejectTask("T", run=True))
    s.claim()
    assert s.submit("review", "C", parent_id="T").startswith("C:task_created C:task_queued")
    assert s.cancel() == "C:job_cancelled C:task_cancelled"
    assert s.answer == "requested"
    assert s.stopped() == "j2:run_cancelled j2:job_cancelled task_cancelled"


def test_a_cancel_that_was_not_requested_cannot_be_confirmed() -> None:
    s = running("board")
    assert s.refused(c.ConfirmCancel(s.grant()), WORKER).code == "not_cancelling"


@pytest.mark.parametrize(
    ("lifecycle", "events"),
    [("board", "run_cancelled job_cancelled"), ("review", "run_cancelled job_cancelled")],
)
def test_a_claim_whose_run_has_not_started(lifecycle: str, events: str) -> None:
    s = Story()
    s.submit(lifecycle)
    s.happened(
        "T-j1",
        (e.JobRunning("w", "n", 1, 1, "T-j1-r1"), None),
        (e.RunQueued("w", 1, 1), "T-j1-r1"),
    )
    s.grants["T-j1"] = c.Grant("T-j1", 1, "n")
    assert s.cancel() == ""
    assert s.stopped() == f"{events} task_cancelled"


@pytest.mark.parametrize("end", [Story.stopped, Story.reclaim, Story.hand_back])
def test_a_planner_at_work_is_cancelled(end: Callable[[Story], str]) -> None:
    s = running("review", planner="think")
    assert s.task().state == "queued"
    assert s.cancel() == ""
    assert end(s) == "job_cancelled task_cancelled"


def test_a_planner_that_fails_after_a_cancel() -> None:
    s = running("review", planner="think")
    s.cancel()
    events = s.do(c.FailPlan(s.grant(), "error", "no idea"), WORKER)
    assert events == "job_cancelled task_cancelled"


def test_a_running_job_alone() -> None:
    s = running("job")
    assert s.cancel() == ""
    assert (s.answer, s.facts()) == ("requested", ["job_cancel_requested"])
    assert s.stopped() == "run_cancelled job_cancelled"


def test_the_job_of_a_task_is_cancelled_with_it() -> None:
    s = queued("board")
    assert s.do(c.CancelJob("T-j1", "no need")) == "job_cancelled(no need) task_cancelled(no need)"


# ---- what is below ---------------------------------------------------------------------------


def test_a_cancel_reaches_subtasks_also_ones_that_are_made_later() -> None:
    s = Story()
    s.submit("board", "P")
    s.claim("P")
    s.submit("board", "C", parent_id="P")
    s.claim("C")
    assert s.cancel("P") == ""
    assert s.facts().count("job_cancel_requested") == 2
    assert s.submit("board", "L", parent_id="P") == "L:task_created L:task_cancelled"
    assert s.stopped("C") == "C:run_cancelled C:job_cancelled C:task_cancelled"
    assert s.stopped("P") == "P:run_cancelled P:job_cancelled P:task_cancelled"


@pytest.mark.parametrize("lifecycle", ["board", "review"])
def test_a_parent_whose_own_job_is_over(lifecycle: str) -> None:
    s = Story()
    s.submit(lifecycle, "P")
    s.claim("P")
    s.submit(lifecycle, "C", parent_id="P")
    s.submit(lifecycle, "R", parent_id="P")
    s.claim("R")
    s.succeed("P")
    assert s.task("P").state == "blocked"
    assert s.cancel("P") == "P:task_cancelled C:job_cancelled C:task_cancelled"
    assert s.stopped("R") == "R:run_cancelled R:job_cancelled R:task_cancelled"


def test_a_cancel_reaches_what_is_below_a_completed_subtask() -> None:
    s = Story()
    s.submit("review", "P")
    s.claim("P")
    s.submit("review", "C", parent_id="P")
    s.claim("C")
    s.submit("review", "G", parent_id="C")
    s.succeed("C")
    s.suspend("question", at="P")
    assert s.cancel("P") == "P:job_cancelled P:task_cancelled G:job_cancelled G:task_cancelled"
    assert s.task("C").state == "completed"


def test_a_cancel_reaches_jobs_below_a_job() -> None:
    s = running("job")
    s.submit_job("K", "J")
    s.submit_job("L", "J")
    s.claim("L")
    assert s.cancel() == "K:job_cancelled"
    assert s.submit_job("M", "J") == "M:job_created M:job_cancelled"
    assert s.stopped() == "run_cancelled job_cancelled"
    assert s.stopped("L") == "L:run_cancelled L:job_cancelled"


def test_a_parked_job_is_cancelled_with_the_jobs_below_it() -> None:
    s = running("job")
    s.submit_job("K", "J")
    s.suspend("signal", needs=("job:K",))
    assert s.cancel() == "job_cancelled K:job_cancelled"
