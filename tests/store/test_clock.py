"""The store's clock by itself: readings that overlap, answers that are late, a machine asleep."""

from detent.boot_time import since_boot_s
from detent.store.clock import NEVER, HostClock, StoreClock, Written
from detent.testing.clock import START, VirtualClock

SECOND_US = 1_000_000


def test_readings_of_a_server_that_overlap_do_not_add_up() -> None:
    """Two transactions begin at the same time and read the time in the other order."""
    source = VirtualClock()
    clock = StoreClock(source)
    server = START
    for _ in range(1_000):
        server += 10_000
        source.advance(us=10_000)
        assert clock.moment(NEVER, server).ahead == 0
        late = clock.moment(NEVER, server - 5_000)
        assert late.now == server
    assert clock.moment(NEVER, server + 1).ahead == 0


def test_a_servers_late_answer_moves_nothing() -> None:
    source = VirtualClock()
    clock = StoreClock(source)
    clock.moment(NEVER, START)
    source.advance(seconds=5)
    assert clock.moment(NEVER, START + 100_000) == (START + 100_000, 0, NEVER)


def test_a_servers_clock_that_goes_back_goes_on_from_the_last_reported_time() -> None:
    source = VirtualClock()
    clock = StoreClock(source)
    clock.moment(NEVER, START)
    server = START - 3_600 * SECOND_US
    assert clock.moment(NEVER, server).now == START
    source.advance(seconds=10)
    assert clock.moment(NEVER, server + 10 * SECOND_US).now == START + 9_900_000


def test_time_in_which_nothing_was_asked_counts() -> None:
    """Also that of a suspended machine: elapsed time goes on."""
    source = VirtualClock()
    clock = StoreClock(source)
    ahead = Written(START + 3_600 * SECOND_US)
    assert clock.moment(ahead).now == ahead.at
    source.advance(seconds=1_000)
    assert clock.moment(ahead).now == ahead.at + 990 * SECOND_US


def test_a_reset_is_heard_once() -> None:
    source = VirtualClock()
    clock = StoreClock(source)
    clock.moment(Written(START + SECOND_US))
    assert clock.moment(Written(START, 7, 1)).now == START
    assert clock.moment(Written(START + SECOND_US, 7, 1)).now == START + SECOND_US
    assert clock.moment(Written(START, 7, 1)).now == START + SECOND_US


def test_events_before_a_reset_do_not_count() -> None:
    clock = StoreClock(VirtualClock())
    row = '{"at":5,"position":7,"resets":1}'
    assert clock.written(row, last_at=9, head=7)[:3] == (5, 7, 1)
    assert clock.written(row, last_at=9, head=8)[:3] == (9, 7, 1)
    assert clock.written(None, last_at=9, head=8)[:3] == (9, 0, 0)


def test_the_clock_of_the_host_has_both() -> None:
    clock = HostClock()
    first, at = clock.elapsed(), since_boot_s()
    assert first <= clock.elapsed()
    assert abs(at - first / SECOND_US) < 60
    assert clock() > START // 2
