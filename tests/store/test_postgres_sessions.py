"""What sessions on PostgreSQL keep, what the role that detent runs as may do, and the notifier."""

import re
import threading
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from click.testing import CliRunner

from detent.cli.main import cli
from detent.engine import CommandRequest
from detent.kernel import commands as c
from detent.store.codec import event_digest
from detent.store.postgres import PostgresStore
from detent.store.postgres.connection import Connection, Pool
from detent.testing.conformance import CHECKS, run
from detent.testing.conformance.work_actions import (
    PERSON,
    claim,
    claim_one,
    complete,
    completion,
    do,
    submit_job,
)
from tests.store.postgres_scene import DEADLINE_S, beside, cut_others, opened, store_of, until

# ---- sessions ----------------------------------------------------------------------------------

#: Checks that between them use every statement of the hot path.
CORE = (
    "a_batch_of_a_thousand",
    "a_stale_fence_is_refused_for_every_report",
    "a_retry_is_claimed_as_soon_as_it_is_due",
    "an_intents_limit_holds",
    "a_deleted_task_leaves_nothing_but_its_events",
    "the_kernel_is_shown_what_the_log_says",
    "the_first_key_wins_among_concurrent_submissions",
    "a_reader_sees_every_event_once_and_in_order",
    "trees_end_without_deadlock",
)


@pytest.mark.parametrize("check", CORE)
def test_every_transaction_on_another_connection(
    postgres_url: str, check: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As behind a pooler: what one session remembers is not needed by the next transaction."""
    give_back = Pool.give_back

    def close_and_give_back(pool: Pool, connection: Connection) -> None:
        connection.close()
        give_back(pool, connection)

    monkeypatch.setattr(Pool, "give_back", close_and_give_back)
    params = "?prepare=no&notifier=no"
    run(CHECKS[check], lambda clock: PostgresStore(postgres_url + params, clock), notifier=False)


def test_nothing_stays_on_a_connection(postgres_url: str) -> None:
    with opened(f"{postgres_url}?prepare=no&notifier=no") as engine:
        store = store_of(engine)
        do(engine, c.SubmitJob("j", "p", "dig", options={"concurrency_key": "k"}))
        complete(engine, claim_one(engine))
        engine.renew("w1", [("j", 1)])
        (connection,) = store._pool._free
        session = connection.plain
        for nothing in (
            "SELECT name FROM pg_prepared_statements",
            "SELECT pg_listening_channels()",
            "SELECT locktype FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'advisory'",
            "SELECT name FROM pg_settings WHERE source = 'session'",
            "SELECT relname FROM pg_class WHERE relpersistence = 't'",
        ):
            assert session.execute(nothing.encode()).fetchall() == []


def test_statements_are_prepared_once(postgres_url: str) -> None:
    with opened(postgres_url) as engine:
        for _ in range(5):
            submit_job(engine)
            complete(engine, claim_one(engine))
        store = store_of(engine)
        (connection,) = store._pool._free
        kept = connection.plain.execute("SELECT name, generic_plans FROM pg_prepared_statements")
        plans: dict[Any, Any] = dict(kept.fetchall())
    assert len(plans) > 15
    assert max(plans.values()) >= 9
    assert min(plans.values()) >= 1


# ---- roles -------------------------------------------------------------------------------------


@pytest.fixture
def runtime_url(postgres_url: str) -> Iterator[str]:
    """The URL of a role that has been granted what the script grants and nothing else."""
    PostgresStore(postgres_url).close()
    with beside(postgres_url) as owner:
        role = f"runtime_{owner.info.backend_pid}"
        owner.execute(f"CREATE ROLE {role}".encode())
        settings = ["db", "sql", "--role", role, "--local"]
        printed = CliRunner().invoke(cli, settings, env={"DETENT_STORE_URL": postgres_url})
        owner.execute(printed.stdout.encode())
        yield f"{postgres_url}?options=-c%20role%3D{role}"
        owner.execute(f"DROP OWNED BY {role}; DROP ROLE {role}".encode())


def test_the_runtime_role_can_do_its_work(runtime_url: str) -> None:
    for check in ("a_deleted_task_leaves_nothing_but_its_events", "a_batch_of_a_thousand"):
        run(CHECKS[check], lambda clock: PostgresStore(runtime_url, clock))
        with beside(re.sub(r"\?.*", "", runtime_url)) as owner:
            owner.execute("""
                TRUNCATE commits, commit_positions, sequencer_turns, stream_commits, tombstones,
                    active_tasks, ended_tasks, active_jobs, ended_jobs, leases, checkpoints
            """)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE commits SET body = '[]'",
        "DELETE FROM commits",
        "TRUNCATE commits",
        "INSERT INTO commit_positions VALUES (1, 1)",
        "UPDATE commit_positions SET first_position = 7",
        "UPDATE sequencer_turns SET position = 0",
        "DELETE FROM tombstones",
        "DELETE FROM stream_commits",
        "SELECT setval('commit_ids', 1024)",
        "UPDATE seals SET count = 0",
        "DELETE FROM schema_migrations",
        "CREATE FUNCTION blank_events(json, int) RETURNS int LANGUAGE sql AS 'SELECT 1'",
    ],
)
def test_the_runtime_role_cannot_change_the_log(runtime_url: str, statement: str) -> None:
    with beside(runtime_url) as runtime, pytest.raises(psycopg.errors.InsufficientPrivilege):
        runtime.execute(statement.encode())


BLANK_ALL = """
    SELECT blank_events(json_agg(json_build_object(
        'commit', commit_id, 'stream', stream, 'version', version, 'digest', repeat('0', 64)
    )))
    FROM events JOIN commit_positions ON first_position <= position
"""


def test_only_deleted_work_is_blanked(runtime_url: str) -> None:
    with opened(runtime_url) as engine, beside(runtime_url) as runtime:
        job = submit_job(engine)
        with engine.store.read() as view:
            before = view.events(0, 10)
        runtime.execute(BLANK_ALL)
        with engine.store.read() as view:
            assert view.events(0, 10) == before
            assert [event.stream for event in before] == [job]


def test_blanking_leaves_the_other_events_of_a_commit_as_they_are(runtime_url: str) -> None:
    """Two jobs that were submitted and ended in the same transactions; one of them is deleted."""
    payload = {"text": "Zo\u00eb \u0000 \\ 1.10", "n": 1.10}
    with opened(runtime_url) as engine, beside(runtime_url) as runtime:
        submitted = [c.SubmitJob(name, "p", "dig", payload=payload) for name in ("kept", "gone")]
        engine.execute([CommandRequest(each, PERSON) for each in submitted])
        engine.execute([CommandRequest(completion(each), PERSON) for each in claim(engine, 2)])
        with engine.store.read() as view:
            before = {event.position: event for event in view.events(0, 100)}
        engine.do(c.DeleteJob("gone"), PERSON)
        for _ in range(2):
            with engine.store.read() as view:
                after = view.events(0, 100)
            changed = {each.position for each in after if before.get(each.position) != each}
            assert {each.stream for each in after if each.position in changed} == {"gone"}
            blanked = [each for each in after if each.position in changed and each.data == ""]
            assert len(blanked) == 6
            for each in blanked:
                assert each.digest == event_digest(before[each.position])
            runtime.execute(BLANK_ALL)  # what has a digest, or was not deleted, keeps it


# ---- the notifier ------------------------------------------------------------------------------


def sessions(connection: psycopg.Connection) -> int:
    """How many sessions the database has beside this one."""
    query = """
        SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND backend_type = 'client backend'
    """
    (count,) = connection.execute(query).fetchone() or (0,)
    return int(count) - 1


def test_a_notification_reaches_another_process(postgres_url: str) -> None:
    """Another store is another process, as far as the notifier is concerned."""
    with opened(postgres_url) as engine, opened(postgres_url) as other:
        store = store_of(engine)
        assert store.wait(0, 0.01) is False
        until(lambda: store._notifier._listening, "the store listens")
        notifications = store._notifier.notifications
        submit_job(other)
        until(lambda: store._notifier.notifications > notifications, "the notification arrives")
        assert store.wait(0, DEADLINE_S) is True
        assert store.wait(1, 0.01) is False


def test_a_listener_that_was_cut_off_is_not_missed(postgres_url: str) -> None:
    with opened(postgres_url) as engine, opened(postgres_url) as other, beside(postgres_url) as by:
        store = store_of(engine)
        store.wait(0, 0.01)
        until(lambda: store._notifier._listening, "the store listens")
        cut_others(by, query="LISTEN%")
        until(lambda: not store._notifier._listening, "the store does not listen")
        heard = threading.Thread(target=store.wait, args=[0, DEADLINE_S])
        heard.start()
        submit_job(other)
        heard.join(DEADLINE_S / 2)
        assert not heard.is_alive()
        until(lambda: store._notifier._listening, "the store listens again")


def test_without_a_notifier_no_session_listens(postgres_url: str) -> None:
    with opened(f"{postgres_url}?notifier=no") as engine, beside(postgres_url) as by:
        submit_job(engine)
        assert engine.store.wait(0, DEADLINE_S) is True
        assert engine.store.wait(1, 0.01) is False
        assert sessions(by) == 1


def test_a_commit_of_new_work_notifies_once(postgres_url: str) -> None:
    """A process that only submits needs no session for the notifier."""
    with opened(postgres_url) as engine, beside(postgres_url) as by:
        by.execute("LISTEN detent")
        submit_job(engine)
        assert len(list(by.notifies(timeout=DEADLINE_S, stop_after=1))) == 1
        assert sessions(by) == 1
        assert list(by.notifies(timeout=0.0)) == []


def test_a_notification_is_sent_when_the_store_is_closed_immediately(postgres_url: str) -> None:
    PostgresStore(postgres_url).close()
    with beside(postgres_url) as listening:
        listening.execute("LISTEN detent")
        with opened(postgres_url) as engine:
            engine.store.notify()
        assert list(listening.notifies(timeout=DEADLINE_S, stop_after=1))


def test_a_closed_store_leaves_no_session(postgres_url: str) -> None:
    with beside(postgres_url) as by:
        with opened(postgres_url) as engine:
            submit_job(engine)
            engine.store.wait(5, 0.01)
            assert sessions(by) >= 1
        until(lambda: sessions(by) == 0, "all sessions ended")
