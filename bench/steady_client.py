"""A client in a process of its own that reads and writes through a gateway at a steady rate.

A request that is due while its connection still waits for an earlier response counts from the time
at which it was due, so a gateway that stalls is not measured less often.
"""

import asyncio
import json
import multiprocessing
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from multiprocessing.connection import Connection
from typing import NamedTuple

from bench.harness import quantile
from bench.workloads.serving import Line, Served, request

#: Requests per second, and the connections that share them.
RATE = 20
CONNECTIONS = 8
TASK = {"intent": "note", "payload": {"n": 1}}


class Latencies(NamedTuple):
    """The durations of all requests in milliseconds."""

    reads_ms: Sequence[float]
    writes_ms: Sequence[float]

    def quantile_ms(self, share: float) -> float:
        return quantile([*self.reads_ms, *self.writes_ms], share)


class SteadyClient:
    """The process, and the latencies once it has ended."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe

    def stop(self) -> Latencies:
        self._pipe.send(None)
        return Latencies(*self._pipe.recv())


@contextmanager
def steady_client(server: Served) -> Iterator[SteadyClient]:
    """A client that sends requests until it is stopped."""
    spawned = multiprocessing.get_context("spawn")
    own, other = spawned.Pipe()
    process = spawned.Process(target=_send_until_stopped, args=(server, other), daemon=True)
    process.start()
    other.close()  # so that the end of the process is the end of the pipe
    try:
        yield SteadyClient(own)
    finally:
        process.kill()
        process.join()


def _send_until_stopped(server: Served, pipe: Connection) -> None:
    os.setsid()  # Linux shares the CPU among sessions: a client has no part of the gateway's share
    pipe.send(asyncio.run(_send(server, pipe)))


async def _send(server: Served, pipe: Connection) -> tuple[list[float], list[float]]:
    lines = [await Line.to(server) for _ in range(CONNECTIONS)]
    created = json.loads((await lines[0].send(request(server, "POST", "/api/tasks", TASK)))[1])
    reads = [
        request(server, "GET", path)
        for path in (f"/api/tasks/{created['id']}", "/api/tasks?limit=50", "/api/runs?limit=50")
    ]
    write = request(server, "POST", "/api/tasks", TASK)
    begun_s = time.perf_counter()
    read_ms: list[float] = []
    write_ms: list[float] = []

    async def steady(number: int, line: Line) -> None:
        for turn in count():
            due_s = begun_s + (turn * CONNECTIONS + number) / RATE
            late_s = time.perf_counter() - due_s
            await asyncio.sleep(max(0.0, -late_s))
            if pipe.poll():
                return
            sent_s = due_s if late_s > 0 else time.perf_counter()
            is_read = (turn + number) % 2 == 0
            status, body = await line.send(reads[turn % len(reads)] if is_read else write)
            if status != (200 if is_read else 201):
                raise RuntimeError(f"{status}: {body!r}")
            (read_ms if is_read else write_ms).append((time.perf_counter() - sent_s) * 1e3)

    await asyncio.gather(*(steady(number, line) for number, line in enumerate(lines)))
    for line in lines:
        await line.close()
    return read_ms, write_ms
