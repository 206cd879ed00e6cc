"""HTTP: submissions beside a bare endpoint, and pages of tasks when there are many.

The server has a process of its own; the client is this process, and is the same for all.
"""

import asyncio
import atexit
import json
import time
from functools import cache, partial
from pathlib import Path

import apsw

from bench.harness import Aim, Benchmark, Contestant, Scale
from bench.workloads.jobs import directory
from bench.workloads.jobs_postgres import database
from bench.workloads.serving import Line, Served, request, served
from detent.engine import CommandRequest, Engine
from detent.ids import new_id
from detent.kernel import commands as c
from detent.store.store_url import open_store

REQUESTS = 3_000
CONNECTIONS = 32
PAGES = 200
FEW, MANY = 1_000, 1_000_000
BODY = {"intent": "nothing", "payload": {"n": 1}, "run": True}


# ---- submitting ------------------------------------------------------------------------------


def submitting(kind: str, store_url: str, connections: int, requests: int) -> float:
    """Durable submissions per second, over this many concurrent connections."""
    with directory() as place, served(kind, place, store_url) as server:
        return asyncio.run(_submit(server, connections, requests))


def on_postgres(connections: int, requests: int) -> float:
    return submitting("gateway", database(), connections, requests)


async def _submit(server: Served, connections: int, requests: int) -> float:
    lines = [await Line.to(server) for _ in range(connections)]
    wanted = request(server, "POST", "/api/tasks", BODY)
    for line in lines:
        await _made(line, wanted)
    begun = time.perf_counter()
    each = max(1, requests // connections)
    await asyncio.gather(*(_repeat(line, wanted, each) for line in lines))
    took = time.perf_counter() - begun
    for line in lines:
        await line.close()
    return each * connections / took


async def _repeat(line: Line, wanted: bytes, times: int) -> None:
    for _ in range(times):
        await _made(line, wanted)


async def _made(line: Line, wanted: bytes) -> None:
    status, body = await line.send(wanted)
    if status != 201:
        raise RuntimeError(f"{status}: {body!r}")


# ---- pages -----------------------------------------------------------------------------------

#: Pages that people ask for; each must cost the same however many tasks there are.
QUERIES = {
    "newest": "",
    "by state": "state=queued",
    "by state, recently changed": "state=queued&sort=-state_at",
    "of a project": "project=bench",
    "of a tag": "tag=rare",
    "of a rare intent": "intent=rare",
    "not ended": "active=true",
    "first by priority": "sort=priority",
}


@cache
def filled(count: int) -> Path:
    """A directory with this many tasks: one submitted task and copies of its row. Made once."""
    made = directory()
    place = made.__enter__()
    atexit.register(made.__exit__, None, None, None)
    store = open_store(str(place / "detent.db"))
    task = c.SubmitTask(new_id(), "bench", "review", "nothing", "api", queue=True)
    Engine(store).execute([CommandRequest(task, c.Actor("bench"), fresh=True)])
    store.close()
    database = apsw.Connection(str(place / "detent.db"))
    columns = [row[1] for row in database.execute("PRAGMA table_info(active_tasks)")]
    moving = {
        "id": "id || '-' || n",
        "root_id": "id || '-' || n",
        "created_at": "created_at + n",
        "state_at": "state_at + n",
    }
    values = ", ".join(moving.get(name, name) for name in columns)
    with database:
        database.execute(
            "WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers "
            f"WHERE n < {count - 1}) INSERT INTO active_tasks ({', '.join(columns)}) "
            f"SELECT {values} FROM numbers, active_tasks"
        )
    database.close()
    return place


def paging(query: str, count: int, pages: int) -> float:
    """Microseconds for a page of 100 tasks, one after the other, following the cursor."""
    with served("gateway", filled(count)) as server:
        return asyncio.run(_page(server, query, pages))


async def _page(server: Served, query: str, most: int) -> float:
    line = await Line.to(server)
    path = f"/api/tasks?{query}"
    took, pages = 0.0, 0
    cursor = None
    while pages < most and took < 20:
        asked = path if cursor is None else f"{path}&cursor={cursor}"
        begun = time.perf_counter()
        status, body = await line.send(request(server, "GET", asked))
        took += time.perf_counter() - begun
        if status != 200:
            raise RuntimeError(f"{status}: {body!r}")
        pages += 1
        cursor = json.loads(body)["cursor"]
    await line.close()
    return took / pages * 1e6


def _sizes(query: str, scale: Scale) -> tuple[Contestant, ...]:
    pages = scale.of(PAGES, least=3)
    return (
        Contestant("many tasks", partial(paging, query, scale.of(MANY, least=2_000), pages)),
        Contestant("few tasks", partial(paging, query, scale.of(FEW, least=200), pages)),
    )


def _pages(name: str, query: str) -> Benchmark:
    return Benchmark(
        f"http.page {name}",
        f"A page of 100 tasks, {name}, among {MANY:,} and among {FEW:,} tasks.",
        "µs",
        partial(_sizes, query),
        aims=(Aim(0.5, over="few tasks"),),
        less_is_better=True,
    )


def _beside(connections: int, scale: Scale) -> tuple[Contestant, ...]:
    # One client alone is ten times as slow, so it sends fewer.
    requests = scale.of(REQUESTS if connections > 1 else REQUESTS // 10, least=connections)
    return (
        Contestant("detent", partial(submitting, "gateway", "", connections, requests)),
        Contestant("bare FastAPI", partial(submitting, "bare", "", connections, requests)),
        Contestant("detent, PostgreSQL", partial(on_postgres, connections, requests)),
    )


BENCHMARKS = (
    Benchmark(
        "http.submit",
        f"Durable submissions by {CONNECTIONS} clients, and a bare endpoint with one insert.",
        "requests/s",
        partial(_beside, CONNECTIONS),
        aims=(Aim(1.0, over="bare FastAPI"),),
    ),
    Benchmark(
        "http.submit-one",
        "The same with one client that waits for each response.",
        "requests/s",
        partial(_beside, 1),
    ),
    *(_pages(name, query) for name, query in QUERIES.items()),
)
