"""Concurrent writers on PostgreSQL: no deadlocks, claims and heartbeats never wait."""

import json
import random
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from detent.engine import Claimed, CommandRequest, Engine, due_timers
from detent.errors import DetentError, Refused
from detent.ids import new_id
from detent.kernel import commands as c
from detent.kernel.fair_shares import EQUAL
from detent.store.port import WriteTransaction
from detent.store.postgres.claims import Floors, LaneFilter
from detent.store.postgres.connection import numbered
from detent.store.postgres.reader import SQL
from detent.store.postgres.save_statements import Lane
from detent.store.types import ClaimFilter
from detent.testing.audit import audit
from detent.testing.conformance.work_actions import (
    PERSON,
    claim,
    claim_one,
    complete,
    completion,
    do,
    outcome,
    submit_job,
    submit_task,
    together,
)
from tests.store.postgres_scene import beside, opened, store_of, until

PLAN = {"steps": [{"name": "call", "capabilities_required": ["phone"]}]}


# ---- load --------------------------------------------------------------------------------------


ACTS = ("submit", *("claim", "report") * 2, "cancel", "hand_back", "beat", "keep")


class Crowd:
    """Engines that submit trees and dependents, claim, report, cancel, beat and keep, at random."""

    def __init__(self, engines: list[Engine]) -> None:
        self.engines = engines
        self.tasks: list[str] = []
        self.held: list[Claimed] = []
        self.outcomes: Counter[tuple[str, Any]] = Counter()

    def work(self, number: int, rounds: int) -> None:
        chance, engine = random.Random(number), self.engines[number]
        for _ in range(rounds):
            act = getattr(self, chance.choice(ACTS))
            try:
                answer = act(engine, chance)
            except DetentError as error:
                answer = error.code
            self.outcomes[act.__name__, answer] += 1

    def submit(self, engine: Engine, chance: random.Random) -> str:
        """A task with subtasks, and others that wait for it and for one of them."""
        top = submit_task(engine)
        children = [submit_task(engine, parent_id=top) for _ in range(2)]
        waiting = submit_task(engine, depends_on=(top, children[0]))
        last = submit_task(engine, depends_on=(waiting,), lifecycle="review")
        self.tasks += [top, *children, waiting, last]
        return "ok"

    def claim(self, engine: Engine, chance: random.Random) -> str:
        claimed = claim(engine, chance.randint(1, 4), "w")
        self.held += claimed
        return "some" if claimed else "none"

    def report(self, engine: Engine, chance: random.Random) -> Any:
        return self._with_one(lambda claimed: outcome(engine, completion(claimed)))

    def hand_back(self, engine: Engine, chance: random.Random) -> Any:
        return self._with_one(lambda claimed: outcome(engine, c.HandBack(claimed.grant)))

    def _with_one(self, act: Callable[[Claimed], Any]) -> Any:
        try:
            claimed = self.held.pop(0)
        except IndexError:
            return "none"
        return act(claimed)

    def cancel(self, engine: Engine, chance: random.Random) -> Any:
        if not self.tasks:
            return "none"
        return outcome(engine, c.CancelTask(chance.choice(self.tasks)))

    def beat(self, engine: Engine, chance: random.Random) -> str:
        grants = [claimed.grant[:2] for claimed in [*self.held]]
        engine.renew("w", grants)
        return "ok"

    def keep(self, engine: Engine, chance: random.Random) -> str:
        engine.transaction(lambda tx: due_timers.run(tx, 100, engine.lifetimes))
        return "ok"


def deadlocks(connection: psycopg.Connection) -> int:
    query = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
    (count,) = connection.execute(query).fetchone() or (0,)
    return int(count)


def test_cancels_reports_claims_and_beats_do_not_deadlock(postgres_url: str) -> None:
    with ExitStack() as stack:
        engines = [stack.enter_context(opened(postgres_url)) for _ in range(6)]
        crowd = Crowd(engines)
        together(*[partial(crowd.work, number, 60) for number in range(6)])
        failed = {"unavailable", "broken", "version_conflict"}
        assert not [each for each in crowd.outcomes if each[1] in failed]
        for done in (("report", "completed"), ("cancel", "cancelled"), ("claim", "some")):
            assert crowd.outcomes[done] >= 3, crowd.outcomes
        with beside(postgres_url) as connection:
            assert deadlocks(connection) == 0
        audit(engines[0].store)


# ---- who does not wait --------------------------------------------------------------------------


def test_a_claim_passes_over_work_whose_root_is_being_changed(postgres_url: str) -> None:
    with opened(postgres_url) as engine, beside(postgres_url) as other:
        top = submit_task(engine)
        submit_task(engine, parent_id=top)
        lone, free = submit_job(engine), submit_job(engine)
        with other.transaction():
            other.execute("SELECT FROM active_tasks WHERE id = %s FOR UPDATE", [top])
            other.execute("SELECT FROM active_jobs WHERE id = %s FOR UPDATE", [lone])
            other.execute("SET LOCAL lock_timeout = 0")
            assert [each.job.id for each in claim(engine, 10)] == [free]
        assert len(claim(engine, 10)) == 3


def test_a_heartbeat_does_not_wait_for_who_changes_a_lease(postgres_url: str) -> None:
    with opened(postgres_url) as engine, beside(postgres_url) as other:
        jobs = [submit_job(engine), submit_job(engine)]
        grants = {claim_one(engine).grant[:2] for _ in jobs}
        until = "SELECT lease_until FROM queue WHERE job_id = %s"
        before = [other.execute(until, [job]).fetchone() for job in jobs]
        with other.transaction():
            locked = "SELECT FROM leases WHERE %s = ANY (jobs) FOR UPDATE"
            other.execute(locked, [jobs[0]])
            assert engine.renew("w1", sorted(grants)) == grants
        after = [other.execute(until, [job]).fetchone() for job in jobs]
        assert after[0] == before[0]
        assert after[1] != before[1]


def test_no_writer_waits_for_a_root_out_of_order(postgres_url: str) -> None:
    """A tree that is found to depend on this one after the locks were taken, and that is busy."""
    with opened(postgres_url) as engine, beside(postgres_url) as other:
        first = submit_task(engine)
        second = submit_task(engine, depends_on=(first,))
        with engine.store.write() as tx:
            assert list(tx.dependents([first])) == [(first, second)]
            with pytest.raises(psycopg.errors.LockNotAvailable):
                other.execute("SELECT FROM active_tasks WHERE id = %s FOR UPDATE NOWAIT", [second])
        with other.transaction():
            other.execute("SELECT FROM active_tasks WHERE id = %s FOR UPDATE", [second])
            with pytest.raises(Refused) as caught, engine.store.write() as tx:
                tx.dependents([first])
            assert caught.value.code == "version_conflict"


def test_what_was_locked_is_not_looked_up_again(postgres_url: str) -> None:
    """A second look would find a tree that came to depend on this one, and would wait for it."""
    with opened(postgres_url) as engine, opened(postgres_url) as other:
        first, second = submit_task(engine), submit_task(engine)
        with engine.store.write() as tx, beside(postgres_url) as connection:
            tx.lock([first], ())
            depends = "INSERT INTO dependencies (task_id, depends_on) VALUES (%s, %s)"
            connection.execute(depends, [second, first])
            with other.store.write() as busy:
                busy.lock([second], ())
                tx.lock([first], ())


def test_the_last_place_of_a_resource_is_taken_once(postgres_url: str) -> None:
    """Two jobs that have nothing in common but the phone."""
    with opened(postgres_url) as engine, opened(postgres_url) as other:
        phone = {"capabilities": ["phone"], "capacity": 1}
        engine.transaction(lambda tx: tx.put_rows("resources", {"phone-1": phone}))
        for _ in range(8):
            for _ in range(2):
                submit_task(engine, options={"plan": PLAN})
            one, two = claim(engine, 2)
            outcomes = together(
                partial(outcome, engine, c.StartStep(one.grant, "call")),
                partial(outcome, other, c.StartStep(two.grant, "call")),
            )
            runs = [each for each in outcomes if "-r" in each]
            assert len(runs) == 1, outcomes
            for held in (one, two):
                do(engine, c.CancelJob(held.job.id))
                do(engine, c.ConfirmCancel(held.grant))
        audit(engine.store)


# ---- lanes --------------------------------------------------------------------------------------


def test_work_that_another_process_gives_back_is_seen_immediately(postgres_url: str) -> None:
    """It comes back with its old rank, before where this process thinks that the lane begins."""
    with opened(postgres_url) as engine, opened(postgres_url) as other:
        old = submit_job(engine)
        held = claim_one(other)
        for _ in range(3):
            submit_job(engine)
            complete(engine, claim_one(engine))
        assert claim(engine) == []
        do(other, c.HandBack(held.grant))
        assert claim_one(engine).job.id == old


def test_work_that_another_process_submits_before_the_rest_is_seen_immediately(
    postgres_url: str,
) -> None:
    with opened(postgres_url) as engine, opened(postgres_url) as other:
        submit_job(engine, priority="P3")
        complete(engine, claim_one(engine))
        submit_job(engine, priority="P3")
        urgent = submit_job(other, priority="P0")
        assert claim_one(engine).job.id == urgent


class Dropped(Exception):
    """Raised in the middle of a claim."""


def test_work_whose_claim_was_undone_is_claimed(postgres_url: str) -> None:
    """While one held it, another looked past it: it must not think that the lane begins later."""
    with opened(postgres_url) as engine, opened(postgres_url) as other:
        first, second = submit_job(engine), submit_job(engine)

        def claim_and_drop(tx: WriteTransaction) -> None:
            (held,) = tx.claimable(ClaimFilter(), 1, tx.now())
            assert held.job_id == first
            assert claim_one(other).job.id == second
            raise Dropped

        with pytest.raises(Dropped):
            engine.transaction(claim_and_drop)
        assert claim_one(other).job.id == first


def test_work_without_a_notification_is_found_by_the_next_scan(postgres_url: str) -> None:
    with opened(postgres_url) as engine, opened(postgres_url) as other:
        assert claim(engine) == []
        submit_job(other)
        with beside(postgres_url) as connection:
            connection.execute("DELETE FROM arrivals")
        assert claim(engine) == []
        store_of(engine)._lanes._refresh_at_s = 0
        assert len(claim(engine)) == 1


def test_old_arrivals_are_forgotten(postgres_url: str) -> None:
    with opened(postgres_url) as engine, beside(postgres_url) as connection:
        submit_job(engine)
        connection.execute("UPDATE arrivals SET at = at - interval '11 minutes'")
        submit_job(engine)
        assert len(claim(engine, 5)) == 2
        assert connection.execute("SELECT count(*) FROM arrivals").fetchone() == (1,)


def walked(url: str, lane: Lane, floor: int) -> int:
    """How many entries of the index are read to find where a lane begins."""
    with psycopg.connect(url, cursor_factory=psycopg.RawCursor) as connection:
        connection.execute(numbered(SQL["begin_writing"]), ["30000", "60000"])
        lanes = json.dumps([dict(zip(("lane", "project", "key"), lane, strict=True), floor=floor)])
        connection.execute(numbered(SQL["lane_floors"]), [lanes])
        query = "SELECT pg_stat_get_xact_tuples_returned('active_jobs_lanes'::regclass)"
        (count,) = connection.execute(query).fetchone() or (0,)
        return int(count)


def test_a_claim_does_not_walk_past_what_was_claimed_during_a_read(
    postgres_url: str,
) -> None:
    """The reader keeps the index entries of everything that has left the queue since."""
    lane = ("dig", "p", "")
    with opened(postgres_url) as engine, beside(postgres_url) as reader, reader.transaction():
        reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        reader.execute("SELECT count(*) FROM queue")
        for _ in range(3):
            new = [
                CommandRequest(c.SubmitJob(new_id(), *lane[1::-1]), PERSON, fresh=True)
                for _ in range(200)
            ]
            engine.execute(new)
            engine.execute(
                [CommandRequest(completion(each), PERSON) for each in claim(engine, 200)]
            )
        submit_job(engine)
        claim_one(engine)
        assert walked(postgres_url, lane, 0) > 600
        assert walked(postgres_url, lane, store_of(engine)._lanes._floors[lane]) < 10


UPDATES = """
    SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'active_jobs'
"""


def test_a_claim_is_a_hot_update(postgres_url: str) -> None:
    """It changes no column of an index, and there is room for it on the page of the row."""
    count = 2_000
    with opened(postgres_url) as engine:
        for _ in range(count // 100):
            jobs = [c.SubmitJob(new_id(), "p", "dig", payload={"n": "x" * 80}) for _ in range(100)]
            engine.execute([CommandRequest(each, PERSON, fresh=True) for each in jobs])
        assert sum(len(claim(engine, 100)) for _ in range(count // 100)) == count

    def updated() -> tuple[int, int]:
        with beside(postgres_url) as connection:
            all_of_them, hot = connection.execute(UPDATES).fetchone() or (0, 0)
        return int(all_of_them), int(hot)

    until(lambda: updated()[0] == count, "the server has counted the updates of closed sessions")
    assert updated()[1] >= 0.95 * count


def test_a_claim_does_not_walk_past_work_under_a_full_key(postgres_url: str) -> None:
    with opened(postgres_url) as engine, beside(postgres_url) as connection:
        submit_job(engine, concurrency_key="rope")
        claim_one(engine)
        connection.execute("""
            INSERT INTO active_jobs
            SELECT (json_populate_record(active_jobs, json_build_object(
                'id', 'x' || n, 'root_id', 'x' || n, 'rank', n, 'state', 'queued', 'lease_id', NULL
            ))).*
            FROM active_jobs, generate_series(1, 500) AS n
        """)
        connection.execute("INSERT INTO arrivals VALUES (DEFAULT, 'dig', 'p', 'rope', 1)")
        free = submit_job(engine)
        claim_filter = ClaimFilter(full_keys=["rope"])
        with engine.store.write() as tx:
            assert [each.job_id for each in tx.claimable(claim_filter, 5, tx.now())] == [free]
            tx.rows("limits")
        assert walked(postgres_url, ("dig", "p", ""), 0) < 10


# ---- many lanes ---------------------------------------------------------------------------------

LANES = st.tuples(st.sampled_from("ab"), st.sampled_from("pq"), st.sampled_from(["", "k", "l"]))
MOVES = st.lists(st.tuples(st.sampled_from(["lower", "put", "drop"]), LANES, st.integers(0, 9)))


@given(MOVES, st.integers(1, 4), st.sets(st.sampled_from("kl")), st.sets(LANES, max_size=2))
def test_the_lowest_lanes_are_found_whatever_happened_before(
    moves: list[tuple[str, Lane, int]], most: int, full: set[str], tried: set[Lane]
) -> None:
    """Against a plain dict; asking twice answers the same."""
    floors, plain = Floors(), dict[Lane, int]()
    for move, lane, floor in moves:
        if move == "lower":
            floors.lower(lane, floor)
            plain[lane] = min(floor, plain.get(lane, floor))
        elif move == "put":
            floors.put(lane, floor)
            plain[lane] = floor
        else:
            floors.drop(lane)
            plain.pop(lane, None)
    lane_filter = LaneFilter(None, ["p"], ["b"], [], full)
    fit = [each for each in plain if each[:2] == ("a", "p") and each[2] not in full]
    wanted = sorted(plain[each] for each in fit if each not in tried)[:most]
    for _ in range(2):
        found = floors.lowest(most, lane_filter, EQUAL, tried)
        assert len(set(found)) == len(found)
        assert [plain[each] for each in found] == wanted
        assert set(found) <= set(fit) - tried
