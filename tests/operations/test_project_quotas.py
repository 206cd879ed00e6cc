"""Quotas and weights of projects in operations: set, shown, refused input, and reasons."""

from pathlib import Path
from typing import Any

import pytest

from detent.errors import DetentError, Forbidden, Invalid, Misconfigured, NotFound, TooMany
from detent.kernel import commands as c
from detent.limit_config import limits_from
from detent.operations.limits import save_limits
from detent.operations.project_quotas import measure_all
from detent.operations.registry import Caller
from detent.operations.run_output import append_output, output_file
from detent.settings import Settings
from detent.views import utc
from detent.worker.run_outcome import of_exception
from tests.operations.operations_client import S_US, OperationsClient

DAY_US = 86_400 * S_US


@pytest.fixture
def client(tmp_path: Path) -> OperationsClient:
    made = OperationsClient()
    made.core.settings = Settings(store_data_dir=str(tmp_path))
    made.call("create_project", name="barn")
    return made


def quota(client: OperationsClient, name: str = "barn", **given: Any) -> Any:
    return client.call("set_project_quota", name=name, **given)


def test_what_is_not_given_stays_and_what_is_cleared_goes(client: OperationsClient) -> None:
    quota(client, weight=3, submit_rate=10, submit_per_s=60, cost_per_day_usd=2.5)
    found = quota(client, stored_bytes=1_000, clear=["submit_rate"])
    shown = {name: value for name, value in found.items() if value}
    assert shown == {
        "name": "project:barn",
        "weight": 3,
        "stored_bytes": 1_000,
        "cost_per_day_usd": 2.5,
    }
    assert client.call("list_limits")["items"] == [found]
    assert client.call("list_projects")["items"] == [{"name": "barn", "tasks": 0, "weight": 3}]
    quota(client, clear=["weight", "stored_bytes", "cost_per_day_usd"])
    assert client.call("list_limits")["items"] == []
    with client.core.store.read() as view:
        names = [each.name for each in view.events(0, 100, stream="@system")]
    assert names == ["limit_set", "limit_set", "limit_ended"]


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"weight": 0}, "weight"),
        ({"weight": -1}, "weight"),
        ({"weight": 1_001}, "weight"),
        ({"weight": 1 << 80}, "weight"),
        ({"running": -1}, "running"),
        ({"submit_rate": 0}, "submit_rate"),
        ({"submit_rate": 5, "submit_per_s": 86_401}, "submit_per_s"),
        ({"submit_per_s": 5}, "submit_per_s"),
        ({"stored_bytes": 0}, "stored_bytes"),
        ({"stored_bytes": 1 << 60}, "stored_bytes"),
        ({"cost_per_day_usd": 0}, "cost_per_day_usd"),
        ({"cost_per_day_usd": -3}, "cost_per_day_usd"),
        ({"cost_per_day_usd": float("inf")}, "cost_per_day_usd"),
        ({"clear": ["speed"]}, "clear"),
        ({"weight": 2, "clear": ["weight"]}, "clear"),
    ],
    ids=str,
)
def test_wrong_numbers_change_nothing(
    client: OperationsClient, given: dict[str, Any], field: str
) -> None:
    with pytest.raises(Invalid) as refused:
        quota(client, **given)
    assert refused.value.field == field
    assert client.call("list_limits")["items"] == []


def test_an_unknown_project_has_no_quota(client: OperationsClient) -> None:
    with pytest.raises(NotFound, match="no project 'yard'"):
        quota(client, "yard", weight=2)
    with pytest.raises(Forbidden):
        client.call("set_project_quota", Caller("t", project="barn"), name="barn", weight=9)


@pytest.mark.parametrize(
    ("name", "row", "setting"),
    [
        ("intent:build", {"weight": 2}, "limits.intent:build.weight"),
        ("project:barn", {"weight": "2"}, "limits.project:barn.weight"),
        ("project:barn", {"stored_bytes": "10GiB"}, "limits.project:barn.stored_bytes"),
        ("project:barn", {"cost_per_day_usd": 0}, "limits.project:barn.cost_per_day_usd"),
        ("project:barn", {"cost_per_day": 5}, "limits.project:barn.cost_per_day"),
    ],
)
def test_wrong_rows_of_the_file(name: str, row: dict[str, Any], setting: str) -> None:
    with pytest.raises(Misconfigured) as refused:
        limits_from({"limits": {name: row}})
    assert refused.value.details["setting"] == setting


def test_the_file_sets_quotas(client: OperationsClient) -> None:
    row = {"weight": 2, "submit_rate": 1, "cost_per_day_usd": "0.5"}
    client.core.limits = limits_from({"limits": {"project:barn": row}})
    save_limits(client.core)
    found = client.call("show_project", name="barn")["limits"]
    assert (found["weight"], found["cost_per_day_usd"], found["in_file"]) == (2, 0.5, True)
    client.core.limits = {}
    save_limits(client.core)
    assert client.call("list_limits")["items"] == []


def test_a_submission_over_the_quota_says_when_to_retry(client: OperationsClient) -> None:
    quota(client, submit_rate=1, submit_per_s=60)
    client.submit(project="barn")
    with pytest.raises(TooMany, match="1 submissions in 60 s") as refused:
        client.submit(project="barn")
    assert (refused.value.status, refused.value.retry_after_s) == (429, 60)
    assert client.call("list_projects")["items"][0]["tasks"] == 1
    assert client.call("show_project", name="barn")["used"]["submissions"] == 1
    client.clock.set(client.clock.now + 60 * S_US)
    client.submit(project="barn")
    client.submit(project="other")


def test_a_schedule_is_not_counted(client: OperationsClient) -> None:
    quota(client, submit_rate=1, submit_per_s=60)
    client.call("put_schedule", name="daily", intent="build", every_s=60, project="barn")
    for _ in range(3):
        client.call("trigger_schedule", name="daily")
    assert client.call("show_project", name="barn")["used"]["submissions"] == 0


def test_bytes_are_counted_and_measured_again(client: OperationsClient) -> None:
    client.submit(project="barn", payload={"text": "x" * 100})
    quota(client, stored_bytes=400)
    assert stored(client) == 111
    second = client.submit(project="barn", payload={"text": "x" * 100})
    assert stored(client) == 222
    with pytest.raises(DetentError) as refused:
        client.submit(project="barn", payload={"text": "x" * 200})
    assert (refused.value.code, refused.value.status) == ("storage_quota", 409)
    assert of_exception(refused.value).error_class == "resource_limit"
    client.call("cancel_task", task_id=second)
    client.call("delete_task", task_id=second)
    assert measure_all(client.core) == 1
    assert stored(client) == 111
    client.submit(project="barn", payload={"text": "x" * 200})


def test_output_is_measured_and_counts(client: OperationsClient, tmp_path: Path) -> None:
    client.submit(project="barn", payload={"text": "x" * 100})
    held = client.claim()
    append_output(client.core.store, tmp_path, client.run_id(held), 0, b"x" * 200)
    append_output(client.core.store, tmp_path, "a-run-that-is-gone", 0, b"x" * 5_000)
    quota(client, stored_bytes=400)
    assert stored(client) == 111, "output is measured by the keeper"
    assert measure_all(client.core) == 1
    assert stored(client) == 311
    with pytest.raises(DetentError, match="311 bytes of its quota of 400") as refused:
        client.submit(project="barn", payload={"text": "x" * 100})
    assert refused.value.code == "storage_quota"
    quota(client, stored_bytes=422)
    client.submit(project="barn", payload={"text": "x" * 100})
    assert stored(client) == 422
    quota(client, stored_bytes=1_000)
    assert stored(client) == 422, "output stays counted when the quota changes"
    output_file(tmp_path, client.run_id(held)).unlink()
    measure_all(client.core)
    assert stored(client) == 222


def stored(client: OperationsClient) -> int:
    return int(client.call("show_project", name="barn")["used"]["stored_bytes"])


def test_the_reason_of_a_project_that_has_spent_its_day(client: OperationsClient) -> None:
    quota(client, cost_per_day_usd=1)
    client.submit(project="barn")
    held = client.claim()
    waits = client.submit(project="barn")
    client.report(c.ChargeRun(held.grant, client.run_id(held), 1_250_000))
    assert client.claims() == []
    reason = client.reasons(waits)["cost_quota"]
    assert (reason["detail"]["spent_usd"], reason["detail"]["max_usd"]) == (1.25, 1)
    midnight = (client.clock.now // DAY_US + 1) * DAY_US
    assert utc(midnight) in reason.values()
    assert client.call("show_project", name="barn")["used"]["cost_today_usd"] == 1.25
    client.clock.set(midnight)
    assert client.claim().job.task_id == waits
    assert client.call("show_project", name="barn")["used"]["cost_today_usd"] == 0
