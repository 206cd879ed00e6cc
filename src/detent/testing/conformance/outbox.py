"""Checks of the outbox: deliveries are returned in order, updated and deleted."""

import threading
from functools import partial

from detent.store.types import Delivery
from detent.testing.conformance.case import Case, check


def note(target: str, position: int) -> Delivery:
    return Delivery(0, target, f"stream {position}", position, f'{{"é": {position}}}', 7)


def put(case: Case, *rows: Delivery) -> None:
    with case.store.write() as tx:
        tx.put_outbox(rows)


def kept(case: Case, target: str, limit: int = 1_000) -> list[Delivery]:
    with case.store.read() as view:
        return list(view.outbox(target, limit))


@check
def deliveries_come_back_by_target_in_order(case: Case) -> None:
    put(case, *(note("a", position) for position in range(60)), note("b", 60))
    put(case, note("a", 61))
    rows = kept(case, "a")
    assert [row.position for row in rows] == [*range(60), 61]
    assert [row._replace(id=0) for row in rows[:2]] == [note("a", 0), note("a", 1)]
    assert [row.id for row in rows] == sorted({row.id for row in rows})
    assert [row.position for row in kept(case, "a", 3)] == [0, 1, 2]
    assert [row.position for row in kept(case, "b")] == [60]
    assert kept(case, "c") == []


@check
def deliveries_are_noted_and_removed(case: Case) -> None:
    put(case, note("a", 1), note("a", 2), note("a", 3))
    first, second, third = kept(case, "a")
    failed = second._replace(due_at=1 << 60, attempts=3, error="no answer")
    with case.store.write() as tx:
        tx.update_outbox([failed])
        tx.delete_outbox([first.id])
    assert kept(case, "a") == [failed, third]
    with case.store.write() as tx:
        tx.update_outbox([first])
        tx.delete_outbox([first.id])
        tx.put_outbox([])
    assert kept(case, "a") == [failed, third]


@check
def deliveries_and_the_cursor_land_together_or_not_at_all(case: Case) -> None:
    try:
        with case.store.write() as tx:
            tx.put_outbox([note("a", 1)])
            tx.put_rows("webhooks", {"a:cursor": 1})
            raise KeyError
    except KeyError:
        pass
    assert kept(case, "a") == []
    with case.store.read() as view:
        assert view.rows("webhooks") == {}


@check
def of_two_that_fill_one_outbox_the_second_sees_the_first(case: Case) -> None:
    """Each puts what comes after the cursor that it finds; so nothing is put twice."""
    stores = [case.store, *(engine.store for engine in case.others(3))]
    begin = threading.Barrier(len(stores))

    def fill(number: int) -> None:
        begin.wait()
        for _ in range(5):
            with stores[number].write() as tx:
                tx.outbox("a", 1)
                cursor = tx.rows("webhooks").get("a:cursor") or 0
                if cursor < 10:
                    tx.put_outbox([note("a", cursor + 1)])
                    tx.put_rows("webhooks", {"a:cursor": cursor + 1})

    threads = [threading.Thread(target=partial(fill, each)) for each in range(len(stores))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [row.position for row in kept(case, "a")] == list(range(1, 11))
