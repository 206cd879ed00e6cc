"""Effects: done once under a key of their own; cut off, their declared policy decides."""

from collections.abc import Callable
from typing import Any

import pytest

from detent.app.app import App
from detent.app.effects import NOT_DONE, NotDone
from detent.app.handle import Handle
from detent.app.run_context import Run
from detent.testing.harness import Harness
from tests.worker.waiting import done, error_of


def paying(
    policy: str, performed: list[str], reconcile: Callable[[str], int | NotDone] | None = None
) -> App:
    app = App()

    def pay(amount: int, *, idempotency_key: str) -> int:
        performed.append(idempotency_key)
        return amount

    @app.intent("pay")
    def handler(run: Run) -> int:
        return run.effect("charge", pay, 7, policy=policy, reconcile=reconcile)

    return app


def test_an_effect_is_done_once_and_its_key_is_the_same_in_every_attempt() -> None:
    performed: list[str] = []
    h = Harness(paying("idempotent", performed))
    h.crash_at(2)  # BeginEffect is written; the effect has happened; its end is not
    handle = h.submit("pay")
    h.drain(advance=True)
    assert done(handle) == 7
    assert performed == [f"{handle.job_id}:charge"] * 2


@pytest.mark.parametrize(("happened", "calls"), [(True, 1), (False, 2)])
def test_an_effect_cut_off_is_reconciled(happened: bool, calls: int) -> None:
    performed: list[str] = []
    asked: list[str] = []

    def look_up(key: str) -> int | NotDone:
        asked.append(key)
        return 7 if happened else NOT_DONE

    h = Harness(paying("reconcile", performed, look_up))
    h.crash_at(2)
    handle = h.submit("pay")
    h.drain(advance=True)
    assert done(handle) == 7
    assert asked == [f"{handle.job_id}:charge"]
    assert len(performed) == calls


def cut_off_and_asked(performed: list[str]) -> tuple[Harness, Handle[Any]]:
    h = Harness(paying("manual", performed))
    h.crash_at(2)
    handle = h.submit("pay", lifecycle="board")
    h.drain(advance=True)
    assert handle.state() == "blocked"
    assert handle.job().state == "parked"
    return h, handle


def test_a_person_decides_about_an_effect_with_policy_manual() -> None:
    performed: list[str] = []
    h, handle = cut_off_and_asked(performed)
    task = handle.task()
    assert task is not None
    assert task.blocked_by == "needs_user"
    assert "it is unknown whether it happened" in task.blocked_detail["text"]
    handle.answer("again")
    h.drain()
    assert done(handle) == 7
    assert len(performed) == 2


def test_a_person_says_that_the_effect_happened() -> None:
    performed: list[str] = []
    h, handle = cut_off_and_asked(performed)
    handle.answer("done")
    h.drain()
    assert done(handle) is None
    assert len(performed) == 1


def test_a_person_says_that_the_effect_must_not_go_on() -> None:
    h, handle = cut_off_and_asked([])
    handle.answer("fail")
    h.drain()
    assert "must not be tried again" in error_of(handle)


def test_an_effect_cut_off_again_asks_again() -> None:
    performed: list[str] = []
    h, handle = cut_off_and_asked(performed)
    handle.answer("again")
    h.crash_at(2)  # "begun again" is written; the effect has happened a second time; its end is not
    h.drain(advance=True)
    assert handle.state() == "blocked"
    assert len(performed) == 2
    handle.answer("done")
    h.drain()
    assert handle.state() == "done"
    assert len(performed) == 2


@pytest.mark.parametrize(
    ("policy", "reconcile"), [("sometimes", None), ("reconcile", None), ("manual", str)]
)
def test_a_policy_that_makes_no_sense_is_refused(policy: str, reconcile: Any) -> None:
    h = Harness(paying(policy, [], reconcile))
    handle = h.submit("pay", options={"retry": {"retries": 0}})
    h.drain()
    assert "reconcile" in error_of(handle)
