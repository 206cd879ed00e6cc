"""Agents and their providers, with a real worker and processes: keys, switches, review, faults."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from detent.errors import Misconfigured
from detent.kernel import commands as c
from detent.operations.registry import Caller, Scope, call
from detent.provider_config import providers_from
from tests.agents.scene import Scene, Step

OPERATOR = Caller("operator", frozenset({Scope.ADMIN}))
LIMIT: list[Step] = [
    {"retry": {"retry_delay_ms": 3_600_000, "error_status": 429}},
    {"api_error": 429},
]
SHOWN = ["PROVIDER_NAME", "STAND_IN_API_KEY", "ANTHROPIC_API_KEY"]


def provider(name: str, **more: Any) -> dict[str, Any]:
    own = {"PROVIDER_NAME": name}
    return {"variables": own, "secrets": {"STAND_IN_API_KEY": f"env:{name.upper()}_KEY"}, **more}


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FIRST_KEY", "SECOND_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.setenv(name, f"secret of {name}")


def configure(s: Scene, **tables: Mapping[str, Any]) -> None:
    s.core.providers = providers_from({"providers": tables})


def listed(s: Scene) -> dict[str, Any]:
    items = call("list_resources", s.core, OPERATOR)["items"]
    return {each["id"]: each["provider"] for each in items if each["provider"]}


def test_a_second_provider_takes_over_in_the_same_session_and_review(s: Scene, keys: None) -> None:
    configure(s, first=provider("first"), second=provider("second", model="small"))
    echo: list[Step] = [{"echo": SHOWN}, {"cost": 0.5}, {"tokens": [7, 9]}]
    s.script([{"say": "half"}, *LIMIT], echo, [{"echo": SHOWN}])
    s.intent(providers=["first", "second"])
    task_id = s.submit()
    with s.working():
        s.rests("ready")
        limited, done = s.runs()
        assert (limited["error_class"], done["error_class"]) == ("rate_limit", None)
        found = {
            "PROVIDER_NAME": "second",
            "STAND_IN_API_KEY": "[secret]",
            "ANTHROPIC_API_KEY": None,
        }
        assert f'"found": {json.dumps(found)}' in s.output()
        assert '"model": "small"' in s.output()
        (session,) = s.sessions()
        assert len(session["prompts"]) == 2
        shown = listed(s)
        assert (shown["first"]["state"], shown["second"]["state"]) == ("limited", "available")
        assert shown["first"]["today"]["rate_limits"] == 1
        today = {"runs": 1, "rate_limits": 0, "tokens_in": 7, "tokens_out": 9, "cost_usd": 0.5}
        assert shown["second"]["today"] == today
        call("reset_resource", s.core, OPERATOR, name="first")
        assert listed(s)["first"]["state"] == "available"
        # A reviewer's rejection continues in the same session, with the first provider again.
        s.do(c.RejectTask(task_id, "Once more.", run=True))
        s.rests("ready", rounds=1)
        assert '"PROVIDER_NAME": "first"' in s.output()
    (session,) = s.sessions()
    assert s.task().session_id == session["id"]
    assert "Once more." in session["prompts"][2]


def test_a_missing_secret_or_provider_is_a_failed_resource(s: Scene, keys: None) -> None:
    configure(s, first=provider("lost"), second=provider("second"))
    call("put_resource", s.core, OPERATOR, name="other", service="elsewhere")
    s.script([{"echo": SHOWN}])
    s.intent(providers=["first", "other", "second"])
    s.submit()
    with s.working():
        s.rests("ready")
    lost, elsewhere, done = s.runs()
    assert "The environment variable LOST_KEY" in lost["error"]
    assert "[providers.other]" in elsewhere["error"]
    assert (lost["error_class"], elsewhere["error_class"], done["error_class"]) == (
        "resource",
        "resource",
        None,
    )
    assert "LOST_KEY" in listed(s)["first"]["error"]


def test_without_another_provider_a_missing_secret_fails_the_task(s: Scene) -> None:
    configure(s, only=provider("absent"))
    s.script([])
    s.intent(providers=["only"])
    s.submit()
    with s.working():
        s.rests("failed")
    assert "no other resource fits" in s.why()[0]["detail"]["error"]


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({}, "providers.x has no key"),
        ({"secrets": {"KEY": "sk-123456"}}, "providers.x.secrets.KEY must be a reference"),
        ({"secrets": {"KEY": "env:K"}, "keys": 1}, "providers.x.keys is not known"),
        ({"account": "shared"}, "providers.x.account must be one of key, personal, none"),
        ({"account": "none", "capacity": 0}, "providers.x.capacity must be a whole number"),
    ],
)
def test_a_wrong_table_is_refused_with_its_key(table: Mapping[str, Any], words: str) -> None:
    with pytest.raises(Misconfigured, match=words) as caught:
        providers_from({"providers": {"x": table}})
    assert "sk-123456" not in str(caught.value)


def test_an_account_without_a_key_says_so() -> None:
    tables = {"me": {"account": "personal"}, "local": {"account": "none", "service": "llama"}}
    found = providers_from({"providers": tables})
    assert found["me"].row() == {"service": "me", "personal": True, "capacity": 1}
    assert found["local"].row() == {"service": "llama", "personal": False, "capacity": 1}
