"""Pauses and limits through the operations: who set what, when it ends, and how it was before."""

from typing import Any

import pytest

from detent.errors import Invalid, Refused
from detent.integrations.metrics import Metrics
from detent.integrations.webhook_bodies import line
from detent.keeper import timers
from detent.operations.limits import limits_from, save_limits
from detent.store.table_names import TRIMMED
from detent.views import event as shown_event
from detent.views import utc
from tests.operations.desk import S_US, Desk


@pytest.fixture
def desk() -> Desk:
    return Desk()


def events(desk: Desk) -> list[dict[str, Any]]:
    with desk.core.store.read() as view:
        return [shown_event(each) for each in view.events(0, 1_000, stream="@system")]


def said(desk: Desk) -> list[tuple[str, str, str]]:
    return [(each["subject"], each["name"], each["actor"]) for each in events(desk)]


def names(desk: Desk, **then: Any) -> list[str]:
    return [row["name"] for row in desk.ask("list_limits", **then)["items"]]


def test_each_pause_and_its_end_is_an_event(desk: Desk) -> None:
    desk.ask("pause", intent="build", reason="no wood")
    desk.ask("pause", intent="build", reason="no wood")
    desk.ask("pause", intent="build", reason="no nails")
    desk.ask("resume", intent="build")
    desk.ask("resume", intent="build")
    found = [(each["name"], each["data"].get("reason")) for each in events(desk)]
    assert found == [("pause_set", "no wood"), ("pause_set", "no nails"), ("pause_ended", None)]
    assert {each["actor"] for each in events(desk)} == {"owner"}
    feed = desk.ask("list_events")["events"]
    assert [each["name"] for each in feed] == [name for name, _ in found]


def test_the_keeper_ends_a_pause_when_its_time_is_over(desk: Desk) -> None:
    told = desk.ask("pause", project="p", for_s=60, reason="lunch")
    assert told["paused_until"] == utc(desk.clock.now + 60 * S_US)
    assert timers.run(desk.core) == 0
    desk.clock.set(desk.clock.now + 60 * S_US)
    assert names(desk) == ["project:p"], "its end is not in the log yet"
    assert timers.run(desk.core) == 1
    assert timers.run(desk.core) == 0
    assert said(desk)[-1] == ("project:p", "pause_ended", "clock")
    assert events(desk)[-1]["data"] == {"outcome": "expired"}
    assert names(desk) == []


def test_a_pause_that_was_prolonged_does_not_end_before(desk: Desk) -> None:
    desk.ask("pause", for_s=60)
    desk.ask("pause", for_s=120)
    desk.clock.set(desk.clock.now + 90 * S_US)
    assert timers.run(desk.core) == 0
    assert names(desk) == ["all"]


def test_a_pause_is_of_one_thing(desk: Desk) -> None:
    both: tuple[dict[str, Any], ...] = (
        {"intent": "build", "key": "k"},
        {"project": "p", "key": "k"},
    )
    for given in both:
        with pytest.raises(Invalid):
            desk.ask("pause", **given)
    assert desk.ask("pause", key="k")["name"] == "key:k"
    made = desk.submit(options={"concurrency_key": "k"})
    assert desk.claims() == []
    assert desk.reasons(made)["paused"]["detail"]["limit"] == "key:k"
    desk.ask("resume", key="k")
    assert len(desk.claims()) == 1


def test_a_drain_is_an_event(desk: Desk) -> None:
    desk.core.engine.transaction(lambda tx: tx.put_rows("workers", {"w": {}}))
    desk.ask("drain_worker", name="w")
    desk.ask("undrain_worker", name="w")
    assert said(desk) == [
        ("worker:w", "pause_set", "owner"),
        ("worker:w", "pause_ended", "owner"),
    ]


def test_what_the_file_changes_is_an_event_and_what_it_keeps_is_none(desk: Desk) -> None:
    first = {"intent:build": {"running": 2}, "key:k": {"paused": True}}
    second = {"intent:build": {"running": 3}, "project:p": {"rate": 1, "per_s": 60}}
    for tables in (first, first, second, second, {}):
        desk.core.limits = limits_from({"limits": tables})
        save_limits(desk.core)
    assert [(subject, name) for subject, name, _ in said(desk)] == [
        ("intent:build", "limit_set"),
        ("key:k", "pause_set"),
        ("intent:build", "limit_set"),
        ("key:k", "pause_ended"),
        ("project:p", "limit_set"),
        ("intent:build", "limit_ended"),
        ("project:p", "limit_ended"),
    ]
    assert {actor for *_, actor in said(desk)} == {"config"}
    assert names(desk) == []


def test_limits_as_they_were(desk: Desk) -> None:
    desk.ask("pause", intent="build")
    between = utc(desk.clock.now)
    desk.clock.set(desk.clock.now + S_US)
    desk.ask("pause", key="k")
    desk.ask("resume", intent="build")
    assert names(desk) == ["key:k"]
    assert names(desk, position=0) == []
    assert names(desk, position=2) == ["intent:build", "key:k"]
    assert names(desk, time=between) == ["intent:build"]
    with pytest.raises(Invalid):
        names(desk, time=between, position=1)


def test_limits_before_a_trim_are_not_known(desk: Desk) -> None:
    desk.ask("pause", intent="build")
    desk.ask("pause", key="k")

    def cut(tx: Any) -> bool:
        tx.put_rows("system_state", {TRIMMED: {"position": 1, "at": tx.now()}})
        return bool(tx.trim(1))

    desk.core.engine.transaction(cut)
    with pytest.raises(Refused) as refused:
        names(desk, position=2)
    assert refused.value.code == "history_removed"


def test_a_project_sees_the_events_of_its_own_pause(desk: Desk) -> None:
    desk.ask("pause", project="p")
    desk.ask("pause")
    assert [each["project"] for each in events(desk)] == ["p", ""]


def test_metrics_count_pauses_and_show_those_that_hold(desk: Desk) -> None:
    metrics = Metrics(desk.core)
    desk.ask("pause", intent="build")
    desk.ask("pause", key="k")
    desk.ask("resume", key="k")
    with desk.core.store.read() as view:
        metrics.observe(view.events(0, 10))
    page = metrics.page().decode()
    assert 'detent_limit_events_total{event="pause_set",kind="intent"} 1.0' in page
    assert 'detent_limit_events_total{event="pause_ended",kind="key"} 1.0' in page
    assert 'detent_paused{limit="intent:build"} 1.0' in page
    assert "key:k" not in page


def test_a_chat_is_told_of_a_pause(desk: Desk) -> None:
    desk.ask("pause", intent="build", reason="no <wood>", for_s=60)
    desk.ask("resume", intent="build")
    first, last = (line(each, None) for each in events(desk))
    until = utc(desk.clock.now + 60 * S_US)
    assert first == f"*intent:build* is paused until {until}: no &lt;wood&gt; (owner)"
    assert last == "*intent:build* is no longer paused (ended) (owner)"
