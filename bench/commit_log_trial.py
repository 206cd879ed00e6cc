"""`python -m bench.commit_log_trial`: the trial of the commit-log layout, in alternating rounds.

    --peers            beside graphile-worker and pg-boss, as they run in `bench race`
    --store sqlite     on SQLite: all variants in batches of --batch
    --variants PREFIX  variants whose names have this prefix; without it, the proposal alone
    --options          all variants

Each round measures every contestant once and begins with another one. A ratio is taken inside a
round. The load of the machine is printed with each round: on a busy machine compare CPU times and
ratios, not rates.
"""

import argparse
import os
import resource
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import LiteralString

import psycopg

from bench import jobs_postgres
from bench.commit_log import postgres, sqlite
from bench.commit_log.keeper import kept
from bench.commit_log.variants import POSTGRES, SQLITE, Variant
from bench.costs_postgres import processor_us
from bench.jobs import directory
from bench.race import lap
from bench.race.entrants import ENTRANTS, Entrant
from bench.race.stores import store

PEERS = ("graphile-worker, batches", "pg-boss")
SIZE = "SELECT pg_current_wal_lsn() - '0/0'::pg_lsn, pg_database_size(current_database())"
#: What stays after the jobs have ended; the space of active jobs is used again.
KEPT = """
SELECT sum(pg_total_relation_size(name::regclass))::bigint
FROM unnest(ARRAY['commits', 'positions', 'ended_jobs', 'chain_blocks']) AS kept (name)
"""
HOT = """
SELECT coalesce(100.0 * n_tup_hot_upd / nullif(n_tup_upd, 0), 0)
FROM pg_stat_user_tables WHERE relname = 'active_jobs'
"""
#: What is measured of a contestant, and how it is printed.
COLUMNS = {
    "jobs/s": "end to end, jobs/s",
    "bulk": "bulk",
    "drain": "drain",
    "server": "server, µs/job (drain)",
    "client": "client, µs/job",
    "keeper": "keeper, µs/job",
    "wal": "WAL, B/job",
    "kept": "kept, B/job",
    "disk": "database growth, B/job",
    "hot": "HOT, %",
    "turn": "turn, µs",
    "behind": "keeper behind, s",
}
Measured = Mapping[str, float]
Contestant = tuple[str, Callable[[], Measured]]


def on_postgres(variant: Variant, count: int, batch: int) -> Measured:
    """One run of a variant on PostgreSQL, in a new database that is dropped afterwards."""
    url = jobs_postgres.database()
    postgres.create(url, variant)
    before, begun = _size(url), time.process_time()
    with kept(url, variant) as keeper:
        bulk_s = postgres.submit_all(url, variant, count)
        server = processor_us()
        drain_s = postgres.drain(url, variant, count, batch)
        server = processor_us() - server
    client = time.process_time() - begun
    after = _size(url)
    (kept_bytes,), (hot,) = _row(url, KEPT), _row(url, HOT)
    drop(url)
    return {
        **_rates(count, bulk_s, drain_s),
        "server": server / count,
        "client": 1e6 * client / count,
        "keeper": 1e6 * keeper["cpu_s"] / count,
        "wal": (after[0] - before[0]) / count,
        "kept": kept_bytes / count,
        "disk": (after[1] - before[1]) / count,
        "hot": hot,
        "turn": keeper["turn_us"],
        "behind": keeper["behind_s"],
    }


def on_sqlite(variant: Variant, count: int, batch: int) -> Measured:
    """One run of a variant on SQLite."""
    with directory() as place:
        file = place / "trial.db"
        client = sqlite.Client(str(file), variant)
        client.create()
        empty, begun = file.stat().st_size, time.process_time()
        with kept(str(file), variant) as keeper:
            bulk_s = sqlite.submit_all(client, count, batch)
            drain_s = sqlite.drain(client, count, batch)
        own = time.process_time() - begun
        client.db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        client.db.close()
        size = file.stat().st_size - empty
    return {
        **_rates(count, bulk_s, drain_s),
        "client": 1e6 * own / count,
        "keeper": 1e6 * keeper["cpu_s"] / count,
        "kept": size / count,
        "behind": keeper["behind_s"],
    }


def of_peer(entrant: Entrant, count: int) -> Measured:
    """One run of another tool: a process enqueues, then another one drains."""
    with directory() as place, store(entrant.store, place) as url:
        before = _size(url)
        sent = lap.say(entrant, "enqueue", url, place, count, singles=20)
        server, client = processor_us(), _children_s()
        worked = lap.say(entrant, "drain", url, place, sent["enqueued"])
        server, client = processor_us() - server, _children_s() - client
        after = _size(url)
        drop(url)
    jobs = sent["enqueued"]
    bulk_s = sent["bulk_s"] * jobs / count
    return {
        **_rates(jobs, bulk_s, worked["drain_s"]),
        "server": server / jobs,
        "client": 1e6 * client / jobs,
        "wal": (after[0] - before[0]) / jobs,
        "disk": (after[1] - before[1]) / jobs,
    }


def _children_s() -> float:
    """CPU time of the processes that have ended, with their start-up."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _rates(count: int, bulk_s: float, drain_s: float) -> dict[str, float]:
    rates = {"jobs/s": count / (bulk_s + drain_s)}
    return {**rates, "bulk": count / bulk_s, "drain": count / drain_s}


def _size(url: str) -> tuple[float, float]:
    """Bytes of write-ahead log so far, and bytes of the database."""
    wal, size = _row(url, SIZE)
    return wal, size


def _row(url: str, text: LiteralString) -> list[float]:
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute(text).fetchone()
    assert row is not None
    return [float(value) for value in row]


def drop(url: str) -> None:
    name = psycopg.conninfo.conninfo_to_dict(url)["dbname"]
    assert isinstance(name, str)
    with psycopg.connect(jobs_postgres.server().url("postgres"), autocommit=True) as connection:
        connection.execute(
            psycopg.sql.SQL("DROP DATABASE {} WITH (FORCE)").format(psycopg.sql.Identifier(name))
        )


# ---- rounds ------------------------------------------------------------------------------------


def run(contestants: Sequence[Contestant], rounds: int) -> dict[str, list[Measured]]:
    """Measure all in turn and print each figure as it is found."""
    found: dict[str, list[Measured]] = {name: [] for name, _ in contestants}
    for number in range(rounds):
        print(f"round {number + 1}, load {os.getloadavg()[0]:.1f}", flush=True)
        turn = number % len(contestants)
        for name, measure in (*contestants[turn:], *contestants[:turn]):
            found[name].append(measure())
            print(f"  {name}: {_line(found[name][-1])}", flush=True)
    return found


def _line(measured: Measured) -> str:
    return ", ".join(f"{name} {value:,.4g}" for name, value in measured.items())


def table(found: Mapping[str, list[Measured]]) -> list[str]:
    """The medians, with the range of the rates, and the ratio to the first contestant."""
    first = next(iter(found))
    shown = [name for name in COLUMNS if any(name in each[0] for each in found.values())]
    titles = [COLUMNS[name] for name in shown]
    lines = ["| | " + " | ".join([*titles, f"× {first}"]) + " |", "|---" * (len(shown) + 2) + "|"]
    for name, measured in found.items():
        cells = [_cell(column, measured) for column in shown]
        pairs = zip(measured, found[first], strict=True)
        ratios = [own["jobs/s"] / other["jobs/s"] for own, other in pairs]
        ratio = f"{statistics.median(ratios):.2f} ({min(ratios):.2f} – {max(ratios):.2f})"
        lines.append("| " + " | ".join([name, *cells, ratio]) + " |")
    return lines


def _cell(column: str, measured: Sequence[Measured]) -> str:
    values = [each[column] for each in measured if column in each]
    if not values:
        return "–"
    middle = statistics.median(values)
    if column == "jobs/s":
        return f"{middle:,.0f} ({min(values):,.0f} – {max(values):,.0f})"
    return f"{middle:,.0f}" if middle >= 100 else f"{middle:.3g}"


def contestants(options: argparse.Namespace) -> list[Contestant]:
    every = SQLITE if options.store == "sqlite" else POSTGRES
    measure = on_sqlite if options.store == "sqlite" else on_postgres
    chosen = [each for each in every if options.variants and each.name.startswith(options.variants)]
    some = every if options.options else chosen or every[:1]
    found: list[Contestant] = [
        (each.name, partial(measure, each, options.jobs, options.batch)) for each in some
    ]
    peers = [each for each in ENTRANTS if each.name in PEERS] if options.peers else []
    return [*found, *((each.name, partial(of_peer, each, options.jobs)) for each in peers)]


def main() -> None:
    parser = argparse.ArgumentParser(prog=Path(__file__).stem, description=__doc__)
    parser.add_argument("--store", choices=("postgres", "sqlite"), default="postgres")
    parser.add_argument("--rounds", type=int, default=5, metavar="N")
    parser.add_argument("--jobs", type=int, default=12_000, metavar="N")
    parser.add_argument("--batch", type=int, default=500, metavar="N")
    parser.add_argument("--variants", default="", metavar="PREFIX")
    parser.add_argument("--options", action="store_true")
    parser.add_argument("--peers", action="store_true")
    options = parser.parse_args()
    print(*table(run(contestants(options), options.rounds)), sep="\n")


if __name__ == "__main__":
    main()
