"""Schedules: created and edited by operators while the keeper fires them."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from detent.errors import DetentError
from detent.keeper import scheduler as duty
from detent.operations.schedules import record_firing
from detent.schedule_times import schedule_from
from tests.operations.installation import OURS, LocalInstallation, local_installation


@pytest.fixture
def installed(tmp_path: Path) -> Iterator[LocalInstallation]:
    with local_installation(tmp_path) as made:
        yield made


def titles(installed: LocalInstallation) -> list[str]:
    return [row["title"] for row in installed.call("list_tasks")["items"]]


def test_a_new_schedule_has_its_next_time(installed: LocalInstallation) -> None:
    made = installed.call("put_schedule", name="often", intent="runQA", every_s=60)
    assert (made["every_s"], made["overlap"], made["paused"]) == (60, "skip", False)
    assert made["next_at"] == "2027-01-15T08:01:00.000Z"
    assert installed.call("list_schedules")["items"] == [made]


def test_the_keeper_fires_a_schedule(installed: LocalInstallation) -> None:
    installed.call("put_schedule", name="often", intent="runQA", every_s=60, payload={"a": 1})
    installed.clock.advance(seconds=60)
    assert duty.run(installed.core) == 1
    (task,) = installed.call("list_tasks")["items"]
    assert (task["title"], task["payload"], task["source"]) == ("often", {"a": 1}, "schedule")
    assert installed.call("list_schedules")["items"][0]["last_task"] == task["id"]


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"intent": "unheardOf", "every_s": 60}, "intent"),
        ({"intent": "runQA"}, "cron"),
        ({"intent": "runQA", "cron": "61 * * * *"}, "cron"),
        ({"intent": "runQA", "every_s": 60, "priority": "P9"}, "priority"),
        ({"intent": "runQA", "every_s": 60, "options": {"colour": 1}}, "options.colour"),
    ],
)
def test_an_invalid_submission_is_refused_when_the_schedule_is_created(
    installed: LocalInstallation, fields: dict[str, object], named: str
) -> None:
    with pytest.raises(DetentError) as caught:
        installed.call("put_schedule", name="wrong", **fields)
    assert caught.value.details["field"] == named
    assert installed.rows("schedules") == {}


def test_replacing_keeps_the_pause_and_what_it_did_last(installed: LocalInstallation) -> None:
    installed.call("put_schedule", name="often", intent="runQA", every_s=60)
    installed.clock.advance(seconds=60)
    duty.run(installed.core)
    installed.call("pause_schedule", name="often")
    made = installed.call("put_schedule", name="often", intent="review", cron="0 3 * * *")
    assert (made["intent"], made["every_s"], made["paused"]) == ("review", None, True)
    assert made["last_task"] is not None


def test_times_during_a_pause_are_skipped(installed: LocalInstallation) -> None:
    installed.call("put_schedule", name="often", intent="runQA", every_s=60, missed="all")
    installed.call("pause_schedule", name="often")
    installed.clock.advance(seconds=600)
    assert duty.run(installed.core) == 0
    resumed = installed.call("resume_schedule", name="often")
    assert resumed["next_at"] == "2027-01-15T08:11:00.000Z"
    assert duty.run(installed.core) == 0
    installed.clock.advance(seconds=60)
    assert duty.run(installed.core) == 1


def test_each_trigger_submits_an_additional_task(installed: LocalInstallation) -> None:
    installed.call("put_schedule", name="often", intent="runQA", every_s=60)
    first = installed.call("trigger_schedule", name="often")["task_id"]
    assert installed.call("trigger_schedule", name="often")["task_id"] != first
    assert titles(installed) == ["often", "often"]


def test_the_next_times_are_listed(installed: LocalInstallation) -> None:
    installed.call(
        "put_schedule", name="daily", intent="runQA", cron="0 3 * * *", timezone="Asia/Tokyo"
    )
    found = installed.call("next_times", name="daily", count=2)["times"]
    assert found == ["2027-01-15T18:00:00.000Z", "2027-01-16T18:00:00.000Z"]


def test_an_edit_during_a_firing_is_not_undone(installed: LocalInstallation) -> None:
    installed.call("put_schedule", name="often", intent="runQA", every_s=60)
    seen = schedule_from("often", installed.rows("schedules")["often"])
    installed.clock.advance(seconds=61)
    edited = installed.call("put_schedule", name="often", intent="review", every_s=3_600)
    record_firing(installed.core, seen, last_at=seen.next_at, last_task="t", next_at=7)
    (row,) = installed.call("list_schedules")["items"]
    assert (row["intent"], row["every_s"], row["next_at"]) == ("review", 3_600, edited["next_at"])
    assert row["last_task"] == "t"


def test_a_schedule_that_is_deleted_while_firing_stays_deleted(
    installed: LocalInstallation,
) -> None:
    installed.call("put_schedule", name="often", intent="runQA", every_s=60)
    seen = schedule_from("often", installed.rows("schedules")["often"])
    assert installed.call("delete_schedule", name="often")["removed"] is True
    record_firing(installed.core, seen, next_at=7)
    assert installed.rows("schedules") == {}


def test_a_schedule_with_an_unknown_intent_does_not_block_others(
    installed: LocalInstallation,
) -> None:
    installed.put("schedules", {"a": {"intent": "gone", "every_s": 60, "next_at": 1}})
    installed.call("put_schedule", name="b", intent="runQA", every_s=60)
    installed.clock.advance(seconds=60)
    assert duty.run(installed.core) == 1
    assert titles(installed) == ["b"]
    assert installed.rows("schedules")["a"]["next_at"] > installed.clock()


def test_a_projects_token_keeps_to_its_project(installed: LocalInstallation) -> None:
    installed.call("put_schedule", name="theirs", intent="runQA", every_s=60, project="theirs")
    made = installed.call("put_schedule", OURS, name="own", intent="runQA", every_s=60)
    assert made["project"] == "ours"
    assert [row["name"] for row in installed.call("list_schedules", OURS)["items"]] == ["own"]
    for name in ("delete_schedule", "pause_schedule", "trigger_schedule", "next_times"):
        with pytest.raises(DetentError) as caught:
            installed.call(name, OURS, name="theirs")
        assert caught.value.code == "not_found"
    with pytest.raises(DetentError):
        installed.call("put_schedule", OURS, name="theirs", intent="runQA", every_s=1)
    assert installed.rows("schedules")["theirs"]["every_s"] == 60


# ---- times that were predicted ---------------------------------------------------------------


def predicted(installed: LocalInstallation, count: int) -> list[str]:
    return list(installed.call("next_times", name="often", count=count)["times"])


def test_an_interval_fires_at_the_times_that_were_predicted(installed: LocalInstallation) -> None:
    """However late a keeper fires, and also if the times are read in between."""
    installed.call("put_schedule", name="often", intent="runQA", every_s=60, overlap="allow")
    wanted = predicted(installed, 6)
    fired: list[str] = []
    for step_s in (17, 44, 62, 59, 75, 50, 53):  # it fires at 17, 61, 123, 182, 257, 307 and 360
        assert predicted(installed, 1) == wanted[len(fired) : len(fired) + 1]
        installed.clock.advance(seconds=step_s)
        if duty.run(installed.core):
            fired.append(installed.call("list_schedules")["items"][0]["last_at"])
    assert fired == wanted


def test_a_pause_an_edit_and_an_unknown_first_time_move_no_time(
    installed: LocalInstallation,
) -> None:
    made = installed.call("put_schedule", name="often", intent="runQA", every_s=60)
    wanted = predicted(installed, 10)
    assert wanted[0] == made["next_at"]
    installed.clock.advance(seconds=17)
    installed.call("pause_schedule", name="often")
    assert predicted(installed, 10) == wanted
    installed.clock.advance(seconds=17)
    assert installed.call("resume_schedule", name="often")["next_at"] == wanted[0]
    edited = installed.call("put_schedule", name="often", intent="review", every_s=60)
    assert (edited["next_at"], edited["anchor_at"]) == (wanted[0], made["anchor_at"])
    row = installed.rows("schedules")["often"]
    installed.core.engine.transaction(
        lambda tx: tx.put_rows("schedules", {"often": {**row, "next_at": None}})
    )
    assert duty.run(installed.core) == 0
    assert installed.call("list_schedules")["items"][0]["next_at"] == wanted[0]


def test_a_new_interval_counts_from_now(installed: LocalInstallation) -> None:
    installed.call("put_schedule", name="often", intent="runQA", every_s=60)
    installed.clock.advance(seconds=17)
    made = installed.call("put_schedule", name="often", intent="runQA", every_s=30)
    assert made["next_at"] == "2027-01-15T08:00:47.000Z"


def test_no_caller_says_that_a_schedule_sent_it(installed: LocalInstallation) -> None:
    with pytest.raises(DetentError) as caught:
        installed.submit(source="schedule")
    assert caught.value.details["field"] == "source"


def test_a_schedule_needs_no_source_of_the_configuration(installed: LocalInstallation) -> None:
    installed.core.settings = replace(installed.core.settings, intake_sources=("cli",))
    installed.call("put_schedule", name="often", intent="runQA", every_s=60)
    installed.clock.advance(seconds=60)
    assert duty.run(installed.core) == 1
