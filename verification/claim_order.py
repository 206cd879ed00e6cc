"""A claim that waits, while the jobs that it takes are submitted by another process.

The events of each job must be in their order in the feed.
"""

import threading
import time

import psycopg

from detent.engine import CommandRequest, Engine
from detent.engine.claims import ClaimRequest
from detent.ids import new_id
from detent.kernel import commands as c
from detent.store.postgres import PostgresStore

PERSON = c.Actor("ann")
JOBS = 5
WITHIN_S = 60.0


def submit(engine: Engine) -> None:
    jobs = [c.SubmitJob(new_id(), "p", "dig") for _ in range(JOBS)]
    engine.execute([CommandRequest(job, PERSON, fresh=True) for job in jobs])


def check_order(url: str) -> None:
    """Raises AssertionError if the claim was logged before the submission."""
    stores = [PostgresStore(url) for _ in range(3)]
    claimer, submitter, holder = (Engine(store) for store in stores)
    request = ClaimRequest("w", "n", JOBS)
    submit(claimer)
    assert len(claimer.claim(request)) == JOBS
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.append(len(claimer.claim(request))))
    try:
        with holder.store.write() as tx:
            tx.rows_for_update("limits")  # the claim waits for it
            thread.start()
            _until_blocked(url)
            submit(submitter)
        thread.join(WITHIN_S)
        assert found == [JOBS]
        with submitter.store.read() as view:
            logged = view.events(0, 1_000)
        for stream in {each.stream for each in logged}:
            versions = [each.version for each in logged if each.stream == stream]
            assert versions == sorted(versions), f"{stream}: {versions}"
    finally:
        for store in stores:
            store.close()


def _until_blocked(url: str) -> None:
    """Wait until a session waits for a lock."""
    deadline_s = time.monotonic() + WITHIN_S
    query = "SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
    with psycopg.connect(url, autocommit=True) as database:
        while database.execute(query).fetchone() is None:
            assert time.monotonic() < deadline_s, "the claim did not wait"
            time.sleep(0.005)
