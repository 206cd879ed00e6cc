"""Schedules: their times, missed and overlapping times, and one task for each time."""

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

import pytest

from detent.engine import Engine
from detent.errors import Invalid
from detent.keeper import scheduler as duty
from detent.kernel.commands import CancelTask
from detent.operations.context import Core
from detent.operations.schedules import ACTOR
from detent.schedule_times import S_US, Schedule, due_times, schedule_from, times
from detent.settings import Settings
from detent.store.store_url import open_store
from detent.testing.clock import VirtualClock

HOUR_US = 3_600 * S_US


def us(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * S_US


def test_a_cron_expression_follows_its_time_zone_over_a_change_of_the_clock() -> None:
    nightly = schedule_from(
        "nightly", {"intent": "x", "cron": "30 2 * * *", "timezone": "Europe/Berlin"}
    )
    found = list(islice(times(nightly, us("2026-10-23T12:00:00")), 3))
    # Summer time ends on the 25th: 02:30 is 00:30 UTC before, 01:30 UTC after, once that day.
    assert found[0] == us("2026-10-24T00:30:00")
    assert found[2] == us("2026-10-26T01:30:00")
    assert found[1] in (us("2026-10-25T00:30:00"), us("2026-10-25T01:30:00"))


def test_an_interval_counts_from_its_anchor() -> None:
    every = Schedule("often", "x", every_s=60, anchor_at=7 * S_US, last_at=90 * S_US)
    assert list(islice(times(every, 150 * S_US), 2)) == [187 * S_US, 247 * S_US]
    assert next(times(every, 187 * S_US)) == 247 * S_US


@pytest.mark.parametrize("known", [{"last_at": 7 * S_US}, {"next_at": 127 * S_US}])
def test_an_interval_without_an_anchor_keeps_its_times(known: dict[str, int]) -> None:
    """As an older version has stored it."""
    every = schedule_from("often", {"intent": "x", "every_s": 60, **known})
    assert list(islice(times(every, 70 * S_US), 2)) == [127 * S_US, 187 * S_US]


@pytest.mark.parametrize(("missed", "expected"), [("once", 1_000), ("skip", 1_000), ("all", 100)])
def test_of_very_many_missed_times_those_that_still_count_are_found(
    missed: str, expected: int
) -> None:
    every = Schedule("often", "x", every_s=1, missed=missed, next_at=S_US, anchor_at=0)
    assert due_times(every, 1_000 * S_US)[-1] == expected * S_US


@pytest.mark.parametrize(
    ("missed", "expected"), [("all", [1, 2, 3, 4]), ("once", [4]), ("skip", [])]
)
def test_missed_times_follow_the_policy(missed: str, expected: list[int]) -> None:
    hourly = Schedule("hourly", "x", every_s=3_600, missed=missed, next_at=HOUR_US, last_at=0)
    found = due_times(hourly, 4 * HOUR_US + 30 * 60 * S_US)
    assert [at // HOUR_US for at in found] == expected


def test_a_time_that_is_fired_in_time_is_not_missed() -> None:
    hourly = Schedule("hourly", "x", every_s=3_600, missed="skip", next_at=HOUR_US, last_at=0)
    assert due_times(hourly, HOUR_US + S_US) == [HOUR_US]
    assert due_times(hourly, HOUR_US - 1) == []


@pytest.mark.parametrize(
    ("row", "field"),
    [
        ({"intent": "x"}, "cron"),
        ({"intent": "x", "cron": "* * * * *", "every_s": 5}, "cron"),
        ({"intent": "x", "cron": "61 * * * *"}, "cron"),
        ({"intent": "x", "cron": "* * * * *", "timezone": "Mars/Olympus"}, "timezone"),
        ({"intent": "x", "cron": "* * * * *", "timezone": "Europe"}, "timezone"),
        ({"intent": "x", "every_s": 0}, "every_s"),
        ({"intent": "x", "every_s": 5, "overlap": "perhaps"}, "overlap"),
        ({"intent": "x", "every_s": 5, "missed": "perhaps"}, "missed"),
        ({"intent": "x", "every_s": 5, "colour": "red"}, "colour"),
    ],
)
def test_what_is_wrong_is_named(row: dict[str, object], field: str) -> None:
    with pytest.raises(Invalid) as caught:
        schedule_from("wrong", row)
    assert caught.value.field == field


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(us("2026-07-01T00:00:00"))


@pytest.fixture
def core(tmp_path: Path, clock: VirtualClock) -> Iterator[Core]:
    store = open_store(str(tmp_path / "detent.db"), clock=clock)
    yield Core(store, Engine(store), Settings(), {"sweep": {"command": ["true"]}})
    store.close()


def put(core: Core, **row: object) -> None:
    core.engine.transaction(
        lambda tx: tx.put_rows("schedules", {"sweep": {"intent": "sweep", **row}})
    )


def submitted(core: Core) -> list[str]:
    with core.store.read() as view:
        return [each.stream for each in view.events(0, 1_000) if each.name == "task_created"]


def test_two_keepers_make_one_task_for_each_time(core: Core, clock: VirtualClock) -> None:
    put(core, every_s=60, overlap="allow")
    duty.run(core)
    clock.advance(seconds=61)
    with core.store.read() as view:
        seen = schedule_from("sweep", view.rows("schedules")["sweep"])
        now = view.now()
    assert duty.fire(core, seen, now) == 1
    duty.fire(
        core, seen, now
    )  # another keeper that read the schedule before the first one updated it
    assert len(submitted(core)) == 1
    clock.advance(seconds=60)
    duty.run(core)
    assert len(submitted(core)) == 2


def test_every_missed_time_is_submitted_in_several_passes(core: Core, clock: VirtualClock) -> None:
    """A pass submits a limited number of missed times; the next one continues after them."""
    put(core, every_s=60, overlap="allow", missed="all")
    duty.run(core)
    clock.advance(seconds=60 * 250)
    passes = [duty.run(core) for _ in range(4)]
    assert passes == [100, 100, 50, 0]
    assert len(set(submitted(core))) == 250


def test_an_unfinished_task_is_not_overlapped(core: Core, clock: VirtualClock) -> None:
    put(core, every_s=60, overlap="skip")
    duty.run(core)
    for _ in range(3):
        clock.advance(seconds=60)
        duty.run(core)
    (task_id,) = submitted(core)
    core.engine.do(CancelTask(task_id), ACTOR)
    clock.advance(seconds=60)
    duty.run(core)
    assert len(submitted(core)) == 2


@pytest.mark.parametrize("wrong", [{"timezone": "Mars/North"}, {"colour": "of a newer version"}])
def test_a_schedule_that_cannot_be_read_blocks_no_other(
    core: Core, clock: VirtualClock, wrong: dict[str, str]
) -> None:
    row = {"intent": "sweep", "cron": "0 0 * * *", **wrong}
    core.engine.transaction(lambda tx: tx.put_rows("schedules", {"first": row}))
    put(core, every_s=60)
    duty.run(core)
    clock.advance(seconds=61)
    assert duty.run(core) == 1


def test_a_paused_schedule_does_not_fire(core: Core, clock: VirtualClock) -> None:
    put(core, every_s=60, paused=True)
    duty.run(core)
    clock.advance(seconds=600)
    assert duty.run(core) == 0
    assert submitted(core) == []
