"""Memory of `detent up` while a million events pass through it, with feed readers and a dashboard.

Board tasks of a trivial handler are sent in bulk requests until the log has a million events. The
readers follow the feed; the dashboard's lists and figures are requested every second. The memory of
the process is read when all tasks that were sent are done.
"""

import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import psutil

from bench.harness import Aim, Benchmark, Contestant, Scale, parts
from bench.workloads.defaults import APP, REQUEST, WITHIN_S, await_done, send
from bench.workloads.jobs import directory
from bench.workloads.startup import running

STEPS = 10
#: The tasks of one step, whose events are a tenth of a million.
TASKS = 11_200
FEWEST_TASKS = 50
READERS = 3
CHUNK_BYTES = 65_536
#: What an open dashboard requests again and again.
PAGES = ("/api/tasks?limit=50", "/api/jobs?limit=50", "/api/runs?limit=50", "/api/stats")
PAGE_S = 1.0
NAMES = ("after two tenths", "at the end", "growth")


def memory(tasks: int) -> dict[str, float]:
    """Megabytes when a fifth of the events and when all of them have passed, and the difference."""
    megabytes = []
    with directory() as place:
        (place / "work.py").write_text(APP, "utf-8")
        with running(place, str(place / "detent.db"), "--app", "work:app") as url:
            token = (place / "token").read_text("ascii").strip()
            pid = json.loads((place / "server.json").read_text("utf-8"))["pid"]
            body = "\n".join([json.dumps(REQUEST)] * tasks).encode()
            with _connected(url, token):
                for _ in range(STEPS):
                    send(url, token, "/api/bulk/lines", body)
                    await_done(url, token, time.perf_counter() + WITHIN_S)
                    megabytes.append(psutil.Process(pid).memory_info().rss / 1e6)
    print("  megabytes: " + ", ".join(f"{each:.0f}" for each in megabytes))
    return dict(
        zip(NAMES, (megabytes[1], megabytes[-1], megabytes[-1] - megabytes[1]), strict=True)
    )


@contextmanager
def _connected(url: str, token: str) -> Iterator[None]:
    """Readers of the feed and a dashboard, each on a thread, until the end."""
    over = threading.Event()
    work = [partial(_read, url, token, over)] * READERS + [partial(_look, url, token, over)]
    threads = [threading.Thread(target=each, daemon=True) for each in work]
    for each in threads:
        each.start()
    try:
        yield
    finally:
        over.set()


def _read(url: str, token: str, over: threading.Event) -> None:
    """Follow the feed; a reader that is dropped because it is too slow connects again."""
    headers = {"Authorization": f"Bearer {token}"}
    request = urllib.request.Request(f"{url}/api/events", headers=headers)
    while not over.is_set():
        try:
            with urllib.request.urlopen(request, timeout=WITHIN_S) as response:
                while not over.is_set() and response.read1(CHUNK_BYTES):
                    pass
        except (OSError, urllib.error.URLError):
            over.wait(PAGE_S)


def _look(url: str, token: str, over: threading.Event) -> None:
    while not over.wait(PAGE_S):
        for page in PAGES:
            send(url, token, page)


def _contestants(scale: Scale) -> tuple[Contestant, ...]:
    return parts(NAMES, partial(memory, scale.of(TASKS, FEWEST_TASKS)))


BENCHMARKS = (
    Benchmark(
        "memory-gateway",
        "Memory of `detent up` while 1,000,000 events pass, with feed readers and a dashboard.",
        "MB",
        _contestants,
        (Aim(10, who="growth"),),
        less_is_better=True,
        rivals=False,
    ),
)
