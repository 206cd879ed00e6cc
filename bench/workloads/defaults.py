"""`detent up` with its defaults on SQLite: what a user measures first.

10,000 board tasks of a trivial handler are sent in one bulk request. The time ends when the last
one is done. Beside it runs a bare SQLite loop: four writes for each job, in durable transactions of
500 jobs.
"""

import json
import time
import urllib.request
from functools import partial
from pathlib import Path
from typing import Any

import apsw

from bench.harness import Aim, Benchmark, Contestant, Scale
from bench.workloads.jobs import directory
from bench.workloads.startup import running
from detent.ids import new_id

TASKS = 10_000
LEAST_TASKS = 50
JOBS_PER_COMMIT = 500
WITHIN_S = 600.0
POLL_S = 0.02
REQUEST = {"intent": "nothing", "payload": {}, "lifecycle": "board", "run": True}
#: A board task passes these in this order.
OPEN = ("todo", "doing")
APP = """\
from detent import App, Run

app = App()


@app.intent("nothing")
def nothing(run: Run) -> dict[str, bool]:
    return {"ok": True}
"""
SCHEMA = """
CREATE TABLE jobs (id TEXT PRIMARY KEY, state TEXT, payload TEXT, result TEXT) WITHOUT ROWID;
CREATE TABLE log (id INTEGER PRIMARY KEY, job_id TEXT, name TEXT);
"""
WRITES = (
    "INSERT INTO jobs VALUES (?, 'queued', '{}', NULL)",
    "UPDATE jobs SET state = 'running' WHERE id = ?",
    "INSERT INTO log (job_id, name) VALUES (?, 'done')",
    "UPDATE jobs SET state = 'done', result = '{\"ok\":true}' WHERE id = ?",
)


def rate(count: int) -> float:
    """Tasks per second, from the request to the last one done."""
    return count / _defaults(count)[0]


def size(count: int) -> float:
    """Bytes on disk for each task, after `detent up` has ended."""
    return _defaults(count)[1] / count


def bare(count: int) -> float:
    """Jobs per second of the bare loop: inserted, claimed, logged and completed."""
    with directory() as place:
        database = apsw.Connection(str(place / "bare.db"))
        database.pragma("journal_mode", "wal")
        database.pragma("synchronous", "full")
        database.execute(SCHEMA)
        ids = [new_id() for _ in range(count)]
        begun = time.perf_counter()
        for at in range(0, count, JOBS_PER_COMMIT):
            part = [(each,) for each in ids[at : at + JOBS_PER_COMMIT]]
            database.execute("BEGIN IMMEDIATE")
            for text in WRITES:
                database.executemany(text, part)
            database.execute("COMMIT")
        took_s = time.perf_counter() - begun
        database.close()
    return count / took_s


def _defaults(count: int) -> tuple[float, int]:
    with directory() as place:
        (place / "work.py").write_text(APP, "utf-8")
        with running(place, str(place / "detent.db"), "--app", "work:app") as url:
            token = (place / "token").read_text("ascii").strip()
            line = json.dumps(REQUEST)
            begun = time.perf_counter()
            send(url, token, "/api/bulk/lines", "\n".join([line] * count).encode())
            await_done(url, token, begun + WITHIN_S)
            took_s = time.perf_counter() - begun
        _check_done(place / "detent.db", count)
        return took_s, sum(file.stat().st_size for file in place.glob("detent.db*"))


def _check_done(path: Path, count: int) -> None:
    """All tasks must have ended: a task of another lifecycle has other open states."""
    database = apsw.Connection(str(path))
    [(done,)] = database.execute("SELECT count(*) FROM ended_tasks WHERE state = 'done'")
    database.close()
    if done != count:
        raise RuntimeError(f"{done} of {count} tasks are done")


def await_done(url: str, token: str, until_s: float) -> None:
    """Wait until no task is open.

    A read of one state is a page of one row. A worker may hand a claimed task back, which is then
    in an earlier state again, so that the count of all open tasks decides.
    """
    while True:
        for state in OPEN:
            while json.loads(send(url, token, f"/api/tasks?state={state}&limit=1"))["items"]:
                if time.perf_counter() > until_s:
                    raise TimeoutError(f"some tasks are still {state}")
                time.sleep(POLL_S)
        if json.loads(send(url, token, "/api/counts"))["active"] == 0:
            return


def send(url: str, token: str, path: str, body: bytes | None = None) -> Any:
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/x-ndjson"}
    request = urllib.request.Request(f"{url}{path}", body, headers)
    with urllib.request.urlopen(request, timeout=WITHIN_S) as response:
        return response.read()


def _rates(scale: Scale) -> tuple[Contestant, ...]:
    count = scale.of(TASKS, LEAST_TASKS)
    return (
        Contestant("detent up", partial(rate, count)),
        Contestant("bare loop", partial(bare, count)),
    )


def _sizes(scale: Scale) -> tuple[Contestant, ...]:
    return (Contestant("detent up", partial(size, scale.of(TASKS, LEAST_TASKS))),)


BENCHMARKS = (
    Benchmark(
        "defaults-rate",
        "10,000 board tasks in one bulk request, with `detent up` as it is installed.",
        "tasks/s",
        _rates,
        (Aim(0.08, over="bare loop"),),
    ),
    Benchmark(
        "defaults-size",
        "Bytes on disk for each of these tasks.",
        "bytes",
        _sizes,
        (Aim(2_000),),
        less_is_better=True,
        rivals=False,
    ),
)
