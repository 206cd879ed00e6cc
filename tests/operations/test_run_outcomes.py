"""The outcomes of runs in lists: a run that waits or lacks a budget is not a plain success."""

from typing import Any

import pytest

from detent.cli.table_columns import event_cells, run_cells, step_cells
from detent.engine import Claimed
from detent.kernel import commands as c
from tests.operations.desk import Desk


@pytest.fixture
def desk() -> Desk:
    return Desk()


def ended(desk: Desk, claimed: Claimed, report: type[c.Report], *said: Any) -> dict[str, Any]:
    """The run after this report, which must be the same in every list."""
    run_id = claimed.job.run_id or ""
    desk.tell(report(claimed.grant, run_id, *said))  # type: ignore[call-arg]
    shown: dict[str, Any] = desk.ask("show_run", run_id=run_id)
    (listed,) = [each for each in desk.ask("list_runs")["items"] if each["id"] == run_id]
    (of_job,) = desk.ask("job_runs", job_id=claimed.job.id)["items"]
    assert shown == listed == of_job
    return shown


@pytest.mark.parametrize(
    ("report", "said", "state", "outcome", "reason"),
    [
        (c.CompleteRun, ("result",), "succeeded", "done", None),
        (c.SuspendRun, ("ask", "question"), "succeeded", "suspended", "question"),
        (c.SuspendRun, ("more", "budget"), "succeeded", "budget", "budget"),
        (c.FailRun, ("error", "it broke"), "failed", None, "it broke"),
        (c.TimeOutRun, ("idle", "no output"), "timeout", "idle", "no output"),
    ],
)
def test_a_run_shows_its_outcome_and_the_reason_of_its_end(
    desk: Desk, report: Any, said: tuple[Any, ...], state: str, outcome: str, reason: str
) -> None:
    desk.submit()
    run = ended(desk, desk.claim(), report, *said)
    assert (run["state"], run["outcome"], run["reason"]) == (state, outcome, reason)
    cells = run_cells(run)
    assert list(cells[2:4]) == [outcome or "", reason or ""]


def test_a_run_without_a_budget_says_so(desk: Desk) -> None:
    made = desk.submit(max_budget_usd=1)
    first = desk.claim()
    desk.charge(first, 1)
    desk.tell(c.SuspendRun(first.grant, first.job.run_id or "", "q", "question"))
    desk.ask("answer_task", task_id=made, answer="go on")
    assert desk.claims() == []
    last = desk.ask("task_runs", task_id=made)["items"][-1]
    assert (last["state"], last["outcome"], last["reason"]) == ("succeeded", "budget", "funds")


def test_a_run_that_was_handed_back_says_so(desk: Desk) -> None:
    desk.submit()
    claimed = desk.claim()
    desk.tell(c.HandBack(claimed.grant))
    run = desk.ask("show_run", run_id=claimed.job.run_id)
    assert (run["state"], run["reason"]) == ("cancelled", "handed_back")


def test_steps_and_events_name_the_resource_also_after_the_step(desk: Desk) -> None:
    phone = {"capabilities": ["phone"]}
    desk.core.engine.within(lambda tx: tx.put_rows("resources", {"phone-1": phone}))
    step = {"name": "call", "intent": "build", "capabilities_required": ["phone"]}
    made = desk.submit(options={"plan": {"steps": [step]}})
    claimed = desk.claim()
    run_id = desk.tell(c.StartStep(claimed.grant, "call"))
    desk.tell(c.CompleteRun(claimed.grant, run_id))
    (row,) = desk.ask("task_steps", task_id=made)["items"]
    assert (row["resource"], row["last_resource"]) == (None, "phone-1")
    assert step_cells(row)[2] == "phone-1"
    events = desk.ask("job_events", job_id=claimed.job.id)["events"]
    about = {event["name"]: event_cells(event)[-1] for event in events}
    assert about["step_leased"] == about["step_running"] == "call on phone-1"
    assert about["run_queued"] == f"{run_id} on phone-1"
    assert about["step_succeeded"] == "call"
