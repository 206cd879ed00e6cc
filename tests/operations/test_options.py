"""Options of submissions and limits of the configuration: checked, stored and documented."""

from pathlib import Path
from typing import Any

import pytest

from detent.errors import Invalid, Misconfigured
from detent.kernel import commands as c
from detent.kernel.commands import limit_commands as lc
from detent.limit_config import limits_from
from detent.operations.limits import save_limits
from detent.operations.parameters import INPUTS
from detent.operations.registry import OWNER
from detent.submission.options import OPTIONS, checked_options
from tests.operations.operations_client import OperationsClient

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "options.md"

WRONG: dict[str, list[Any]] = {
    "retry": [3, {"max_attempts": 0}, {"tries": 1}],
    "plan": [[], {"steps": []}],
    "planner": ["yes"],
    "critic": ["", 1],
    "capabilities_required": ["browser", [1]],
    "label_selector": ["zone", {"zone": 1}],
    "avoid": ["phone"],
    "providers": ["one", [1], ["one", "one"]],
    "switch_provider": ["yes", 1],
    "max_retries": [-1, "two"],
    "hold_resource_ms": [0, 1.5],
    "acquire_timeout_ms": [0, "soon"],
    "queue_timeout_ms": [0, "1 h"],
    "job_timeout_ms": [0, True],
    "run_timeout_ms": [-1],
    "idle_timeout_ms": [None],
    "confirm_timeout_ms": [0],
    "concurrency_key": ["", 7],
    "max_rounds": [0, "three"],
    "on_budget_exceeded": ["shrug"],
    "workspace": ["", 1, "/srv/project"],
    "workspace_per": ["", 1, "run"],
    "on_accept": ["", 1, "rebase"],
    "target_branch": ["", 1, "--force", "a..b", "a b", "x.lock", "a/"],
    "push_remote": ["", 1, "--mirror", "ext::sh", "/srv/git"],
    "acceptance_criteria": ["the tests pass", [1], [""], ["x"] * 51],
    "checker": ["", 1],
    "checker_may_accept": ["yes", 1],
    "variants": [0, 1, -1, "x", 1000, 2.5, True, None, [], ["fix"], ["fix"] * 11, ["fix", ""]],
    "choose": ["", 1, "the best"],
    "requires_evidence": ["log", ["photo"]],
}


@pytest.mark.parametrize("name", OPTIONS)
def test_every_option_has_an_example_that_fits(name: str) -> None:
    example = OPTIONS[name].example
    assert checked_options({}, {name: example})[name] == example


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in WRONG.items() for value in values]
)
def test_a_wrong_value_is_named(name: str, value: Any) -> None:
    with pytest.raises(Invalid) as refused:
        checked_options({}, {name: value})
    assert refused.value.field.startswith("options")


def test_every_option_is_tested_and_documented() -> None:
    assert set(WRONG) == set(OPTIONS)
    page = PAGE.read_text("utf-8")
    assert [name for name in OPTIONS if f"`{name}`" not in page] == []
    assert set(INPUTS["options"].schema["properties"]) == set(OPTIONS)


def test_an_unknown_option_is_refused_and_nothing_is_stored() -> None:
    client = OperationsClient()
    with pytest.raises(Invalid, match=r"options\.shell is not a known option") as refused:
        client.submit(options={"shell": "rm"})
    assert "max_rounds" in refused.value.allowed
    assert client.head() == 0


def test_a_submission_overrides_its_intent() -> None:
    client = OperationsClient(
        {"build": {"max_rounds": 2, "run_timeout_ms": 5, "command": ["true"]}}
    )
    task = client.task(client.submit(options={"max_rounds": 3}))
    assert task["options"] == {"max_rounds": 3, "run_timeout_ms": 5}


MERGE = {"on_accept": "merge", "workspace": "worktree"}


def test_an_action_needs_a_worktree_and_a_lifecycle_with_acceptances() -> None:
    client = OperationsClient({"build": {"command": ["true"]}})
    for options, lifecycle in (({"on_accept": "merge"}, "review"), (MERGE, "board")):
        with pytest.raises(Invalid) as refused:
            client.submit(options=options, lifecycle=lifecycle)
        assert refused.value.field == "options.on_accept"
    with pytest.raises(Invalid, match="needs the branch of a worktree or clone") as refused:
        client.submit(options={"workspace": "directory", "workspace_per": "attempt"})
    assert refused.value.field == "options.workspace_per"
    with pytest.raises(Invalid, match="a job is not accepted with an action"):
        client.call("submit_job", intent="build", options=MERGE)
    assert client.head() == 0
    made = client.submit(options=MERGE, lifecycle="review")
    assert client.task(made)["options"] == MERGE


def test_an_action_of_the_intent_is_left_out_where_no_person_accepts() -> None:
    client = OperationsClient({"build": {"command": ["true"], **MERGE}})
    assert client.task(client.submit(lifecycle="board"))["options"] == {"workspace": "worktree"}
    made = client.submit(lifecycle="review")
    assert client.task(made)["options"] == MERGE
    client.call("edit_task", task_id=made, options={"on_accept": "nothing"})
    assert client.task(made)["options"]["on_accept"] == "nothing"


def test_a_step_without_a_confirmation_in_time_is_refused() -> None:
    client = OperationsClient()
    plan = {"steps": [{"name": "a", "intent": "build"}]}
    made = client.submit(options={"plan": plan, "confirm_timeout_ms": 5_000})
    held = client.claim()
    run_id = client.report(c.StartStep(held.grant, "a"))
    client.report(c.CompleteRun(held.grant, run_id, None, 0, "needs_user"))
    reason = client.reasons(made)["needs_user"]
    assert (reason["cleared_by"], reason["looks_again_at"] is not None) == ("a person", True)
    client.later(6)
    assert client.state(made) == "queued"


# ---- the concurrency key ---------------------------------------------------------------------


@pytest.mark.parametrize("name", ["concurrency_key", "concurrency_key_template"])
def test_an_intents_key_is_filled_from_the_payload(name: str) -> None:
    client = OperationsClient({"build": {name: "customer-{customer}"}})
    for customer in (7, 7, 8):
        client.submit(payload={"customer": customer})
    client.call("submit_job", intent="build", payload={"customer": 8})
    keys = [each.job.concurrency_key for each in client.claims()]
    assert sorted(str(key) for key in keys) == ["customer-7", "customer-8"]


def test_a_key_of_the_submission_is_used_unchanged() -> None:
    client = OperationsClient({"build": {"concurrency_key": "customer-{customer}"}})
    made = client.submit(options={"concurrency_key": "{plain}"})
    assert client.task(made)["options"]["concurrency_key"] == "{plain}"


@pytest.mark.parametrize("payload", [{}, {"customer": None}, {"customer": [1]}, "x"])
def test_a_payload_must_have_the_fields_of_the_key(payload: Any) -> None:
    client = OperationsClient({"build": {"concurrency_key": "customer-{customer}"}})
    with pytest.raises(Invalid) as refused:
        client.submit(payload=payload)
    assert refused.value.field == "payload.customer"


def test_a_payload_that_does_not_fit_the_format_of_the_key_is_refused() -> None:
    client = OperationsClient({"build": {"concurrency_key": "customer-{customer:03d}"}})
    client.submit(payload={"customer": 7})
    with pytest.raises(Invalid) as refused:
        client.submit(payload={"customer": "seven"})
    assert refused.value.field == "concurrency_key"


@pytest.mark.parametrize("template", ["{a.b}", "{0}", "{", "{a[0]}", "{}"])
def test_a_template_names_plain_fields(template: str) -> None:
    with pytest.raises(Invalid):
        OperationsClient({"build": {"concurrency_key": template}}).submit(payload={"a": 1})


# ---- [limits] --------------------------------------------------------------------------------


def limits(client: OperationsClient) -> dict[str, Any]:
    return {row["name"]: row for row in client.call("list_limits")["items"]}


def test_the_file_overrides_the_limits_that_it_names() -> None:
    client = OperationsClient()
    for command in (
        lc.SetLimit("intent:build", running=9),
        lc.SetPause("intent:build", in_file=True),
        lc.SetLimit("project:p", running=1),
    ):
        client.core.engine.do(command, OWNER.actor)
    client.core.limits = limits_from(
        {"limits": {"intent:build": {"running": 2}, "key:k": {"rate": 3}}}
    )
    save_limits(client.core)
    kept = limits(client)
    assert (kept["intent:build"]["running"], kept["intent:build"]["paused"]) == (2, False)
    assert (kept["key:k"]["rate"], kept["key:k"]["in_file"]) == (3, True)
    assert (kept["project:p"]["running"], kept["project:p"]["in_file"]) == (1, False)
    client.core.limits = limits_from({"limits": {"intent:build": {"running": 3}}})
    save_limits(client.core)
    assert limits(client).keys() == {"intent:build", "project:p"}


def test_a_pause_by_a_person_outlives_a_start_with_a_file() -> None:
    client = OperationsClient()
    in_file = {"limits": {"intent:build": {"running": 2}}}
    client.core.limits = limits_from(in_file)
    save_limits(client.core)
    client.call("pause", intent="build", reason="broken")
    save_limits(client.core)
    kept = limits(client)["intent:build"]
    assert (kept["running"], kept["paused"], kept["reason"]) == (2, True, "broken")
    client.core.limits = {}
    save_limits(client.core)
    kept = limits(client)["intent:build"]
    assert (kept["running"], kept["paused"], kept["in_file"]) == (None, True, False)
    client.call("resume", intent="build")
    assert limits(client) == {}


def test_limits_of_the_file_apply_to_claims() -> None:
    client = OperationsClient()
    client.core.limits = limits_from({"limits": {"intent:build": {"running": 1}}})
    save_limits(client.core)
    for _ in range(3):
        client.submit()
    assert len(client.claims()) == 1


@pytest.mark.parametrize(
    "table",
    [
        {"build": {"running": 1}},
        {"intent:": {"running": 1}},
        {"intent:a": {"most": 1}},
        {"intent:a": {"running": -1}},
        {"intent:a": {"rate": 0}},
        {"intent:a": {"rate": 1, "per_s": 0}},
        {"intent:a": {"paused": "yes"}},
        {"intent:a": 3},
    ],
)
def test_an_invalid_limit_refuses_the_start(table: dict[str, Any]) -> None:
    with pytest.raises(Misconfigured) as refused:
        limits_from({"limits": table})
    assert refused.value.setting.startswith("limits.")


def test_an_intent_that_needs_a_plan_is_refused_without_one() -> None:
    client = OperationsClient({"plan": {"needs_plan": True}, "build": {}})
    for operation in ("submit_task", "submit_job"):
        with pytest.raises(Invalid, match="the intent plan needs a plan") as refused:
            client.call(operation, intent="plan", options={"max_retries": 1})
        assert refused.value.field == "options.plan"
        plan = {"steps": [{"name": "a", "intent": "build"}]}
        assert client.call(operation, intent="plan", options={"plan": plan})["id"]
