"""The keeper of the trial, a process of its own: it assigns positions and extends the hash chain.

`python -m bench.commit_log.keeper URL ENTRIES BODY` works until its standard input ends, then
finishes what is left and prints what it did as JSON.
"""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import apsw

from bench.commit_log.events import Kind, chained
from bench.commit_log.low_mark import LowMark
from bench.commit_log.postgres import connect, statements
from bench.commit_log.sqlite import plain
from bench.commit_log.variants import Variant
from bench.peers import ROOT
from detent.store.postgres.connection import Failed

TURN_S = 0.02
COMMITS_READ = 50
MAX_SEQUENCED = 10_000
START = bytes(32)
UNIQUE_VIOLATION = "23505"


class PostgresKeeper:
    """Sequences and seals on one connection, each statement a transaction of its own."""

    def __init__(self, url: str, variant: Variant) -> None:
        self._kind = variant.entries
        self._connection = connect(url)
        self._sql = statements(variant.body)
        self.low = LowMark()
        self.turns, self.turns_s = 0, 0.0
        self.events, self.position, self.chain = 0, 0, START

    def sequence(self) -> int:
        """One turn: the number of commits that got a position."""
        begun = time.perf_counter()
        query = self._sql["sequence"](low=self.low.value, most=MAX_SEQUENCED)
        try:
            rows = self._connection.run([query])[0].rows
        except Failed as error:
            if error.sqlstate != UNIQUE_VIOLATION:
                raise
            return 0
        self.turns += 1
        self.turns_s += time.perf_counter() - begun
        mine, found = rows[0][0], [row[1] for row in rows if row[1] is not None]
        if len(found) == MAX_SEQUENCED:
            self.low.add(found)
        elif mine and (found or self.low.waiting):
            (running,) = self._connection.run([self._sql["transactions"]()])[0].rows
            self.low.note(found, *running)
        return len(found)

    def seal(self) -> int:
        """Extend the chain by some commits: their number."""
        query = self._sql["feed"](after=self.position, size=COMMITS_READ)
        rows = self._connection.run([query])[0].rows
        count = 0
        for first, _, at, body in rows:
            self.chain, events = chained(self.chain, self._kind, at, _json(body))
            self.position, count = first, count + events
        self.events += count
        if rows:
            block = {"to_position": self.position, "count": count, "chain": self.chain.hex()}
            self._connection.run([self._sql["seal"](**block)])
        return len(rows)

    def close(self) -> None:
        self._connection.close()


class SqliteKeeper:
    """Seals only: on SQLite a commit gets its position inside its transaction."""

    turns, turns_s = 0, 0.0

    def __init__(self, file: str, variant: Variant) -> None:
        self._variant = variant
        self._db = apsw.Connection(file)
        self._db.set_busy_timeout(10_000)
        self.events, self.position, self.chain = 0, 0, START

    def sequence(self) -> int:
        return 0

    def seal(self) -> int:
        rows: list[Any] = self._db.execute(
            "SELECT first_position, at, body FROM commits WHERE first_position > ?"
            " ORDER BY first_position LIMIT ?",
            (self.position, COMMITS_READ),
        ).fetchall()
        count = 0
        for first, at, body in rows:
            self.chain, events = chained(self.chain, self._variant.entries, at, plain(body))
            self.position, count = first, count + events
        self.events += count
        if rows:
            block = (self.position, count, self.chain)
            self._db.execute("INSERT INTO chain_blocks VALUES (?, ?, ?)", block)
        return len(rows)

    def close(self) -> None:
        self._db.close()


def _json(body: Any) -> str | bytes:
    """A column of type jsonb arrives as a value, whose text is not the one that was written."""
    return body if isinstance(body, str | bytes) else json.dumps(body)


def keep(keeper: PostgresKeeper | SqliteKeeper, stop: threading.Event) -> dict[str, Any]:
    """Work until `stop` is set and nothing is left; returns what was done."""
    begun = time.process_time()
    while True:
        ending = stop.is_set()
        found = keeper.sequence()
        found += keeper.seal()
        if ending and not found:
            break
        if not found:
            stop.wait(TURN_S)
    keeper.close()
    turn_us = 1e6 * keeper.turns_s / keeper.turns if keeper.turns else 0.0
    return {
        "events": keeper.events,
        "chain": keeper.chain.hex(),
        "turn_us": turn_us,
        "cpu_s": time.process_time() - begun,
    }


@contextmanager
def kept(address: str, variant: Variant) -> Iterator[dict[str, Any]]:
    """With the keeper's process; what it did is there after the end of the block."""
    arguments = [address, variant.entries, variant.body]
    found: dict[str, Any] = {}
    with subprocess.Popen(
        [sys.executable, "-m", "bench.commit_log.keeper", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield found
        finally:
            begun = time.perf_counter()
            printed, _ = process.communicate()
            found["behind_s"] = time.perf_counter() - begun
        found.update(json.loads(printed))


def main(address: str, entries: str, body: str) -> None:
    variant = Variant("keeper", entries=cast(Kind, entries), body=body)
    make = SqliteKeeper if Path(address).is_file() else PostgresKeeper
    keeper, stop = make(address, variant), threading.Event()
    print("ready", flush=True)
    threading.Thread(target=_await_end, args=(stop,), daemon=True).start()
    print(json.dumps(keep(keeper, stop)), flush=True)


def _await_end(stop: threading.Event) -> None:
    sys.stdin.read()
    stop.set()


if __name__ == "__main__":
    main(*sys.argv[1:])
