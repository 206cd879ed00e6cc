"""The trial on SQLite: the same tables; a commit gets its position inside its transaction."""

import time
import zlib
from collections.abc import Sequence
from typing import Any

import apsw
import msgspec

from bench.commit_log.events import claimed, completed, encoding
from bench.commit_log.job_batch import RESULT_TEXT, created_body, new_jobs
from bench.commit_log.variants import MAX_RUNNING, Variant
from detent.store.sqlite.connection import PRAGMAS

WORKER = "bench"
IDLE_S = 0.002
LEASE_US = 30_000_000
decode = msgspec.json.Decoder().decode

SCHEMA = """
CREATE TABLE commits (
    id INTEGER PRIMARY KEY, first_position INTEGER NOT NULL UNIQUE, at INTEGER NOT NULL,
    events INTEGER NOT NULL, body {body} NOT NULL
) STRICT;
CREATE TABLE active_jobs (
    id TEXT PRIMARY KEY, project TEXT NOT NULL, intent TEXT NOT NULL, lane TEXT,
    rank INTEGER NOT NULL, due_at INTEGER, concurrency_key TEXT, worker TEXT,
    fence INTEGER NOT NULL, attempt INTEGER NOT NULL, version INTEGER NOT NULL,
    queued_at INTEGER NOT NULL, started_at INTEGER, created_commit INTEGER NOT NULL,
    claimed_commit INTEGER, payload TEXT NOT NULL
) STRICT{rowid};
CREATE INDEX active_jobs_by_rank ON active_jobs (lane, rank) {where};
CREATE INDEX active_jobs_due ON active_jobs (due_at) WHERE due_at IS NOT NULL;
CREATE TABLE leases (
    claim INTEGER PRIMARY KEY, worker TEXT NOT NULL, until INTEGER NOT NULL, open INTEGER NOT NULL
) STRICT;
CREATE TABLE lane_limits (
    lane TEXT PRIMARY KEY, most INTEGER NOT NULL, running INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE ended_jobs (
    id TEXT PRIMARY KEY, project TEXT NOT NULL, intent TEXT NOT NULL, state TEXT NOT NULL,
    fence INTEGER NOT NULL, attempt INTEGER NOT NULL, version INTEGER NOT NULL, worker TEXT,
    queued_at INTEGER NOT NULL, started_at INTEGER, ended_at INTEGER NOT NULL,
    commits TEXT NOT NULL, result TEXT, payload TEXT
) STRICT{rowid};
CREATE TABLE chain_blocks (
    to_position INTEGER PRIMARY KEY, count INTEGER NOT NULL, chain BLOB NOT NULL
) STRICT;
"""
#: The events for auditors, when the body is a text of the encoding `templates`.
VIEW = """
CREATE VIEW events AS
SELECT
    commits.first_position - 1 + row_number() OVER (
        PARTITION BY commits.id ORDER BY part.key, job.key, event.key
    ) AS position,
    job.value ->> 0 AS stream, (job.value ->> 1) + event.key AS version,
    job.value ->> 2 AS project, event.value ->> 0 AS name, event.value ->> 1 AS schema,
    CASE WHEN event.value ->> 2 THEN (job.value ->> 0) || '-r' || (job.value ->> 4) END AS subject,
    commits.at, part.value ->> '$[0][0]' AS actor,
    replace(replace(replace(replace(replace(
        event.value ->> 3, '%1$s', job.value ->> 0), '%5$s', job.value ->> 2),
        '%6$s', job.value ->> 3), '%7$s', job.value ->> 4), '%8$s', job.value -> 5
    ) AS data
FROM commits, json_each(commits.body) AS part, json_each(part.value, '$[1]') AS job,
    json_each(part.value, '$[0][1]') AS event
"""
INSERT_COMMIT = """
INSERT INTO commits (first_position, at, events, body)
SELECT coalesce((SELECT first_position + events FROM commits ORDER BY id DESC LIMIT 1), 1), ?, ?, ?
"""
INSERT_JOB = """
INSERT INTO active_jobs (
    id, intent, lane, rank, due_at, concurrency_key, payload, project, fence, attempt, version,
    queued_at, created_commit
) VALUES (?, ?, ?, ?, ?, ?, ?, 'bench', 0, 0, 1, ?, ?)
"""
DELETE_JOB = """
DELETE FROM active_jobs WHERE id = ? AND fence = ? AND worker = ?
RETURNING id, project, intent, fence, attempt, version, worker, queued_at, started_at,
    created_commit, claimed_commit, payload, lane
"""
INSERT_ENDED = "INSERT INTO ended_jobs VALUES (?, ?, ?, 'completed', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
FIND = """
SELECT rank, id, project, fence, attempt, version, payload, lane FROM active_jobs
INDEXED BY active_jobs_by_rank
WHERE lane = ? AND worker IS NULL ORDER BY rank LIMIT ?
"""
CLAIM = """
UPDATE active_jobs SET worker = ?, fence = fence + 1, attempt = attempt + 1,
    version = version + 3, started_at = ?, claimed_commit = ?
WHERE id = ?
"""
WAKE = """
UPDATE active_jobs SET lane = intent || coalesce('/' || concurrency_key, ''), due_at = NULL
WHERE id IN (SELECT id FROM active_jobs WHERE due_at <= ? ORDER BY due_at LIMIT 1000)
"""


class Client:
    """Submits and works on one connection."""

    def __init__(self, file: str, variant: Variant) -> None:
        self.variant = variant
        self.db = apsw.Connection(file, statementcachesize=500)
        self.db.set_busy_timeout(10_000)
        for pragma in (*PRAGMAS, "journal_mode = WAL"):
            self.db.execute(f"PRAGMA {pragma}").fetchall()
        self._ends = encoding(variant.entries, completed(WORKER))
        self._claims = encoding(variant.entries, claimed(WORKER))

    def create(self) -> None:
        variant = self.variant
        text = SCHEMA.replace("{body}", "TEXT" if variant.body == "text" else "BLOB")
        text = text.replace("{rowid}", ", WITHOUT ROWID" if variant.without_rowid else "")
        self.db.execute(text.replace("{where}", "WHERE worker IS NULL" if variant.partial else ""))
        self.db.execute(VIEW)
        if variant.limit:
            limit = (variant.lanes[-1], MAX_RUNNING)
            self.db.execute("INSERT INTO lane_limits VALUES (?, ?, 0)", limit)

    def submit(self, count: int) -> None:
        jobs = new_jobs(self.variant, count)
        body = self._body(created_body(self.variant, jobs))
        now = _now()
        self.db.execute("BEGIN IMMEDIATE")
        self.db.execute(INSERT_COMMIT, (now, count, body))
        commit = self.db.last_insert_rowid()
        self.db.executemany(INSERT_JOB, [(*job, now, commit) for job in jobs])
        self.db.execute("COMMIT")

    def work(self, held: Sequence[tuple[str, int]], size: int) -> tuple[int, list[tuple[str, int]]]:
        """Complete what is held and claim more, in one transaction."""
        self.db.execute("BEGIN IMMEDIATE")
        now = _now()
        ((commit,),) = self._all("SELECT coalesce(max(id), 0) + 1 FROM commits")
        ended, end_part = self._end(held, commit, now)
        found, claim_part = self._claim(size, commit, now)
        events = 2 * ended + 3 * len(found)
        if events:
            body = "[" + ",".join(part for part in (end_part, claim_part) if part) + "]"
            self.db.execute(INSERT_COMMIT, (now, events, self._body(body)))
        self.db.execute(WAKE, (now,))
        self.db.execute("COMMIT")
        for row in found:
            decode(row[6])
        return ended, [(row[1], row[3] + 1) for row in found]

    def _end(self, held: Sequence[tuple[str, int]], commit: int, now: int) -> tuple[int, str]:
        given = [(id, fence, WORKER) for id, fence in held]
        rows: list[Any] = self.db.executemany(DELETE_JOB, given).fetchall() if given else []
        if not rows:
            return 0, ""
        keep = self.variant.keep_payload
        self.db.executemany(INSERT_ENDED, [_ended(row, commit, now, keep=keep) for row in rows])
        for claim in {row[10] for row in rows}:
            jobs = sum(row[10] == claim for row in rows)
            self.db.execute("UPDATE leases SET open = open - ? WHERE claim = ?", (jobs, claim))
            self.db.execute("DELETE FROM leases WHERE claim = ? AND open = 0", (claim,))
        self._count([row[12] for row in rows], -1)
        values = [
            (id, version + 1, version + 2, None, project, fence, attempt, RESULT_TEXT)
            for id, project, _, fence, attempt, version, *_ in rows
        ]
        return len(rows), self._ends.part(values)

    def _claim(self, size: int, commit: int, now: int) -> tuple[list[Any], str]:
        limits = dict(self._all("SELECT lane, most - running FROM lane_limits"))
        found: list[Any] = []
        for lane in self.variant.lanes:
            found += self._all(FIND, lane, min(size, limits.get(lane, size)))
        found = sorted(found)[:size]
        if not found:
            return [], ""
        self.db.executemany(CLAIM, [(WORKER, now, commit, row[1]) for row in found])
        lease = (commit, WORKER, now + LEASE_US, len(found))
        self.db.execute("INSERT INTO leases VALUES (?, ?, ?, ?)", lease)
        if limits:
            self._count([row[7] for row in found], 1)
        values = [
            (id, version + 1, version + 2, version + 3, project, fence + 1, attempt + 1, "null")
            for _, id, project, fence, attempt, version, *_ in found
        ]
        return found, self._claims.part(values)

    def _count(self, lanes: Sequence[str], sign: int) -> None:
        if self.variant.limit:
            for lane in set(lanes):
                change = (sign * lanes.count(lane), lane)
                self.db.execute(
                    "UPDATE lane_limits SET running = running + ? WHERE lane = ?", change
                )

    def _all(self, text: str, *values: Any) -> list[Any]:
        return self.db.execute(text, values).fetchall()

    def _body(self, text: str) -> str | bytes:
        if self.variant.body == "text":
            return text
        return zlib.compress(text.encode(), 1) if self.variant.body == "zlib" else text.encode()


def plain(body: str | bytes) -> str | bytes:
    """A stored body as JSON, whether it was compressed or not."""
    return zlib.decompress(body) if isinstance(body, bytes) and body[:1] == b"x" else body


def _ended(row: Any, commit: int, now: int, *, keep: bool) -> tuple[Any, ...]:
    id, project, intent, fence, attempt, version, worker, queued, started, *rest = row
    made, claim, payload = rest[:3]
    facts = (id, project, intent, fence, attempt, version + 2, worker, queued, started, now)
    return (*facts, f"{made},{claim},{commit}", RESULT_TEXT, payload if keep else None)


def _now() -> int:
    return time.time_ns() // 1_000


def submit_all(client: Client, count: int, batch: int) -> float:
    begun = time.perf_counter()
    for start in range(0, count, batch):
        client.submit(min(batch, count - start))
    return time.perf_counter() - begun


def drain(client: Client, count: int, batch: int) -> float:
    begun = time.perf_counter()
    held: list[tuple[str, int]] = []
    done = 0
    while done < count:
        accepted, held = client.work(held, batch)
        done += accepted
        if not accepted and not held:
            time.sleep(IDLE_S)
    return time.perf_counter() - begun
