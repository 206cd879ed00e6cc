"""Providers as operators see them: state, usage, reasons, resets, and refused submissions."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from detent.engine import Claimed
from detent.errors import DetentError
from detent.kernel import commands as c
from detent.operations.providers import register_providers
from detent.provider_config import providers_from
from detent.testing.audit import audit
from tests.operations.installation import OURS, LocalInstallation, local_installation

MINUTE_S = 60
NETWORK = {"retry": {"classes": {"network": {"retries": 9}}}}


@pytest.fixture
def installed(tmp_path: Path) -> Iterator[LocalInstallation]:
    with local_installation(tmp_path) as made:
        made.call("put_resource", name="team", service="models", capacity=4)
        made.call("put_resource", name="backup", service="other")
        yield made


def begin(installed: LocalInstallation, *names: str, **options: Any) -> tuple[str, Claimed]:
    task_id = installed.submit(options={"providers": list(names), **options})
    (claimed,) = installed.claim()
    return task_id, claimed


def fail(installed: LocalInstallation, claimed: Claimed, error_class: str, **more: Any) -> None:
    run = installed.report(c.StartStep(claimed.grant, "runQA"))
    installed.report(c.FailRun(claimed.grant, run, error_class, "no answer", **more))


def shown(installed: LocalInstallation, name: str) -> Any:
    items = installed.call("list_resources")["items"]
    return next(each["provider"] for each in items if each["id"] == name)


def why(installed: LocalInstallation, task_id: str) -> Any:
    return installed.call("why", task_id=task_id)["reasons"][0]


def test_why_names_every_limited_provider_and_its_reset(installed: LocalInstallation) -> None:
    task_id, claimed = begin(installed, "team", "backup")
    now = installed.clock.now
    for minutes in (10, 5):
        reset_at = now + minutes * MINUTE_S * 1_000_000
        fail(installed, claimed, "rate_limit", reset_at=reset_at)
    reason = why(installed, task_id)
    assert (reason["reason"], reason["looks_again_at"]) == (
        "rate_limit",
        shown(installed, "backup")["limited_until"],
    )
    providers = reason["detail"]["providers"]
    assert [(each["name"], each["state"]) for each in providers] == [
        ("team", "limited"),
        ("backup", "limited"),
    ]
    assert all(each["reset_stated"] for each in providers)
    installed.call("reset_resource", name="team")
    (claimed,) = installed.claim()
    installed.report(c.StartStep(claimed.grant, "runQA"))
    assert [each["step"] for each in holders(installed, "team")] == ["runQA"]
    audit(installed.core.store)


def holders(installed: LocalInstallation, name: str) -> Any:
    items = installed.call("list_resources")["items"]
    return next(each["holders"] for each in items if each["id"] == name)


def test_why_explains_an_open_breaker_until_a_person_resets_it(
    installed: LocalInstallation,
) -> None:
    task_id, claimed = begin(installed, "team", **NETWORK)
    for left in (2, 1, 0):
        fail(installed, claimed, "network")
        if left:
            installed.clock.advance(seconds=3 * MINUTE_S)
            (claimed,) = installed.claim()
    team = shown(installed, "team")
    assert (team["state"], team["breaker"]["failures"], team["error"]) == ("open", 3, "no answer")
    assert team["today"]["runs"] == 3
    theirs = installed.call("list_resources", OURS)["items"]
    assert [each["provider"]["error"] for each in theirs if each["provider"]] == [None, None]
    installed.clock.advance(seconds=3 * MINUTE_S)
    (claimed,) = installed.claim()
    with pytest.raises(DetentError) as caught:
        installed.report(c.StartStep(claimed.grant, "runQA"))
    assert caught.value.code == "no_resource"
    installed.report(c.RestPlan(claimed.grant))
    reason = why(installed, task_id)
    (provider,) = reason["detail"]["providers"]
    assert (provider["state"], provider["failures"]) == ("open", 3)
    assert provider["until"] == team["breaker"]["open_until"]
    assert "detent resources reset team" in reason["how"]
    assert installed.call("reset_resource", name="team")["provider"]["state"] == "available"
    (claimed,) = installed.claim()
    installed.report(c.StartStep(claimed.grant, "runQA"))


def test_a_breaker_is_half_open_after_thirty_minutes(installed: LocalInstallation) -> None:
    row = {"capabilities": [], "service": "models", "health": {"failures": 3, "open_until": 1}}
    installed.put("resources", {"team": row})
    assert shown(installed, "team")["breaker"] == {
        "state": "half_open",
        "failures": 3,
        "open_until": None,
    }


def test_a_worker_registers_its_providers_and_keeps_their_health(
    installed: LocalInstallation,
) -> None:
    health = {"limited_until": installed.clock.now + 10**9, "stated": True}
    known = installed.rows("resources")["team"]
    installed.put("resources", {"team": {**known, "health": health}})
    table = {"service": "models", "capacity": 2, "secrets": {"KEY": "env:K"}}
    found = providers_from({"providers": {"team": table}})
    installed.core.engine.transaction(lambda tx: register_providers(tx, found))
    row = installed.rows("resources")["team"]
    assert (row["capacity"], row["health"]) == (2, health)
    assert "env:K" not in str(row)
    installed.call("put_resource", name="team", capacity=7)
    assert shown(installed, "team")["state"] == "limited"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            ["team", "tame"],
            "names the provider 'tame', which does not exist.*backup, hers, mine, team",
        ),
        (["team", "team"], "a second time"),
        (["mine", "team", "hers"], "2 personal accounts: mine, hers.*not rotated"),
        (["phone"], "names the provider 'phone', which does not exist"),
    ],
)
def test_a_submission_with_wrong_providers_is_refused(
    installed: LocalInstallation, given: list[str], words: str
) -> None:
    for name in ("mine", "hers"):
        installed.call("put_resource", name=name, service="models", personal=True)
    installed.call("put_resource", name="phone", capabilities=["call"])
    with pytest.raises(DetentError, match=words):
        installed.submit(options={"providers": given})
    assert installed.call("list_tasks")["items"] == []


def test_only_operators_of_the_installation_reset_providers(installed: LocalInstallation) -> None:
    with pytest.raises(DetentError) as caught:
        installed.call("reset_resource", OURS, name="team")
    assert caught.value.code == "forbidden"
    installed.call("put_resource", name="phone", capabilities=["call"])
    with pytest.raises(DetentError, match="no provider"):
        installed.call("reset_resource", name="phone")
    with pytest.raises(DetentError) as caught:
        installed.call("reset_resource", name="missing")
    assert caught.value.code == "not_found"
