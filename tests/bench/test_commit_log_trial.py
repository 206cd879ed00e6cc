"""The trial of the commit-log layout writes every event and row, and its safety rules hold."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from bench import jobs, jobs_postgres
from bench.commit_log import events, job_batch, postgres, sqlite, traps
from bench.commit_log.events import Kind, decoded
from bench.commit_log.job_batch import PAYLOAD_TEXT
from bench.commit_log.keeper import START, PostgresKeeper, kept
from bench.commit_log.low_mark import LowMark
from bench.commit_log.postgres import Client, Held
from bench.commit_log.variants import DELAYED, MAX_RUNNING, PROPOSAL, Variant
from bench.commit_log_trial import on_postgres, on_sqlite, table
from detent.engine import Engine
from detent.integrity import hash_chain
from detent.store.statements import parse
from detent.store.store_url import open_store
from detent.store.types import LoggedEvent
from verification.postgres_server import Cluster

JOBS, BATCH = 240, 50
KINDS: tuple[Kind, ...] = ("flat", "grouped", "templates")
DEADLINE_S = 60.0
NAMES = [
    *("job_created", "job_running", "run_queued", "run_started", "run_succeeded"),
    "job_completed",
]


@pytest.fixture
def url(postgres_server: Cluster, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(jobs_postgres, "server", lambda: postgres_server)
    return jobs_postgres.database()


def rows(url: str, text: Any) -> list[Any]:
    with psycopg.connect(url, autocommit=True) as connection:
        return connection.execute(text).fetchall()


def until(holds: Callable[[], bool]) -> None:
    end_s = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < end_s, "the condition did not hold in time"
        time.sleep(0.005)


# ---- all events and rows -----------------------------------------------------------------------


def check_log(log: list[LoggedEvent], found: dict[str, Any]) -> None:
    """Six events per job, in order, at every position once, and the chain over all of them."""
    assert [event.position for event in log] == list(range(1, 6 * JOBS + 1))
    streams: dict[str, list[LoggedEvent]] = {}
    for event in log:
        streams.setdefault(event.stream, []).append(event)
    assert len(streams) == JOBS
    for own in streams.values():
        assert [event.name for event in own] == NAMES
        assert [event.version for event in own] == [1, 2, 3, 4, 5, 6]
    assert found["events"] == len(log)
    assert found["chain"] == hash_chain.chained(START, log).hex()


@pytest.mark.parametrize("kind", KINDS)
def test_all_events_and_rows_are_there_on_postgresql(url: str, kind: Kind) -> None:
    variant = Variant("test", entries=kind)
    postgres.create(url, variant)
    with kept(url, variant) as found:
        postgres.submit_all(url, variant, JOBS)
        postgres.drain(url, variant, JOBS, BATCH)
    order = (
        "SELECT first_position, at, body FROM positions JOIN commits ON id = commit_id ORDER BY 1"
    )
    log = [each for first, at, body in rows(url, order) for each in decoded(kind, at, body, first)]
    check_log(log, found)
    if kind == "templates":
        assert rows(url, "SELECT * FROM events ORDER BY position") == [each[:10] for each in log]
    ended = rows(
        url, "SELECT id, version, fence, result, payload, cardinality(commits) FROM ended_jobs"
    )
    assert {row[1:4] for row in ended} == {(6, 1, '{"ok":true}')}
    assert {row[5] for row in ended} == {3}
    assert len(ended) == JOBS
    assert rows(url, "SELECT id FROM active_jobs") == rows(url, "SELECT claim FROM leases") == []
    connection = postgres.connect(url)
    history = traps.history(connection, variant, ended[0][0])
    connection.close()
    assert [event.name for event in history] == NAMES


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("body", ["text", "zlib"])
def test_all_events_and_rows_are_there_on_sqlite(tmp_path: Path, kind: Kind, body: str) -> None:
    variant, file = Variant("test", entries=kind, body=body), str(tmp_path / "trial.db")
    client = sqlite.Client(file, variant)
    client.create()
    with kept(file, variant) as found:
        sqlite.submit_all(client, JOBS, BATCH)
        sqlite.drain(client, JOBS, BATCH)
    commits: list[Any] = client.db.execute("SELECT * FROM commits ORDER BY id").fetchall()
    log = [
        each
        for _, first, at, _, text in commits
        for each in decoded(kind, at, sqlite.plain(text), first)
    ]
    check_log(log, found)
    if kind == "templates" and body == "text":
        view = client.db.execute("SELECT * FROM events ORDER BY position").fetchall()
        assert view == [each[:10] for each in log]
    counts = "SELECT (SELECT count(*) FROM ended_jobs), (SELECT count(*) FROM active_jobs)"
    assert client.db.execute(counts).fetchall() == [(JOBS, 0)]
    assert client.db.execute("SELECT * FROM leases").fetchall() == []


def test_the_events_are_those_that_detent_writes(tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "detent.db"))
    jobs.live(Engine(store), 1, 1)
    with store.read() as view:
        log = view.events(0, 100)
    store.close()
    real = [(each.stream, each.name, each.schema, each.subject, each.data) for each in log]
    stream = real[0][0]
    values = (stream, 1, 2, 3, "bench", 1, 1, PAYLOAD_TEXT)
    made = [
        each
        for template in (events.created("nothing", None), events.claimed("bench"))
        for each in trial_events(template, values)
    ]
    values = (*values[:-1], '{"ok":true}')
    made += trial_events(events.completed("bench"), values)
    assert made == real


def trial_events(template: events.StreamTemplate, values: events.Values) -> list[Any]:
    body = "[" + events.encoding("templates", template).part([values]) + "]"
    log = decoded("templates", 1, body)
    return [(each.stream, each.name, each.schema, each.subject, each.data) for each in log]


@pytest.mark.parametrize("kind", KINDS)
def test_the_digests_are_those_of_detent(kind: Kind) -> None:
    text = r'{"quote\"d":"100 %","é":1.50}'
    rows = [(f"job{n}", 5, 6, None, "bench", 1, 1, text) for n in range(3)]
    body = "[" + events.encoding(kind, events.completed("w")).part(rows) + "]"
    log = list(decoded(kind, 7, body))
    assert log[1].data == '{"result":' + text + "}"
    assert events.chained(START, kind, 7, body) == (hash_chain.chained(START, log), 6)
    assert [each.stream for each in decoded(kind, 7, body, only="job1")] == ["job1", "job1"]


def test_figures_are_measured_and_shown(url: str) -> None:
    found = {"postgres": [on_postgres(PROPOSAL, 40, 20)], "sqlite": [on_sqlite(PROPOSAL, 40, 20)]}
    assert all(each["jobs/s"] > 0 and each["kept"] > 0 for (each,) in found.values())
    assert found["postgres"][0]["wal"] > 0
    lines = table(found)
    assert [line.split(" | ")[0] for line in lines[2:]] == ["| postgres", "| sqlite"]


# ---- fences, limits, due times -----------------------------------------------------------------


@pytest.fixture
def client(url: str) -> Iterator[Client]:
    postgres.create(url, PROPOSAL)
    made = Client(url, PROPOSAL)
    yield made
    made.close()


def test_a_refused_completion_is_not_in_the_body(client: Client, url: str) -> None:
    client.submit(9)
    _, held = client.work([], 9)
    stale = [held[0]._replace(fence=7), *held[1:]]
    assert client.work(stale, 9) == (8, [])
    ((at, body, count),) = rows(
        url, "SELECT at, body, events FROM commits ORDER BY id DESC LIMIT 1"
    )
    streams = Counter(event.stream for event in decoded("templates", at, body))
    assert streams == {job.id: 2 for job in held[1:]}
    assert count == 16
    assert rows(url, "SELECT id FROM active_jobs") == [(held[0].id,)]
    assert rows(url, "SELECT open FROM leases") == [(1,)]
    assert client.work(held[:1], 9) == (1, [])
    assert rows(url, "SELECT open FROM leases") == []


def test_a_limit_bounds_what_runs(url: str) -> None:
    variant = Variant("test", limit=True)
    postgres.create(url, variant)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("UPDATE lane_limits SET most = 5")
    client = Client(url, variant)
    client.submit(60)
    limited = variant.lanes[-1]
    held: list[Held] = []
    seen = 0
    for _ in range(8):
        _, held = client.work(held, 30)
        own = sum(job.lane == limited for job in held)
        assert own <= 5
        assert rows(url, "SELECT running FROM lane_limits") == [(own,)]
        seen += len(held)
    client.close()
    assert seen == 60
    assert MAX_RUNNING > 5


def test_a_delayed_job_is_claimed_when_it_is_due(
    client: Client, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_batch, "DELAY_US", 2_000_000)
    client.submit(DELAYED)
    _, held = client.work([], DELAYED)
    assert len(held) == DELAYED - 1
    ((id, due_at),) = rows(url, "SELECT id, due_at FROM active_jobs WHERE lane IS NULL")
    found: list[Held] = []

    def claimed() -> bool:
        found.extend(client.work([], 10)[1])
        return bool(found)

    until(claimed)
    assert [job.id for job in found] == [id]
    assert time.time_ns() // 1_000 >= due_at


# ---- the order of the feed ---------------------------------------------------------------------


def test_commit_ids_after_the_locks_keep_the_order_of_streams(url: str) -> None:
    found = traps.order(url, late=True, seconds=2.0)
    assert found.events > 0
    assert found[1:] == (0, 0, 0)


def test_disorder_loss_and_repetition_are_noticed() -> None:
    committed = [("a", 1), ("a", 2), ("b", 1)]
    assert traps.judged(committed, [("a", 2), ("a", 1), ("a", 1)]) == (3, 2, 1, 1)


def test_the_low_mark_waits_for_running_transactions() -> None:
    mark = LowMark()
    mark.note([1, 2, 4], oldest=50, following=60)
    assert (mark.value, mark.waiting) == (2, True)
    mark.note([], oldest=59, following=61)
    mark.note([], oldest=59, following=61)
    assert mark.value == 2
    mark.note([], oldest=60, following=61)
    assert mark.value == 2, "one more turn has to look after the last transaction has ended"
    mark.note([], oldest=60, following=61)
    assert (mark.value, mark.waiting) == (4, False)


def test_a_commit_that_is_found_late_is_not_abandoned() -> None:
    mark = LowMark()
    mark.note([2], oldest=50, following=60)
    mark.note([], oldest=60, following=61)
    mark.note([1], oldest=60, following=61)
    assert mark.value == 2


def test_a_turn_of_another_process_says_nothing_about_missing_commits(url: str) -> None:
    """A commit that becomes visible while another process has the turn is sequenced later."""
    postgres.create(url, PROPOSAL)
    keeper = PostgresKeeper(url, PROPOSAL)
    insert = "INSERT INTO commits VALUES (%s, 0, 1, '[]')"
    with psycopg.connect(url) as slow, psycopg.connect(url, autocommit=True) as quick:
        slow.execute(insert, (1,))
        quick.execute(insert, (2,))
        assert keeper.sequence() == 1
        with psycopg.connect(url) as other:
            other.execute("SELECT pg_advisory_xact_lock(7110)")
            slow.commit()
            assert [keeper.sequence() for _ in range(5)] == [0] * 5
        assert keeper.low.value == 0
        assert keeper.sequence() == 1
    keeper.close()
    assert rows(url, "SELECT first_position, commit_id FROM positions") == [(1, 2), (2, 1)]


@pytest.mark.parametrize("guarded", [True, False])
def test_a_commit_id_needs_a_transaction_id_before_it(url: str, guarded: bool) -> None:
    """Without one, the low mark passes the commit while its transaction is running: it is lost."""
    postgres.create(url, PROPOSAL)
    keeper = PostgresKeeper(url, PROPOSAL)
    insert = "INSERT INTO commits VALUES (%s, 0, 1, '[]')"
    rows(url, "SELECT nextval('commit_ids')")
    with psycopg.connect(url) as slow, psycopg.connect(url, autocommit=True) as quick:
        slow.execute(traps.ALLOCATE if guarded else "SELECT nextval('commit_ids')")
        quick.execute(insert, (1,))
        quick.execute(insert, (3,))
        assert keeper.sequence() == 2
        if guarded:
            assert [keeper.sequence() for _ in range(5)] == [0] * 5
            assert keeper.low.value == 1
        else:
            until(lambda: keeper.sequence() == 0 and keeper.low.value == 3)
        slow.execute(insert, (2,))
        slow.commit()
        assert keeper.sequence() == (1 if guarded else 0)
    keeper.close()


def test_every_statement_that_allocates_a_commit_id_has_a_transaction_id() -> None:
    texts = [
        each.text for each in parse(Path(postgres.__file__).with_name("statements.sql").read_text())
    ]
    allocating = [text for text in texts if "nextval" in text]
    assert len(allocating) == 2
    assert all("pg_current_xact_id() IS NOT NULL" in text for text in allocating)


def test_a_remembered_rank_is_reset(client: Client, url: str) -> None:
    client.submit(30)
    ranks = traps.RememberedRanks(reset_s=1e9)
    _, held = client.work([], 30)
    ranks.note(held)
    client.submit(1)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("UPDATE active_jobs SET rank = 1 WHERE worker IS NULL")
    assert client.work(held, 10, ranks.lows()) == (30, [])
    ranks.reset()
    assert len(client.work([], 10, ranks.lows())[1]) == 1


def test_a_long_stream_is_read_in_parts(url: str) -> None:
    whole, some = traps.long_stream(url)
    assert whole > some > 0


def test_the_claim_reads_no_more_than_it_needs(client: Client, url: str) -> None:
    client.submit(2_000)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")
        found = traps.plan(connection, PROPOSAL, size=10)
    assert found.rows <= 30
    assert not found.bitmap
