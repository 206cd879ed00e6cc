"""`python -m bench.commit_log.traps`: measures the traps of the layout on PostgreSQL.

Commit ids and locks, an old snapshot during claims, plans of the claim, the sequencer's low mark,
and reading: the feed, and the history of one stream.
"""

import os
import random
import statistics
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import msgspec
import psycopg

from bench import jobs_postgres
from bench.commit_log import postgres
from bench.commit_log.events import decoded
from bench.commit_log.keeper import PostgresKeeper, keep
from bench.commit_log.postgres import Client, Held, connect, statements
from bench.commit_log.variants import PROPOSAL, Variant
from detent.store.postgres.connection import Query

encode = msgspec.json.encode


# ---- commit ids and locks ----------------------------------------------------------------------

STREAMS = 12
ROLLED_BACK = 0.1
MAX_DELAY_S = 0.003
MAX_TURN_S = 0.02
LOCK = "SELECT id, version FROM active_jobs WHERE id = ANY (%s) ORDER BY id FOR UPDATE"
ALLOCATE = "SELECT nextval('commit_ids') WHERE pg_current_xact_id() IS NOT NULL"


class Order(NamedTuple):
    """What a reader of the feed saw that ran beside the writers."""

    events: int
    #: Events that came before an earlier one of their stream.
    disordered: int
    #: Events that were not delivered exactly once.
    lost: int
    twice: int


def order(url: str, *, late: bool, seconds: float = 10.0, writers: int = 4) -> Order:
    """Writers that contend for streams, two sequencers, and a reader, all at the same time."""
    postgres.create(url, PROPOSAL)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO active_jobs"
            " (id, project, intent, rank, version, queued_at, created_commit, payload)"
            " SELECT 's' || n, 'bench', 'nothing', n, 0, 0, 0, '' FROM generate_series(1, %s) AS n",
            (STREAMS,),
        )
    stop, end = threading.Event(), threading.Event()
    committed: list[tuple[str, int]] = []
    threads = [
        threading.Thread(target=_write, args=(url, seed, late, stop, committed))
        for seed in range(writers)
    ]
    keepers = [PostgresKeeper(url, PROPOSAL) for _ in range(2)]
    sequencers = [
        threading.Thread(target=_sequence, args=(each, end, random.Random(seed)))
        for seed, each in enumerate(keepers)
    ]
    seen: list[tuple[str, int]] = []
    reader = threading.Thread(target=_follow, args=(url, end, seen))
    for thread in (*threads, *sequencers, reader):
        thread.start()
    stop.wait(seconds)
    stop.set()
    for thread in threads:
        thread.join()
    end.set()
    for thread in (*sequencers, reader):
        thread.join()
    return judged(committed, seen)


def judged(committed: list[tuple[str, int]], seen: list[tuple[str, int]]) -> Order:
    newest: dict[str, int] = defaultdict(int)
    disordered = 0
    for stream, version in seen:
        disordered += version < newest[stream]
        newest[stream] = max(version, newest[stream])
    lost = len(set(committed) - set(seen))
    return Order(len(committed), disordered, lost, len(seen) - len(set(seen)))


def _write(
    url: str, seed: int, late: bool, stop: threading.Event, committed: list[tuple[str, int]]
) -> None:
    chance = random.Random(seed)
    with psycopg.connect(url) as connection:
        while not stop.is_set():
            wanted = [f"s{n}" for n in chance.sample(range(1, STREAMS + 1), chance.randint(1, 3))]
            commit_id = None if late else _one(connection, ALLOCATE)
            time.sleep(chance.random() * MAX_DELAY_S)
            rows = connection.execute(LOCK, (wanted,)).fetchall()
            time.sleep(chance.random() * MAX_DELAY_S)
            connection.execute(
                "UPDATE active_jobs SET version = version + 1 WHERE id = ANY (%s)", (wanted,)
            )
            commit_id = commit_id or _one(connection, ALLOCATE)
            entries = [(stream, version + 1) for stream, version in rows]
            connection.execute(
                "INSERT INTO commits (id, at, events, body) VALUES (%s, 0, %s, %s)",
                (commit_id, len(entries), encode(entries).decode()),
            )
            time.sleep(chance.random() * MAX_DELAY_S)
            if chance.random() < ROLLED_BACK:
                connection.rollback()
            else:
                connection.commit()
                committed += entries


def _one(connection: "psycopg.Connection[Any]", text: Any) -> Any:
    row = connection.execute(text).fetchone()
    assert row is not None
    return row[0]


def _sequence(keeper: PostgresKeeper, end: threading.Event, chance: random.Random) -> None:
    while True:
        ending = end.is_set()
        if not keeper.sequence() and ending:
            break
        end.wait(chance.random() * MAX_TURN_S)
    keeper.close()


def _follow(url: str, end: threading.Event, seen: list[tuple[str, int]]) -> None:
    """Read the feed by its positions, until nothing follows the end."""
    connection, feed, position, quiet = connect(url), statements("text")["feed"], 0, 0
    while quiet < 20:
        rows = connection.run([feed(after=position, size=100)])[0].rows
        for first, _, _, body in rows:
            position = first
            seen += [tuple(each) for each in msgspec.json.decode(body)]
        quiet = quiet + 1 if end.is_set() and not rows else 0
        if not rows:
            time.sleep(0.005)
    connection.close()


# ---- an old snapshot ---------------------------------------------------------------------------


def claims_behind_snapshot(
    url: str, jobs: int, *, snapshot: bool, remember: bool, reset_s: float = 1.0
) -> tuple[float, float]:
    """Jobs per second of the first and of the last tenth of a drain with batches of 200."""
    postgres.create(url, PROPOSAL)
    postgres.submit_all(url, PROPOSAL, jobs)
    took: list[float] = []
    with psycopg.connect(url) as old:
        old.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        if snapshot:
            old.execute("SELECT count(*) FROM commits")
        client, lows = Client(url, PROPOSAL), RememberedRanks(reset_s)
        held: list[Held] = []
        done = 0
        while done < jobs:
            begun = time.perf_counter()
            accepted, held = client.work(held, 200, lows.lows() if remember else None)
            lows.note(held)
            done += accepted
            if accepted:
                took.append((time.perf_counter() - begun) / accepted)
        client.close()
    tenth = max(1, len(took) // 10)
    return 1 / statistics.median(took[:tenth]), 1 / statistics.median(took[-tenth:])


class RememberedRanks:
    """Where the claimable jobs of each lane begin, as this worker saw it; forgotten regularly."""

    def __init__(self, reset_s: float) -> None:
        self._reset_s = reset_s
        self._known: dict[str, int] = {}
        self._since = time.monotonic()

    def lows(self) -> dict[str, int]:
        if time.monotonic() - self._since >= self._reset_s:
            self.reset()
        return self._known

    def reset(self) -> None:
        """Also on a notification of a job with a lower rank."""
        self._known, self._since = {}, time.monotonic()

    def note(self, held: list[Held]) -> None:
        for job in held:
            self._known[job.lane] = max(job.rank, self._known.get(job.lane, 0))


# ---- plans -------------------------------------------------------------------------------------


class Plan(NamedTuple):
    """How a claim of 100 jobs was executed among a backlog."""

    ms: float
    #: The most rows that one node of the plan read.
    rows: int
    bitmap: bool


def plan(connection: "psycopg.Connection[Any]", variant: Variant, size: int = 100) -> Plan:
    """The plan of the claim, executed and rolled back, as an unprepared or a generic statement."""
    client_settings = statements("text")["begin"](
        bitmap_scans=variant.bitmap_scans, plans=variant.plans
    )
    values = _claim_values(variant, size)
    query = statements("text")["work"](**values)
    arguments = ", ".join(_literal(each) for each in query.values)
    with connection.transaction(force_rollback=True):
        if variant.plans != "auto":
            text, given = client_settings.text.decode(), client_settings.values
            for number, each in reversed(list(enumerate(given, 1))):
                text = text.replace(f"${number}", _literal(each))
            connection.execute(text.encode())
        connection.execute(f"PREPARE claim AS {query.text.decode()}".encode())
        explain = "EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) EXECUTE claim"
        row = connection.execute(f"{explain} ({arguments})".encode()).fetchone()
    connection.execute("DEALLOCATE claim")
    assert row is not None
    nodes = list(_nodes(row[0][0]["Plan"]))
    read = max(round(_read(node)) for node in nodes if node.get("Relation Name") == "active_jobs")
    bitmap = any("Bitmap" in node["Node Type"] for node in nodes)
    return Plan(float(row[0][0]["Execution Time"]), read, bitmap)


def _read(node: dict[str, Any]) -> float:
    filtered = node.get("Rows Removed by Filter", 0)
    return float((node["Actual Rows"] + filtered) * node["Actual Loops"])


def _claim_values(variant: Variant, size: int) -> dict[str, Any]:
    templates = {
        f"{part}_{name}": "" for part in ("end", "claim") for name in ("before", "row", "after")
    }
    lanes = postgres.array(variant.lanes)
    given = {"ids": "{}", "fences": "{}", "results": "{}", "worker": "bench", "lanes": lanes}
    return {**given, "lows": "{0,0,0}", "size": size, "keep_payload": "true", **templates}


def _literal(value: bytes | None) -> str:
    assert value is not None
    return "'" + value.decode().replace("'", "''") + "'"


def _nodes(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for each in node.get("Plans", ()):
        yield from _nodes(each)


# ---- the sequencer and readers -----------------------------------------------------------------


def turns(url: str, commits: int) -> tuple[float, float]:
    """Milliseconds of a turn with the low mark and without it, with this many commits."""
    postgres.create(url, PROPOSAL)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO commits SELECT nextval('commit_ids'), 0, 1, '[]'"
            " FROM generate_series(1, %s)",
            (commits,),
        )
        connection.execute("VACUUM ANALYZE")
    keeper = PostgresKeeper(url, PROPOSAL)
    while keeper.sequence():
        pass
    with_mark = min(_timed(keeper.sequence) for _ in range(20))
    keeper.low.value = 0
    without = min(_timed(keeper.sequence) for _ in range(5))
    keeper.close()
    return with_mark, without


def _timed(call: Any) -> float:
    begun = time.perf_counter()
    call()
    return 1e3 * (time.perf_counter() - begun)


def reading(url: str, variant: Variant, jobs: int) -> tuple[float, float, float]:
    """Events per second of the feed, decoded; p50 and p99 in ms of the history of one job."""
    postgres.create(url, variant)
    postgres.submit_all(url, variant, jobs)
    postgres.drain(url, variant, jobs, 500)
    done = threading.Event()
    done.set()
    keep(PostgresKeeper(url, variant), done)
    connection, sql = connect(url), statements(variant.body)
    begun, events, position = time.perf_counter(), 0, 0
    while rows := connection.run([sql["feed"](after=position, size=20)])[0].rows:
        for first, _, at, body in rows:
            position = first
            events += sum(1 for _ in decoded(variant.entries, at, body, first))
    rate = events / (time.perf_counter() - begun)
    with psycopg.connect(url) as plain:
        found = plain.execute("SELECT id FROM ended_jobs ORDER BY random() LIMIT 100").fetchall()
    took = [_timed(lambda id=id: history(connection, variant, id)) for (id,) in found]
    connection.close()
    return rate, statistics.median(took), statistics.quantiles(took, n=100)[98]


def history(connection: Any, variant: Variant, id: str) -> list[Any]:
    """The events of one job."""
    rows = connection.run([statements(variant.body)["history"](id=id)])[0].rows
    return [event for _, at, body in rows for event in decoded(variant.entries, at, body, only=id)]


LONG_STREAM = """
CREATE TABLE stream_commits (stream text, commit_id bigint, PRIMARY KEY (stream, commit_id));
INSERT INTO commits SELECT n, 0, 1, '[[["bench",[["job_running",1,false,"{}"]]],[["long",' || n
    || ',"bench",1,1,null]]]]' FROM generate_series(1, 10000) AS n;
INSERT INTO stream_commits SELECT 'long', n FROM generate_series(1, 10000) AS n;
ANALYZE;
"""
LONG_HISTORY = b"""
SELECT commits.at, commits.body FROM stream_commits JOIN commits ON commits.id = commit_id
WHERE stream = 'long' AND commit_id > $1 ORDER BY commit_id LIMIT $2::integer
"""


def long_stream(url: str) -> tuple[float, float]:
    """Milliseconds for the whole history of a stream of 10,000 commits, and for 100 of them."""
    postgres.create(url, PROPOSAL)
    with psycopg.connect(url, autocommit=True) as plain:
        plain.execute(LONG_STREAM)
    connection = connect(url)

    def read(after: int, size: int) -> None:
        query = Query(LONG_HISTORY, [b"%d" % after, b"%d" % size])
        rows = connection.run([query])[0].rows
        found = [each for at, body in rows for each in decoded("templates", at, body, only="long")]
        assert [each.version for each in found] == list(range(after + 1, after + size + 1))

    whole = min(_timed(lambda: read(0, 10_000)) for _ in range(5))
    some = min(_timed(lambda: read(5_000, 100)) for _ in range(20))
    connection.close()
    return whole, some


# ---- the command -------------------------------------------------------------------------------


@contextmanager
def database() -> Iterator[str]:
    from bench.commit_log_trial import drop

    url = jobs_postgres.database()
    yield url
    drop(url)


def main(names: list[str]) -> None:
    for name, measure in MEASURES.items():
        if not names or name in names:
            print(f"{name}, load {os.getloadavg()[0]:.1f}", flush=True)
            measure()


def _order() -> None:
    for late in (False, True):
        with database() as url:
            print(f"  commit id after the locks {late}: {order(url, late=late)}", flush=True)


def _snapshot() -> None:
    for snapshot, remember in ((False, False), (True, False), (True, True)):
        with database() as url:
            first, last = claims_behind_snapshot(url, 40_000, snapshot=snapshot, remember=remember)
        case = f"old snapshot {snapshot}, remembered rank {remember}"
        print(f"  {case}: {first:,.0f} jobs/s at first, {last:,.0f} at the end", flush=True)


def _plans() -> None:
    cases = (
        PROPOSAL,
        Variant("generic plan, bitmap scans", bitmap_scans="on"),
        Variant("custom plan", plans="force_custom_plan"),
        Variant("custom plan, bitmap scans", plans="force_custom_plan", bitmap_scans="on"),
        Variant("no settings at all", plans="auto"),
    )
    with database() as url:
        postgres.create(url, PROPOSAL)
        for jobs in (1_000, 99_000):
            postgres.submit_all(url, PROPOSAL, jobs)
            for analyzed in (False, True):
                with psycopg.connect(url, autocommit=True) as connection:
                    if analyzed:
                        connection.execute("VACUUM ANALYZE")
                    plan(connection, PROPOSAL)
                    for case in cases:
                        found = plan(connection, case)
                        print(f"  {jobs:,}, analyzed {analyzed}, {case.name}: {found}", flush=True)


def _turns() -> None:
    for commits in (1_000, 100_000):
        with database() as url:
            with_mark, without = turns(url, commits)
        print(f"  {commits:,} commits: {with_mark:.2f} ms, without low mark {without:.2f} ms")


def _reading() -> None:
    for variant in (
        PROPOSAL,
        Variant("grouped", entries="grouped"),
        Variant("flat", entries="flat"),
    ):
        with database() as url:
            rate, p50, p99 = reading(url, variant, 12_000)
        print(f"  {variant.name}: {rate:,.0f} events/s, history p50 {p50:.2f} ms, p99 {p99:.2f} ms")
    with database() as url:
        whole, some = long_stream(url)
    print(f"  a stream of 10,000 commits: {whole:.1f} ms, 100 of them: {some:.2f} ms")


MEASURES = {
    "order": _order,
    "snapshot": _snapshot,
    "plans": _plans,
    "turns": _turns,
    "reading": _reading,
}

if __name__ == "__main__":
    main(sys.argv[1:])
