"""The outcomes of runs in lists: a run that waits or lacks a budget is not a plain success."""

from typing import Any

import pytest

from detent.cli.table_columns import event_cells, run_cells, step_cells
from detent.engine import Claimed
from detent.kernel import commands as c
from tests.operations.operations_client import OperationsClient


@pytest.fixture
def client() -> OperationsClient:
    return OperationsClient()


def ended(
    client: OperationsClient, claimed: Claimed, report: type[c.Report], *reported: Any
) -> dict[str, Any]:
    """The run after this report, which must be the same in every list."""
    run_id = claimed.job.run_id or ""
    client.report(report(claimed.grant, run_id, *reported))  # type: ignore[call-arg]
    shown: dict[str, Any] = client.call("show_run", run_id=run_id)
    (listed,) = [each for each in client.call("list_runs")["items"] if each["id"] == run_id]
    (of_job,) = client.call("job_runs", job_id=claimed.job.id)["items"]
    assert shown == listed
    assert of_job.items() <= shown.items()  # without the title, which all runs of a job share
    return shown


@pytest.mark.parametrize(
    ("report", "reported", "state", "outcome", "reason"),
    [
        (c.CompleteRun, ("result",), "succeeded", "done", None),
        (c.SuspendRun, ("ask", "question"), "succeeded", "suspended", "question"),
        (c.SuspendRun, ("more", "budget"), "succeeded", "budget", "budget"),
        (c.FailRun, ("error", "it broke"), "failed", None, "it broke"),
        (c.TimeOutRun, ("idle", "no output"), "timeout", "idle", "no output"),
    ],
)
def test_a_run_shows_its_outcome_and_the_reason_of_its_end(
    client: OperationsClient,
    report: Any,
    reported: tuple[Any, ...],
    state: str,
    outcome: str,
    reason: str,
) -> None:
    client.submit()
    run = ended(client, client.claim(), report, *reported)
    assert (run["state"], run["outcome"], run["reason"]) == (state, outcome, reason)
    cells = run_cells(run)
    assert list(cells[2:4]) == [outcome or "", reason or ""]
    shown = outcome if outcome in ("suspended", "budget") else state
    assert str(getattr(cells[1], "text", cells[1])).endswith(f" {shown}")


def test_a_run_without_a_budget_says_so(client: OperationsClient) -> None:
    made = client.submit(max_budget_usd=1)
    first = client.claim()
    client.charge(first, 1)
    client.report(c.SuspendRun(first.grant, first.job.run_id or "", "q", "question"))
    client.call("answer_task", task_id=made, answer="go on")
    assert client.claims() == []
    last = client.call("task_runs", task_id=made)["items"][-1]
    assert (last["state"], last["outcome"], last["reason"]) == ("succeeded", "budget", "funds")


def test_a_run_that_was_handed_back_says_so(client: OperationsClient) -> None:
    client.submit()
    claimed = client.claim()
    client.report(c.HandBack(claimed.grant))
    run = client.call("show_run", run_id=claimed.job.run_id)
    assert (run["state"], run["reason"]) == ("cancelled", "handed_back")


def test_steps_and_events_name_the_resource_also_after_the_step(client: OperationsClient) -> None:
    phone = {"capabilities": ["phone"]}
    client.core.engine.transaction(lambda tx: tx.put_rows("resources", {"phone-1": phone}))
    step = {"name": "call", "intent": "build", "capabilities_required": ["phone"]}
    made = client.submit(options={"plan": {"steps": [step]}})
    claimed = client.claim()
    run_id = client.report(c.StartStep(claimed.grant, "call"))
    client.report(c.CompleteRun(claimed.grant, run_id))
    (row,) = client.call("task_steps", task_id=made)["items"]
    assert (row["resource"], row["last_resource"]) == (None, "phone-1")
    assert step_cells(row)[2] == "phone-1"
    events = client.call("job_events", job_id=claimed.job.id)["events"]
    about = {event["name"]: event_cells(event)[-1] for event in events}
    assert about["step_leased"] == about["step_running"] == "call on phone-1"
    assert about["run_queued"] == f"{run_id} on phone-1"
    assert about["step_succeeded"] == "call"
