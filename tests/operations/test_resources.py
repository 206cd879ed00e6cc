"""Resources: created, drained and deleted by operators, and held by steps."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from detent.errors import DetentError
from detent.keeper import timers
from detent.kernel import commands as c
from detent.testing.audit import audit
from tests.operations.installation import OURS, LocalInstallation, local_installation

PLAN = {"steps": [{"name": "call", "intent": "runQA", "capabilities_required": ["call"]}]}


@pytest.fixture
def installed(tmp_path: Path) -> Iterator[LocalInstallation]:
    with local_installation(tmp_path) as made:
        yield made


def hold(installed: LocalInstallation) -> c.Grant:
    """A step that holds the phone."""
    installed.submit(options={"plan": PLAN})
    (claimed,) = installed.claim()
    installed.report(c.StartStep(claimed.grant, "call"))
    return claimed.grant


def test_the_built_in_resource_cannot_be_changed(installed: LocalInstallation) -> None:
    (local,) = installed.call("list_resources")["items"]
    assert (local["id"], local["built_in"], local["healthy"]) == ("local", True, True)
    for name in ("put_resource", "drain_resource", "delete_resource"):
        with pytest.raises(DetentError, match="built in"):
            installed.call(name, name="local")


def test_fields_that_are_not_given_are_kept(installed: LocalInstallation) -> None:
    installed.call(
        "put_resource", name="phone", capabilities=["call"], labels={"os": "x"}, capacity=3
    )
    changed = installed.call("put_resource", name="phone", capacity=1)
    assert (changed["capabilities"], changed["labels"]) == (["call"], {"os": "x"})
    assert changed["capacity"] == 1
    assert installed.call("put_resource", name="phone", healthy=False)["healthy"] is False


def test_a_resource_lists_the_steps_that_hold_it(installed: LocalInstallation) -> None:
    installed.call("put_resource", name="phone", capabilities=["call"])
    grant = hold(installed)
    phone = installed.call("list_resources")["items"][1]
    assert (phone["in_use"], len(phone["holders"])) == (1, 1)
    assert (phone["holders"][0]["job_id"], phone["holders"][0]["step"]) == (grant.job_id, "call")
    assert installed.call("list_resources", OURS)["items"][1]["holders"] == []


def test_a_held_resource_is_not_deleted(installed: LocalInstallation) -> None:
    installed.call("put_resource", name="phone", capabilities=["call"])
    grant = hold(installed)
    with pytest.raises(DetentError) as caught:
        installed.call("delete_resource", name="phone")
    assert caught.value.code == "still_needed"
    installed.report(c.CompleteRun(grant, f"{grant.job_id}-r1"))
    assert installed.call("delete_resource", name="phone") == {"name": "phone", "removed": True}
    with pytest.raises(DetentError) as caught:
        installed.call("delete_resource", name="phone")
    assert caught.value.code == "not_found"


def test_a_drained_resource_is_given_to_no_step_until_it_is_undrained(
    installed: LocalInstallation,
) -> None:
    installed.call("put_resource", name="phone", capabilities=["call"])
    assert installed.call("drain_resource", name="phone")["drained"] is True
    installed.call("put_resource", name="phone", healthy=True)  # this does not end a drain
    with pytest.raises(DetentError) as caught:
        hold(installed)
    assert caught.value.code == "no_resource"
    back = installed.call("undrain_resource", name="phone")
    assert (back["drained"], back["healthy"]) == (False, True)
    hold(installed)


def test_a_step_keeps_a_drained_resource(installed: LocalInstallation) -> None:
    installed.call("put_resource", name="phone", capabilities=["call"])
    grant = hold(installed)
    assert installed.call("drain_resource", name="phone")["in_use"] == 1
    installed.report(c.CompleteRun(grant, f"{grant.job_id}-r1"))
    assert installed.call("list_resources")["items"][1]["in_use"] == 0


def test_a_wait_for_a_resource_times_out(installed: LocalInstallation) -> None:
    installed.call("put_resource", name="phone", capabilities=["call"], healthy=False)
    task_id = installed.submit(options={"plan": PLAN, "acquire_timeout_ms": 8_000})
    (claimed,) = installed.claim()
    installed.report(c.RestPlan(claimed.grant))
    for _ in range(3):
        installed.clock.advance(seconds=4)
        timers.run(installed.core)
    outcomes = [
        event["data"]["outcome"]
        for event in installed.call("task_events", task_id=task_id)["events"]
        if event["name"] == "wait_completed"
    ]
    assert outcomes == ["expired"]
    (claimed,) = installed.claim()
    installed.report(c.RestPlan(claimed.grant))
    (job,) = installed.call("task_jobs", task_id=task_id)["items"]
    assert (job["state"], job["error_class"]) == ("failed", "resource")
    assert job["error"] == "step call waited longer for a resource than its limit allows"
    audit(installed.core.store)


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"capacity": 0}, "capacity"),
        ({"capabilities": [""]}, "capabilities"),
        ({"capabilities": [f"c{number}" for number in range(101)]}, "capabilities"),
        ({"labels": {"os": "x" * 101}}, "labels"),
    ],
)
def test_what_is_wrong_is_named(
    installed: LocalInstallation, fields: dict[str, object], named: str
) -> None:
    with pytest.raises(DetentError) as caught:
        installed.call("put_resource", name="phone", **fields)
    assert caught.value.details["field"] == named
    assert installed.rows("resources") == {}


def test_a_token_of_one_project_may_not_change_resources(installed: LocalInstallation) -> None:
    for name in ("put_resource", "drain_resource", "undrain_resource", "delete_resource"):
        with pytest.raises(DetentError) as caught:
            installed.call(name, OURS, name="phone")
        assert caught.value.code == "forbidden"
