"""On a store with parallel writes, a claim does not wait for the batch of the same engine."""

from concurrent.futures import ThreadPoolExecutor

import psycopg

from detent.engine import Engine
from detent.engine.claims import ClaimRequest
from detent.kernel import commands as c
from detent.store.postgres import PostgresStore
from tests.worker.waiting import DEADLINE_S, until

ACTOR = c.Actor("test")
WAITS = "SELECT count(*) FROM pg_stat_activity WHERE cardinality(pg_blocking_pids(pid)) > 0"


def test_a_claim_overlaps_with_a_batch_that_waits_for_the_server(postgres_url: str) -> None:
    store = PostgresStore(postgres_url)
    engine = Engine(store)
    for name in ("held", "free"):
        engine.do(c.SubmitJob(name, "default", "work"), ACTOR)
    with (
        psycopg.connect(postgres_url) as other,
        psycopg.connect(postgres_url, autocommit=True) as watcher,
        ThreadPoolExecutor(1) as pool,
    ):
        other.execute("SELECT FROM active_jobs WHERE id = 'held' FOR UPDATE")
        cancelled = pool.submit(engine.do, c.CancelJob("held"), ACTOR)
        until(lambda: watcher.execute(WAITS).fetchone() == (1,))
        (claimed,) = engine.claim(ClaimRequest("worker", "nonce", 2))
        assert claimed.grant.job_id == "free"
        assert not cancelled.done()
        other.rollback()
        cancelled.result(DEADLINE_S)
    store.close()
