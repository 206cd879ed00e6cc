"""From the cost of one job to the cost of many: the tables of the page about scale."""

from collections.abc import Iterator
from typing import Any

from bench.harness import Result, shown
from bench.machines.command import predicted
from bench.publish.figures import Figures

BATCHES = (1, 10, 100)
ROWS = ("rows inserted", "rows updated", "rows deleted")
SERVER, OWN = "server, µs of processor", "detent, µs of processor"
LOG, KEPT = "bytes of its log", "bytes kept"
PER_SECOND = 1_000
DAY_S, HOUR_S = 86_400, 3_600
#: The example: jobs per second, stored for a day, on servers of this size.
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
    yield "| per job | " + " | ".join(f"{batch} per transaction" for batch in found) + " |"
    yield "|---" * (len(found) + 1) + "|"
    rows = {
        "transactions, including notifications": ("transactions",),
        "rows inserted / updated / deleted": ROWS,
        "heap-only (HOT) updates": ("of them in place",),
        "bytes of write-ahead log": (LOG,),
        "bytes stored": (KEPT,),
        "CPU time of the server, µs": (SERVER,),
        "CPU time of detent, µs": (OWN,),
    }
    for title, names in rows.items():
        cells = [" / ".join(shown(cost[name]) for name in names) for cost in found.values()]
        yield f"| {title} | {' | '.join(cells)} |"


def a_thousand_jobs(figures: Figures) -> Iterator[str]:
    found = {batch: cost for batch, cost in _costs(figures).items() if batch > 1}
    if not found:
        return
    yield "| | " + " | ".join(f"{batch} per transaction" for batch in found) + " |"
    yield "|---" * (len(found) + 1) + "|"

    def row(title: str, *cells: str) -> str:
        return f"| {title} | {' | '.join(cells)} |"

    every = list(found.values())
    yield row("transactions per second", *(shown(PER_SECOND * c["transactions"]) for c in every))
    rows = [" / ".join(shown(PER_SECOND * c[name]) for name in ROWS) for c in every]
    yield row("rows inserted / updated / deleted per second", *rows)
    yield row("write-ahead log", *(_flow(c[LOG], HOUR_S, "GB per hour") for c in every))
    yield row(
        "stored until retention deletes it", *(_flow(c[KEPT], DAY_S, "GB per day") for c in every)
    )
    yield row("server cores", *(shown(PER_SECOND * c[SERVER] / 1e6) for c in every))
    engines = "cores of detent's engines, without handlers"
    yield row(engines, *(shown(PER_SECOND * c[OWN] / 1e6) for c in every))


def _flow(bytes_per_job: float, seconds: int, per: str) -> str:
    a_second = PER_SECOND * bytes_per_job
    return f"{shown(a_second / 1e6)} MB/s, {shown(a_second * seconds / 1e9)} {per}"


def shards(figures: Figures) -> Iterator[str]:
    """The example, with the batch size of a busy database."""
    found = _costs(figures).get(BATCHES[-1])
    if found is None:
        return
    yield (
        f"| jobs per second, stored for a day | server cores | shards by CPU ({CORES} cores each) "
        f"| stored | shards by disk ({DISK_BYTES / 1e12:.0f} TB each) | write-ahead log |"
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
            f"({shown(found.least)} – {shown(found.most)}), so the limit is about {shown(bound)} "
            "commits per second. Each commit contains all jobs that were waiting for it."
        )


# ---- several machines ----------------------------------------------------------------------

WAYS = {
    "direct": "direct connection to PostgreSQL",
    "pooler": "through PgBouncer, transaction mode",
}
WORK = {"nothing": "jobs that do nothing", "sleep": "jobs that sleep for 20 ms"}


def machines_setup(figures: Figures) -> Iterator[str]:
    document = figures.section("machines")
    if document is not None:
        machine = ", ".join(f"{name} {value}" for name, value in document["machine"].items())
        yield f"- Machine: {machine}."
        size = document["size"]
        yield (
            f"- {size['nothing']:,} jobs that do nothing and {size['sleep']:,} that sleep, for "
            f"each number of workers; {size['submissions']:,} submissions at {size['rate']} per "
            "second around each restart and failover. Measured once, so no range is given."
        )
        missing = document.get("missing", {})
        yield from (f"- Left out: {WAYS[way]}: {why}." for way, why in missing.items())


def _rates(figures: Figures) -> Iterator[tuple[str, dict[str, Any]]]:
    document = figures.section("machines") or {}
    for way, title in WAYS.items():
        for row in document.get(way, {}).get("throughput", ()):
            yield title, row


def machines_throughput(figures: Figures) -> Iterator[str]:
    rows = list(_rates(figures))
    if not rows:
        return
    yield "| | workers | jobs/s | relative to one worker |"
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


def machines_model(figures: Figures) -> Iterator[str]:
    """The runs with several workers beside the model's predictions."""
    document = figures.section("machines") or {}
    rows = [(title, each) for way, title in WAYS.items() for each in predicted(document, way)]
    if not rows:
        return
    yield "| jobs that sleep for 20 ms | workers | predicted jobs/s | measured jobs/s | error |"
    yield "|---|---|---|---|---|"
    for title, row in rows:
        yield (
            f"| {title} | {row.workers} | {shown(row.predicted)} | {shown(row.measured)} | "
            f"{row.error:+.0%} |"
        )


def machines_connections(figures: Figures) -> Iterator[str]:
    rows = list(_rates(figures))
    if not rows:
        return
    yield "| | workers | server connections | connections to PgBouncer | by machine |"
    yield "|---|---|---|---|---|"
    for way, row in rows:
        if row["work"] == "nothing":
            machines = ", ".join(f"{name} {count}" for name, count in row["by_machine"].items())
            yield (
                f"| {way} | {row['workers']} | {row['server_connections']} | "
                f"{row.get('pooler_connections', '–')} | {machines or '–'} |"
            )


def machines_interrupted(figures: Figures) -> Iterator[str]:
    document = figures.section("machines")
    if document is None:
        return
    scenes = {
        f"restart, {title}": document[way]["restart"]
        for way, title in WAYS.items()
        if way in document
    }
    scenes["failover to a synchronous standby"] = document["failover"]
    yield "| | acknowledged | lost | duplicated | rows that differ from the log | longest gap |"
    yield "|---|---|---|---|---|---|"
    for name, scene in scenes.items():
        counts = (scene[each] for each in ("acknowledged", "lost", "made_twice", "differences"))
        cells = " | ".join(f"{count:,}" for count in counts)
        yield f"| {name} | {cells} | {shown(scene['longest_gap_s'])} s |"
