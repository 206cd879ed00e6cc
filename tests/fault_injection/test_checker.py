"""The checker of fault injection: a good history passes, and every broken promise is found."""

from collections import Counter
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from verification.fault_injection import chaos_run
from verification.fault_injection.chaos_run import Plan, Report, too_little
from verification.fault_injection.checker import Evidence, Seen, problems
from verification.fault_injection.client_history import OK, REFUSED, UNKNOWN, Op, ops
from verification.fault_injection.effect_record import Line
from verification.fault_injection.parts import Order

Event = tuple[str, str, str, Mapping[str, Any]]


def log(*events: Event) -> list[Seen]:
    versions: dict[str, int] = {}
    made = []
    for position, (stream, name, actor, data) in enumerate(events, 1):
        versions[stream] = versions.get(stream, 0) + 1
        made.append(
            Seen(position, stream, versions[stream], name, data.get("subject"), actor, data)
        )
    return made


def claim(worker: str, fence: int) -> Event:
    data = {"worker": worker, "fence": fence, "nonce": f"n{fence}"}
    return ("j", "job_running", f"worker:{worker}", data)


def by(worker: str, name: str, **data: Any) -> Event:
    return ("j", name, f"worker:{worker}", data)


CREATED: Event = ("j", "job_created", "client", {"payload": {"key": "k"}, "task_id": None})
LOST: Event = ("j", "job_requeued", "clock", {"reason": "lost"})
GOOD = (
    CREATED,
    claim("a", 1),
    by("a", "checkpoint_recorded", subject="one"),
    LOST,
    claim("b", 2),
    by("b", "run_succeeded"),
    by("b", "job_completed"),
)


def violations(events: Sequence[Event] = GOOD, **more: Any) -> list[str]:
    return problems(Evidence(log(*events), **{"jobs": {"j": "completed"}, **more}))


def test_a_good_history_passes() -> None:
    history = [
        Op("submit", "k", "j", OK),
        Op("submit", "k", "", UNKNOWN),
        Op("cancel", "", "j", REFUSED),
    ]
    lines = [
        Line("do", "step:one", 1, 7),
        Line("do", "step:one", 2, 8),
        Line("past", "step:one", 2, 8),
    ]
    assert violations(history=history, effects={"j": lines}) == []


def test_an_answer_that_the_log_has_is_no_problem() -> None:
    asked: Event = ("j", "job_created", "client", {"task_id": "t"})
    answered: Event = ("j", "wait_completed", "client", {"outcome": "answered"})
    history = [Op("answer", "", about, OK, "answered") for about in ("j", "t")]
    assert violations((asked, answered), history=history) == []
    assert len(violations((asked,), history=history)) == len(history)


@pytest.mark.parametrize(
    ("events", "promise"),
    [
        pytest.param((*GOOD[:5], by("a", "run_progressed")), "P5", id="late report"),
        pytest.param((*GOOD[:4], by("a", "evidence_added")), "P5", id="report after reclaim"),
        pytest.param((CREATED, by("a", "checkpoint_recorded")), "P5", id="never claimed"),
        pytest.param((*GOOD[:4], claim("b", 1)), "P4", id="fence does not rise"),
        pytest.param((*GOOD, claim("c", 3)), "P9", id="claimed after its end"),
        pytest.param((*GOOD, by("b", "job_failed")), "P9", id="two ends"),
        pytest.param((*GOOD[:3], by("a", "checkpoint_recorded", subject="one")), "P6", id="twice"),
        pytest.param((*GOOD, ("x", *CREATED[1:])), "P2", id="two jobs of one key"),
    ],
)
def test_a_broken_log_is_seen(events: Sequence[Event], promise: str) -> None:
    assert any(each.startswith(promise) for each in violations(events)), violations(events)


@pytest.mark.parametrize(
    ("lines", "what"),
    [
        ([Line("do", "effect:pay", 1, 1), Line("do", "effect:pay", 2, 2)], "2 times"),
        (
            [Line("do", "step:a", 1, 1), Line("past", "step:a", 1, 1), Line("do", "step:a", 2, 2)],
            "again",
        ),
        ([Line("past", "step:a", 1, 1)], "never done"),
    ],
)
def test_what_was_done_twice_or_never_is_seen(lines: list[Line], what: str) -> None:
    (found,) = violations(effects={"j": lines})
    assert found.startswith("P6")
    assert what in found


@pytest.mark.parametrize(
    ("history", "promise"),
    [
        ([Op("submit", "gone", "x", OK)], "P1"),
        ([Op("submit", "k", "j", OK), Op("submit", "k", "other", OK)], "P2"),
        ([Op("cancel", "", "j", OK, "cancelled")], "P11"),
        ([Op("accept", "", "j", OK, "accepted")], "P12"),
        ([Op("answer", "", "j", OK, "answered")], "P1"),
    ],
)
def test_a_false_answer_is_seen(history: list[Op], promise: str) -> None:
    found = violations(history=history, jobs={"j": "failed"})
    assert any(each.startswith(promise) for each in found), found


def test_work_that_is_left_behind_is_seen() -> None:
    assert [each[:2] for each in violations(jobs={"j": "queued"})] == ["P3"]


def test_a_gap_or_a_turn_in_the_log_is_seen() -> None:
    events = log(*GOOD)
    assert problems(Evidence([*events[:2], *events[3:]]))[0].startswith("P7")
    assert problems(Evidence([events[1], events[0]]))[0].startswith("P7")


def test_an_invocation_without_an_end_is_unknown() -> None:
    lines = [
        {"n": 1, "at": "invoke", "kind": "submit", "key": "a"},
        {"n": 2, "at": "invoke", "kind": "cancel", "id": "j"},
        {"n": 2, "at": "ok", "answer": "cancelled"},
    ]
    assert ops(lines) == [
        Op("submit", "a", "", UNKNOWN),
        Op("cancel", "", "j", OK, "cancelled"),
    ]


def test_a_chaos_run_in_which_nothing_happens_fails() -> None:
    found = too_little(Report(Plan(minutes=1)))
    names = ("submit ok", "job_completed", "reclaimed", "submit unknown", "kinds of faults")
    read = ("events by WebSocket", "events by SSE", "events by pages", "webhook messages")
    cut = ("cuts of WebSocket", "cuts of SSE", "cuts of pages", "lost connections")
    for name in (*names, *read, *cut, "webhook messages cut off"):
        assert any(name in each for each in found), found


def test_a_chaos_run_goes_on_until_it_has_shown_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = iter([True, True, False, True])
    quiet: Any = SimpleNamespace(
        start=lambda: None, end=lambda: None, started=Counter(), done=Counter()
    )
    short = chaos_run.ChaosRun.__new__(chaos_run.ChaosRun)
    short.plan, short.report = Plan(minutes=0), Report(Plan(minutes=0))
    short.cluster = short.injector = quiet
    short.clients, short.say = [], lambda _: None
    monkeypatch.setattr(chaos_run, "LOOK_EVERY_S", 0.0)
    monkeypatch.setattr(chaos_run.ChaosRun, "_start_readers", lambda _: None)
    monkeypatch.setattr(chaos_run.ChaosRun, "_shows_too_little", lambda _: next(looks))
    short._inject_faults()
    assert [*looks] == [True]


def test_a_failure_names_the_command_that_does_it_again() -> None:
    plan = Plan(seed=7, minutes=0.5, store="postgres", faults=("cut", "kill-worker"))
    assert plan.command() == (
        "python -m verification.fault_injection --store postgres --seed 7 --minutes 0.5 "
        "--faults cut,kill-worker"
    )
    order = Order(seed=7, steps=5_000_000)
    assert order.command("simulation").endswith("--seed 7 --part simulation --steps 5000000")
    assert order.command("races").endswith("--seed 7 --part races")
