"""Pauses and limits in operations: their actors, their ends, and their history."""

from typing import Any

import pytest

from detent.errors import Invalid, Refused
from detent.integrations.telemetry.metrics import Metrics
from detent.integrations.webhooks.webhook_bodies import line
from detent.keeper import timers
from detent.limit_config import limits_from
from detent.operations.limits import save_limits
from detent.store.table_names import TRIMMED
from detent.views import event as shown_event
from detent.views import utc
from tests.operations.operations_client import S_US, OperationsClient


@pytest.fixture
def client() -> OperationsClient:
    return OperationsClient()


def events(client: OperationsClient) -> list[dict[str, Any]]:
    with client.core.store.read() as view:
        return [shown_event(each) for each in view.events(0, 1_000, stream="@system")]


def limit_events(client: OperationsClient) -> list[tuple[str, str, str]]:
    return [(each["subject"], each["name"], each["actor"]) for each in events(client)]


def names(client: OperationsClient, **then: Any) -> list[str]:
    return [row["name"] for row in client.call("list_limits", **then)["items"]]


def test_each_pause_and_its_end_is_an_event(client: OperationsClient) -> None:
    client.call("pause", intent="build", reason="no wood")
    client.call("pause", intent="build", reason="no wood")
    client.call("pause", intent="build", reason="no nails")
    client.call("resume", intent="build")
    client.call("resume", intent="build")
    found = [(each["name"], each["data"].get("reason")) for each in events(client)]
    assert found == [("pause_set", "no wood"), ("pause_set", "no nails"), ("pause_ended", None)]
    assert {each["actor"] for each in events(client)} == {"owner"}
    feed = client.call("list_events")["events"]
    assert [each["name"] for each in feed] == [name for name, _ in found]


def test_the_keeper_ends_a_pause_when_its_time_is_over(client: OperationsClient) -> None:
    paused = client.call("pause", project="p", for_s=60, reason="lunch")
    assert paused["paused_until"] == utc(client.clock.now + 60 * S_US)
    assert timers.run(client.core) == 0
    client.clock.set(client.clock.now + 60 * S_US)
    assert names(client) == ["project:p"], "its end is not in the log yet"
    assert timers.run(client.core) == 1
    assert timers.run(client.core) == 0
    assert limit_events(client)[-1] == ("project:p", "pause_ended", "clock")
    assert events(client)[-1]["data"] == {"outcome": "expired"}
    assert names(client) == []


def test_a_pause_that_was_prolonged_does_not_end_before(client: OperationsClient) -> None:
    client.call("pause", for_s=60)
    client.call("pause", for_s=120)
    client.clock.set(client.clock.now + 90 * S_US)
    assert timers.run(client.core) == 0
    assert names(client) == ["all"]


def test_a_pause_is_of_one_thing(client: OperationsClient) -> None:
    both: tuple[dict[str, Any], ...] = (
        {"intent": "build", "key": "k"},
        {"project": "p", "key": "k"},
    )
    for given in both:
        with pytest.raises(Invalid):
            client.call("pause", **given)
    assert client.call("pause", key="k")["name"] == "key:k"
    made = client.submit(options={"concurrency_key": "k"})
    assert client.claims() == []
    assert client.reasons(made)["paused"]["detail"]["limit"] == "key:k"
    client.call("resume", key="k")
    assert len(client.claims()) == 1


def test_a_drain_is_an_event(client: OperationsClient) -> None:
    client.core.engine.transaction(lambda tx: tx.put_rows("workers", {"w": {}}))
    client.call("drain_worker", name="w")
    client.call("undrain_worker", name="w")
    assert limit_events(client) == [
        ("worker:w", "pause_set", "owner"),
        ("worker:w", "pause_ended", "owner"),
    ]


def test_what_the_file_changes_is_an_event_and_what_it_keeps_is_none(
    client: OperationsClient,
) -> None:
    first = {"intent:build": {"running": 2}, "key:k": {"paused": True}}
    second = {"intent:build": {"running": 3}, "project:p": {"rate": 1, "per_s": 60}}
    for tables in (first, first, second, second, {}):
        client.core.limits = limits_from({"limits": tables})
        save_limits(client.core)
    assert [(subject, name) for subject, name, _ in limit_events(client)] == [
        ("intent:build", "limit_set"),
        ("key:k", "pause_set"),
        ("intent:build", "limit_set"),
        ("key:k", "pause_ended"),
        ("project:p", "limit_set"),
        ("intent:build", "limit_ended"),
        ("project:p", "limit_ended"),
    ]
    assert {actor for *_, actor in limit_events(client)} == {"config"}
    assert names(client) == []


def test_limits_as_they_were(client: OperationsClient) -> None:
    client.call("pause", intent="build")
    between = utc(client.clock.now)
    client.clock.set(client.clock.now + S_US)
    client.call("pause", key="k")
    client.call("resume", intent="build")
    assert names(client) == ["key:k"]
    assert names(client, position=0) == []
    assert names(client, position=2) == ["intent:build", "key:k"]
    assert names(client, time=between) == ["intent:build"]
    with pytest.raises(Invalid):
        names(client, time=between, position=1)


def test_limits_before_a_trim_are_not_known(client: OperationsClient) -> None:
    client.call("pause", intent="build")
    client.call("pause", key="k")

    def cut(tx: Any) -> bool:
        tx.put_rows("system_state", {TRIMMED: {"position": 1, "at": tx.now()}})
        return bool(tx.trim(1))

    client.core.engine.transaction(cut)
    with pytest.raises(Refused) as refused:
        names(client, position=2)
    assert refused.value.code == "history_removed"


def test_a_project_sees_the_events_of_its_own_pause(client: OperationsClient) -> None:
    client.call("pause", project="p")
    client.call("pause")
    assert [each["project"] for each in events(client)] == ["p", ""]


def test_metrics_count_pauses_and_show_those_that_hold(client: OperationsClient) -> None:
    metrics = Metrics(client.core)
    client.call("pause", intent="build")
    client.call("pause", key="k")
    client.call("resume", key="k")
    with client.core.store.read() as view:
        metrics.observe(view.events(0, 10))
    page = metrics.page().decode()
    assert 'detent_limit_events_total{event="pause_set",kind="intent"} 1.0' in page
    assert 'detent_limit_events_total{event="pause_ended",kind="key"} 1.0' in page
    assert 'detent_paused{limit="intent:build"} 1.0' in page
    assert "key:k" not in page


def test_a_chat_message_for_a_pause(client: OperationsClient) -> None:
    client.call("pause", intent="build", reason="no <wood>", for_s=60)
    client.call("resume", intent="build")
    first, last = (line(each, None) for each in events(client))
    until = utc(client.clock.now + 60 * S_US)
    assert first == f"*intent:build* is paused until {until}: no &lt;wood&gt; (owner)"
    assert last == "*intent:build* is no longer paused (ended) (owner)"
