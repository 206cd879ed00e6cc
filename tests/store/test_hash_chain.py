"""The hash chain: what it covers, what it detects, and how it survives deletion and trimming."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from detent.engine import Engine
from detent.errors import Broken, Refused
from detent.integrity import hash_chain
from detent.integrity.hash_chain import Anchor, Break
from detent.integrity.verify import verify
from detent.keeper import chain_blocks as duty
from detent.kernel import commands as c
from detent.operations.context import Core
from detent.service import duties
from detent.settings import Settings
from detent.store.codec import data_digest
from detent.store.port import Store
from detent.store.sqlite import SqliteStore
from detent.store.store_url import open_store
from detent.store.types import ChainBlock
from detent.testing.audit import audit
from detent.testing.clock import VirtualClock
from detent.testing.conformance.work_actions import claim_one, complete, do, submit_job, submit_task
from tests import altered_database


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path, clock: VirtualClock) -> Iterator[Store]:
    place = {"memory": "memory:", "sqlite": str(tmp_path / "detent.db")}.get(request.param)
    made = open_store(place or request.getfixturevalue("postgres_url"), clock)
    yield made
    made.close()


@pytest.fixture
def sqlite(tmp_path: Path, clock: VirtualClock) -> Iterator[SqliteStore]:
    made = SqliteStore(tmp_path / "detent.db", clock)
    yield made
    made.close()


def finished(store: Store) -> str:
    """A job's whole life; its id."""
    engine = Engine(store)
    job = submit_job(engine, payload={"secret": 1})
    complete(engine, claim_one(engine))
    return job


def chain(store: Store) -> hash_chain.Chain:
    with store.read() as view:
        return hash_chain.check(view)


def anchor(store: Store) -> Anchor:
    return verify(store).anchor


def alter(store: SqliteStore, *statements: str) -> None:
    """Change the file behind the store's back."""
    altered_database.alter(store.path, *statements)


# ---- extending ---------------------------------------------------------------------------------


def test_chain_blocks_cover_the_committed_events(store: Store) -> None:
    finished(store)
    assert hash_chain.extend_chain(store) == 1
    assert hash_chain.extend_chain(store) == 0
    finished(store)
    assert hash_chain.extend_chain(store) == 1
    with store.read() as view:
        first, second = view.chain_blocks(0, 10)
        assert view.chain_blocks(first.to_position, 10) == [second]
        assert view.last_chain_block() == second
        events = view.events(0, 1_000)
        head = view.head()
    assert (first.from_position, second.to_position) == (1, head)
    assert first.events + second.events == len(events)
    assert second.chain == hash_chain.chained(hash_chain.START, events)


def test_the_chain_does_not_depend_on_where_chain_blocks_end(store: Store) -> None:
    finished(store)
    with store.read() as view:
        whole = hash_chain.next_chain_block(view)
    while True:
        with store.read() as view:
            small = hash_chain.next_chain_block(view, max_events=2)
        if small is None:
            break
        with store.write() as tx:
            tx.put_chain_block(small)
    with store.read() as view:
        last = view.last_chain_block()
    assert whole is not None
    assert last is not None
    assert (last.chain, last.to_position) == (whole.chain, whole.to_position)
    assert last.events < whole.events
    assert chain(store).breaks == []


def test_a_range_gets_one_chain_block(store: Store) -> None:
    finished(store)
    with store.read() as view:
        block = hash_chain.next_chain_block(view)
    assert block is not None
    with store.write() as tx:
        tx.put_chain_block(block)
    with pytest.raises(Refused) as refused, store.write() as tx:
        tx.put_chain_block(block._replace(to_position=block.to_position + 1))
    assert refused.value.code == "version_conflict"
    with store.read() as view:
        assert view.chain_blocks(0, 10) == [block]


def test_the_keeper_extends_the_chain_to_the_end_of_the_log(store: Store) -> None:
    core = Core(store, Engine(store))
    finished(store)
    assert duty.run(core) == 1
    assert duty.run(core) == 0
    with store.read() as view:
        last = view.last_chain_block()
        assert last is not None
        assert last.to_position == view.head()


def test_the_keeper_extends_the_chain_in_every_pass() -> None:
    settings = Settings()
    (found,) = [each for each in duties(settings) if each.run is duty.run]
    assert found.every_ms == settings.keeper_interval_ms == 1_000


# ---- what it finds -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("what", "statements"),
    [
        ({"chain"}, ["UPDATE events SET data = replace(data, '1', '2') WHERE position = 1"]),
        ({"chain"}, ["UPDATE events SET actor = 'person:eve' WHERE position = 2"]),
        ({"chain"}, ["UPDATE events SET at = at + 1 WHERE position = 2"]),
        ({"count", "chain"}, ["DELETE FROM events WHERE position = 2"]),
        (
            {"count", "chain"},
            [
                "INSERT INTO events SELECT position + 1000, 'x', 1, project, name, schema, subject,"
                " at, actor, data, digest FROM events WHERE position = 1",
                "UPDATE seals SET to_position = 2000",
            ],
        ),
        ({"chain"}, ["UPDATE seals SET chain = zeroblob(32)"]),
    ],
)
def test_it_finds(sqlite: SqliteStore, what: set[str], statements: list[str]) -> None:
    finished(sqlite)
    hash_chain.extend_chain(sqlite)
    assert chain(sqlite).breaks == []
    alter(sqlite, *statements)
    assert {each.what for each in chain(sqlite).breaks} == what


def test_data_that_was_changed_does_not_pass_by_the_digest_of_the_old(sqlite: SqliteStore) -> None:
    finished(sqlite)
    hash_chain.extend_chain(sqlite)
    with sqlite.read() as view:
        first = view.events(0, 1)[0]
    kept = data_digest(first).hex()
    alter(
        sqlite,
        f"UPDATE events SET data = replace(data, '1', '2'), digest = x'{kept}' WHERE position = 1",
    )
    assert [each.what for each in chain(sqlite).breaks] == ["chain"]


def test_only_the_range_that_differs_is_named(sqlite: SqliteStore) -> None:
    for _ in range(3):
        finished(sqlite)
        hash_chain.extend_chain(sqlite)
    with sqlite.read() as view:
        middle = view.chain_blocks(0, 3)[1]
    alter(
        sqlite, f"UPDATE events SET project = 'other' WHERE position = {middle.from_position + 1}"
    )
    assert [(each.position, each.what) for each in chain(sqlite).breaks] == [
        (middle.to_position, "chain")
    ]


def test_a_removed_chain_block_is_found(sqlite: SqliteStore) -> None:
    for _ in range(3):
        finished(sqlite)
        hash_chain.extend_chain(sqlite)
    with sqlite.read() as view:
        _, middle, last = view.chain_blocks(0, 3)
    alter(sqlite, f"DELETE FROM seals WHERE to_position = {middle.to_position}")
    assert Break(last.to_position, "count", last.events, middle.events + last.events) in (
        chain(sqlite).breaks
    )


# ---- events that were not sealed in time -------------------------------------------------------

MINUTE_US = 60_000_000
#: Who did it is in no row, so that only the chain knows.
ACTOR = "UPDATE events SET actor = 'person:eve' WHERE position = 2"


def named(store: Store) -> list[tuple[str, int]]:
    """What `verify` names beside differences, of which there are none."""
    verdict = verify(store)
    assert verdict.differences == []
    assert verdict.clean == (not verdict.unsealed)
    return [(each.what, each.position) for each in verdict.unsealed]


def head(store: Store) -> int:
    with store.read() as view:
        return view.head()


@pytest.mark.parametrize("age_us", [0, 10 * MINUTE_US])
def test_deleted_chain_blocks_and_a_changed_actor_are_not_clean(
    sqlite: SqliteStore, clock: VirtualClock, age_us: int
) -> None:
    finished(sqlite)
    assert verify(sqlite).clean
    clock.advance(us=age_us)
    alter(sqlite, "DELETE FROM seals", ACTOR)
    assert named(sqlite) == [("removed", head(sqlite))]
    assert named(sqlite) == [("removed", head(sqlite))], "the check has sealed it"


def test_the_keeper_does_not_replace_deleted_chain_blocks(sqlite: SqliteStore) -> None:
    finished(sqlite)
    hash_chain.extend_chain(sqlite)
    alter(sqlite, "DELETE FROM seals", ACTOR)
    with pytest.raises(Broken, match="were removed"):
        duty.run(Core(sqlite, Engine(sqlite)))
    assert named(sqlite) == [("removed", head(sqlite))]


def test_chain_blocks_that_replace_deleted_ones_are_late(
    sqlite: SqliteStore, clock: VirtualClock
) -> None:
    """The recorded position is deleted too, and a keeper has sealed all events again."""
    finished(sqlite)
    assert verify(sqlite).clean
    clock.advance(us=2 * MINUTE_US)
    alter(sqlite, "DELETE FROM seals", "DELETE FROM system_state WHERE name = 'sealed'", ACTOR)
    finished(sqlite)
    duty.run(Core(sqlite, Engine(sqlite)))
    assert named(sqlite) == [("late", head(sqlite))]
    assert chain(sqlite).breaks == []


def test_events_without_a_chain_block_are_reported_and_can_be_accepted(
    store: Store, clock: VirtualClock
) -> None:
    finished(store)
    assert named(store) == []
    finished(store)
    clock.advance(us=MINUTE_US + 1)
    assert named(store) == [("missing", head(store))]
    assert named(store) == [("missing", head(store))]
    assert verify(store, accept_unsealed=True).clean
    assert named(store) == []
    with store.read() as view:
        last = view.last_chain_block()
    assert last is not None
    assert last.to_position == head(store)


def test_what_was_accepted_is_not_accepted_with_another_chain(
    sqlite: SqliteStore, clock: VirtualClock
) -> None:
    finished(sqlite)
    clock.advance(us=2 * MINUTE_US)
    assert verify(sqlite, accept_unsealed=True).clean
    alter(sqlite, "DELETE FROM seals", "DELETE FROM system_state WHERE name = 'sealed'", ACTOR)
    hash_chain.extend_chain(sqlite)
    assert named(sqlite) == [("late", head(sqlite))]


def test_a_broken_chain_cannot_be_accepted(sqlite: SqliteStore, clock: VirtualClock) -> None:
    finished(sqlite)
    hash_chain.extend_chain(sqlite)
    finished(sqlite)
    clock.advance(us=2 * MINUTE_US)
    alter(sqlite, ACTOR)
    verdict = verify(sqlite, accept_unsealed=True)
    assert [each.field for each in verdict.differences] == ["chain"]
    assert [each.what for each in verdict.unsealed] == ["missing"]


# ---- anchors -----------------------------------------------------------------------------------

CUT: list[Callable[[ChainBlock], str]] = [
    lambda kept: f"DELETE FROM events WHERE position > {kept.to_position}",
    lambda kept: f"DELETE FROM seals WHERE to_position > {kept.to_position}",
    lambda kept: "DELETE FROM system_state WHERE name = 'sealed'",
]


def cut_the_last_job(sqlite: SqliteStore) -> tuple[Anchor, str]:
    """A log whose end was removed with everything that would tell, and what was seen before."""
    finished(sqlite)
    hash_chain.extend_chain(sqlite)
    with sqlite.read() as view:
        kept = view.last_chain_block()
    assert kept is not None
    job = finished(sqlite)
    seen = anchor(sqlite)
    rows = [f"DELETE FROM {table} WHERE job_id = '{job}'" for table in ("runs", "checkpoints")]
    rows.append(f"DELETE FROM jobs WHERE id = '{job}'")
    alter(sqlite, *(each(kept) for each in CUT), *rows)
    return seen, job


def test_a_cut_tail_is_found_by_an_anchor_and_by_nothing_else(sqlite: SqliteStore) -> None:
    seen, _ = cut_the_last_job(sqlite)
    assert verify(sqlite).differences == []
    (found,) = verify(sqlite, seen).differences
    assert (found.what, found.field, found.position) == ("seal", "anchor", seen.position)


def test_a_tail_that_was_replaced_is_found_too(sqlite: SqliteStore) -> None:
    seen, _ = cut_the_last_job(sqlite)
    finished(sqlite)
    assert verify(sqlite).differences == []
    (found,) = verify(sqlite, seen).differences
    assert (found.field, found.log) == ("anchor", seen.chain)


def test_a_longer_log_still_holds_its_anchor(store: Store) -> None:
    finished(store)
    seen = anchor(store)
    finished(store)
    assert verify(store, seen).differences == []


def test_an_anchor_of_an_empty_log_holds_for_every_log(store: Store) -> None:
    seen = anchor(store)
    finished(store)
    assert seen.position == 0
    assert verify(store, seen).differences == []


# ---- forgetting --------------------------------------------------------------------------------


def test_the_chain_closes_over_deleted_work(store: Store) -> None:
    job = finished(store)
    seen = anchor(store)
    do(Engine(store), c.DeleteJob(job))
    with store.read() as view:
        assert [each.data for each in view.events(0, 2)] == ["", ""]
    assert verify(store, seen).differences == []


def test_work_that_was_blanked_without_being_deleted_is_found(sqlite: SqliteStore) -> None:
    job = finished(sqlite)
    hash_chain.extend_chain(sqlite)
    with sqlite.read() as view:
        first = view.events(0, 1)[0]
    digest = data_digest(first).hex()
    alter(sqlite, f"UPDATE events SET data = '', digest = x'{digest}' WHERE position = 1")
    assert chain(sqlite).breaks == []
    assert (job, "job", "row") in {(d.stream, d.what, d.field) for d in verify(sqlite).differences}


def test_a_trim_removes_only_whole_chain_blocks_of_deleted_work(store: Store) -> None:
    engine = Engine(store)
    gone = submit_task(engine)
    complete(engine, claim_one(engine))
    seen = anchor(store)
    kept = finished(store)
    do(engine, c.DeleteTask(gone))
    verify(store)
    with store.read() as view:
        before = view.events(0, 1_000)
    count = hash_chain.trim(store)
    with store.read() as view:
        after = view.events(0, 1_000)
        head = view.head()
    assert 0 < count == len(before) - len(after)
    assert after == before[count:]
    assert after[0].stream == kept
    assert after[-1].position == head
    assert verify(store, seen).differences == []
    assert hash_chain.trim(store) == 0
    audit(store)


def test_after_a_trim_positions_go_on_and_the_chain_too(store: Store) -> None:
    engine = Engine(store)
    for _ in range(3):
        do(engine, c.DeleteJob(finished(store)))
        hash_chain.extend_chain(store)
    with store.read() as view:
        head = view.head()
    assert hash_chain.trim(store) > 0
    with store.read() as view:
        assert view.head() == head
        assert view.events(0, 1_000)[0].position == hash_chain.trimmed(view) + 1
    finished(store)
    assert verify(store).differences == []
    with store.read() as view:
        assert view.head() > head


def test_what_lives_is_never_trimmed(store: Store) -> None:
    submit_job(Engine(store))
    do(Engine(store), c.DeleteJob(finished_after(store)))
    hash_chain.extend_chain(store)
    assert hash_chain.trim(store) == 0


def finished_after(store: Store) -> str:
    engine = Engine(store)
    job = submit_job(engine, priority="P0")
    complete(engine, claim_one(engine))
    return job


def test_a_prefix_that_was_cut_without_a_trim_is_found(sqlite: SqliteStore) -> None:
    do(Engine(sqlite), c.DeleteJob(finished(sqlite)))
    hash_chain.extend_chain(sqlite)
    finished(sqlite)
    hash_chain.extend_chain(sqlite)
    with sqlite.read() as view:
        first = view.chain_blocks(0, 1)[0]
    alter(sqlite, f"DELETE FROM events WHERE position <= {first.to_position}")
    assert Break(first.to_position, "count", first.events, 0) in chain(sqlite).breaks
