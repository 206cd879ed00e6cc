"""From what one job costs to what many ask for: the tables of the page about scale."""

from collections.abc import Iterator
from typing import Any

from bench.figures import Figures
from bench.harness import Result, shown

BATCHES = (1, 10, 100)
ROWS = ("rows inserted", "rows updated", "rows deleted")
SERVER, OWN = "server, µs of processor", "detent, µs of processor"
LOG, KEPT = "bytes of its log", "bytes kept"
PER_SECOND = 1_000
DAY_S, HOUR_S = 86_400, 3_600
#: The example: so many jobs a second, kept for a day, on servers of this size.
EXAMPLE, CORES, DISK_BYTES = (1_000, 10_000, 100_000), 4, 4_000_000_000_000


def _costs(figures: Figures) -> dict[int, dict[str, float]]:
    """What one bare job costs PostgreSQL, by jobs in a transaction."""
    found = {batch: figures.result("workloads", f"cost-postgres-{batch}") for batch in BATCHES}
    return {batch: _middles(result) for batch, result in found.items() if result is not None}


def _middles(result: Result) -> dict[str, float]:
    return {name: result.spread(name).median for name in result.figures}


def costs(figures: Figures) -> Iterator[str]:
    found = _costs(figures)
    if not found:
        return
    yield "| for each job | " + " | ".join(f"{batch} in a transaction" for batch in found) + " |"
    yield "|---" * (len(found) + 1) + "|"
    rows = {
        "transactions, notifications included": ("transactions",),
        "rows inserted / updated / deleted": ROWS,
        "of the updates, done in place": ("of them in place",),
        "bytes of write-ahead log": (LOG,),
        "bytes kept": (KEPT,),
        "µs of the server's processor": (SERVER,),
        "µs of detent's processor": (OWN,),
    }
    for title, names in rows.items():
        cells = [" / ".join(shown(cost[name]) for name in names) for cost in found.values()]
        yield f"| {title} | {' | '.join(cells)} |"


def a_thousand_jobs(figures: Figures) -> Iterator[str]:
    found = {batch: cost for batch, cost in _costs(figures).items() if batch > 1}
    if not found:
        return
    yield "| | " + " | ".join(f"{batch} in a transaction" for batch in found) + " |"
    yield "|---" * (len(found) + 1) + "|"

    def row(title: str, *cells: str) -> str:
        return f"| {title} | {' | '.join(cells)} |"

    every = list(found.values())
    yield row("transactions a second", *(shown(PER_SECOND * c["transactions"]) for c in every))
    rows = [" / ".join(shown(PER_SECOND * c[name]) for name in ROWS) for c in every]
    yield row("rows inserted / updated / deleted a second", *rows)
    yield row("write-ahead log", *(_flow(c[LOG], HOUR_S, "GB an hour") for c in every))
    yield row("kept until retention takes it", *(_flow(c[KEPT], DAY_S, "GB a day") for c in every))
    yield row("server cores", *(shown(PER_SECOND * c[SERVER] / 1e6) for c in every))
    engines = "cores of detent's engines, handlers not counted"
    yield row(engines, *(shown(PER_SECOND * c[OWN] / 1e6) for c in every))


def _flow(bytes_per_job: float, seconds: int, per: str) -> str:
    a_second = PER_SECOND * bytes_per_job
    return f"{shown(a_second / 1e6)} MB/s, {shown(a_second * seconds / 1e9)} {per}"


def shards(figures: Figures) -> Iterator[str]:
    """The example worked out, at the batch that a busy database has."""
    found = _costs(figures).get(BATCHES[-1])
    if found is None:
        return
    yield (
        f"| jobs a second, kept a day | server cores | shards by processor ({CORES} cores each) | "
        f"kept | shards by disk ({DISK_BYTES / 1e12:.0f} TB each) | write-ahead log |"
    )
    yield "|---|---|---|---|---|---|"
    for rate in EXAMPLE:
        cores, kept = rate * found[SERVER] / 1e6, rate * found[KEPT] * DAY_S
        yield (
            f"| {rate:,} | {shown(cores)} | {shown(cores / CORES)} | {shown(kept / 1e12)} TB | "
            f"{shown(kept / DISK_BYTES)} | {shown(rate * found[LOG] / 1e6)} MB/s |"
        )


def commits(figures: Figures) -> Iterator[str]:
    result = figures.result("workloads", "submit-postgres")
    if result is not None:
        found = result.spread("bare commit")
        bound = 1e6 / found.median
        yield (
            f"On the machine of this page a bare commit took {shown(found.median)} µs "
            f"({shown(found.least)} – {shown(found.most)}), so at most about {shown(bound)} "
            "commits a second, each of as many jobs as wait for it."
        )


# ---- beyond one machine ----------------------------------------------------------------------

WAYS = {"direct": "straight to PostgreSQL", "pooler": "through PgBouncer, transaction mode"}
WORK = {"nothing": "jobs that do nothing", "sleep": "jobs that wait 20 ms for somebody else"}


def beyond_machine(figures: Figures) -> Iterator[str]:
    document = figures.section("beyond")
    if document is not None:
        machine = ", ".join(f"{name} {value}" for name, value in document["machine"].items())
        yield f"- Machine: {machine}."
        size = document["size"]
        yield (
            f"- {size['nothing']:,} jobs that do nothing and {size['sleep']:,} that wait for each "
            f"number of workers; {size['submissions']:,} submissions at {size['rate']} a second "
            "around each restart and failover. Measured once: no spread."
        )
        missing = document.get("missing", {})
        yield from (f"- Left out: {WAYS[way]}: {why}." for way, why in missing.items())


def _rates(figures: Figures) -> Iterator[tuple[str, dict[str, Any]]]:
    document = figures.section("beyond") or {}
    for way, told in WAYS.items():
        for row in document.get(way, {}).get("throughput", ()):
            yield told, row


def beyond_throughput(figures: Figures) -> Iterator[str]:
    rows = list(_rates(figures))
    if not rows:
        return
    yield "| | workers | jobs/s | to one worker |"
    yield "|---|---|---|---|"
    for way, row in rows:
        one = next(
            first["jobs_per_s"]
            for other, first in rows
            if (other, first["work"], first["workers"]) == (way, row["work"], 1)
        )
        rate = row["jobs_per_s"]
        work = WORK[row["work"]]
        yield f"| {way}: {work} | {row['workers']} | {shown(rate)} | {shown(rate / one)} × |"


def beyond_connections(figures: Figures) -> Iterator[str]:
    rows = list(_rates(figures))
    if not rows:
        return
    yield "| | workers | connections of the server | to PgBouncer | by machine |"
    yield "|---|---|---|---|---|"
    for way, row in rows:
        if row["work"] == "nothing":
            machines = ", ".join(f"{name} {count}" for name, count in row["by_machine"].items())
            yield (
                f"| {way} | {row['workers']} | {row['server_connections']} | "
                f"{row.get('pooler_connections', '–')} | {machines or '–'} |"
            )


def beyond_interrupted(figures: Figures) -> Iterator[str]:
    document = figures.section("beyond")
    if document is None:
        return
    scenes = {
        f"restart, {told}": document[way]["restart"]
        for way, told in WAYS.items()
        if way in document
    }
    scenes["failover to a synchronous standby"] = document["failover"]
    yield "| | acknowledged | lost | made twice | rows unlike their log | longest silence |"
    yield "|---|---|---|---|---|---|"
    for name, scene in scenes.items():
        counts = (scene[each] for each in ("acknowledged", "lost", "made_twice", "differences"))
        cells = " | ".join(f"{count:,}" for count in counts)
        yield f"| {name} | {cells} | {shown(scene['longest_gap_s'])} s |"
