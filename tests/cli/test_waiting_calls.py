"""Commands that wait while the gateway is unavailable: `detent wait` and `detent logs -f`."""

import time
from typing import Any

import pytest

from detent import outage
from detent.cli import wait, waiting_calls
from detent.cli.waiting_calls import WaitingCalls
from detent.errors import Unavailable

AWAY = Unavailable("The store is unavailable.", retry_after_s=1)


class Flaky:
    """A connection with prepared answers, one for each call."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)

    def call(self, operation: str, /, **arguments: Any) -> Any:
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture(autouse=True)
def without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting_calls, "AGAIN_S", 0.0)
    monkeypatch.setattr(wait, "POLL_S", 0.0)


def task(state: str, ending: str | None) -> dict[str, Any]:
    fields = {"phase": "working", "waits_for_person": False, "blocked_by": None}
    return {"state": state, "ending": ending, "state_at": "2026-01-01T00:00:00Z", **fields}


def test_a_wait_goes_on_over_an_outage_and_notes_it_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    detent = Flaky(task("doing", None), AWAY, AWAY, AWAY, task("done", "done"))
    assert wait.wait_for(detent, "t1", as_json=False)["state"] == "done"
    assert capsys.readouterr().err.count("Waiting for it.") == 1


def test_an_outage_ends_the_wait_at_last(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Unavailable):  # the address may be wrong
        WaitingCalls(Flaky(AWAY), print).call("status")
    over = WaitingCalls(Flaky(1, AWAY), print, until_s=time.monotonic())
    assert over.call("status") == 1
    with pytest.raises(Unavailable):
        over.call("status")
    monkeypatch.setattr(outage, "LONGEST_S", 0.0)
    long = WaitingCalls(Flaky(1, AWAY), print)
    assert long.call("status") == 1
    with pytest.raises(Unavailable):
        long.call("status")
