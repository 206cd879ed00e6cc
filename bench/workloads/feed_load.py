"""The live feed under load: a thousand WebSockets, some of which stop reading, while tasks come in.

Not a contest of a few seconds but one long look: `./dev bench feed.load` prints what it has seen
and fails if a reader missed an event, the writer was slowed, or memory grew without bound. Server,
readers and writer are processes of their own.
"""

import asyncio
import base64
import json
import multiprocessing
import os
import re
import struct
import time
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import Connection
from typing import NamedTuple

import psutil

from bench.harness import Aim, Benchmark, Contestant, Scale, quantile
from bench.workloads.jobs import directory
from bench.workloads.serving import Line, Served, request, served

READERS = 1_000
DEAF = 10
RATE = 200
SECONDS = 10
#: Many, because each waits for its answer: the rate is to be held by the server, not by them.
WRITERS = 40
BODY = {"intent": "nothing", "run": True}
POSITIONS = re.compile(rb'"type":"event","position":(\d+)')


class Load(NamedTuple):
    """How much of it: readers, some of them deaf, and for how long."""

    readers: int
    deaf: int
    seconds: float

    @classmethod
    def at(cls, scale: Scale) -> "Load":
        seconds = max(0.5, SECONDS * scale.share)
        return cls(scale.of(READERS, least=5), scale.of(DEAF), seconds)


# ---- writing ---------------------------------------------------------------------------------


@dataclass
class Written:
    """What the writer saw."""

    tasks: int
    took_s: float
    latencies_s: list[float] = field(repr=False)

    @property
    def per_second(self) -> float:
        return self.tasks / self.took_s

    def quantile_ms(self, share: float) -> float:
        return quantile(self.latencies_s, share) * 1e3


async def write(server: Served, load: Load) -> Written:
    """Submit at a steady rate; a server that falls behind is not let off."""
    lines = [await Line.to(server) for _ in range(WRITERS)]
    wanted = request(server, "POST", "/api/tasks", BODY)
    begun = time.perf_counter()
    written = Written(0, 0.0, [])

    async def steady(number: int, line: Line) -> None:
        for turn in range(max(1, int(load.seconds * RATE / WRITERS))):
            due = begun + (turn * WRITERS + number) / RATE
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            sent = time.perf_counter()
            status, body = await line.send(wanted)
            if status != 201:
                raise RuntimeError(f"{status}: {body!r}")
            written.latencies_s.append(time.perf_counter() - sent)
            written.tasks += 1

    await asyncio.gather(*(steady(number, line) for number, line in enumerate(lines)))
    written.took_s = time.perf_counter() - begun
    for line in lines:
        await line.close()
    return written


# ---- reading ---------------------------------------------------------------------------------


class Reader:
    """A WebSocket by hand: frames in, positions out."""

    #: Frames are the same for all; each is looked through once.
    known: dict[bytes, tuple[int, ...]] = {}  # noqa: RUF012 - shared on purpose

    def __init__(self, deaf: bool) -> None:
        self.deaf = deaf
        self.positions: list[int] = []

    async def run(self, server: Served, gate: asyncio.Semaphore, ready: asyncio.Event) -> None:
        async with gate:  # a thousand handshakes at the same time would measure the backlog
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=1 << 24)
            writer.write(_handshake(server))
            head = await reader.readuntil(b"\r\n\r\n")
            assert b" 101 " in head.split(b"\r\n")[0], head
        if self.deaf:
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            await ready.wait()
            writer.close()
            return
        while True:
            frame = await _frame(reader)
            if frame is None:
                break
            if frame not in self.known:
                self.known[frame] = tuple(map(int, POSITIONS.findall(frame)))
            self.positions.extend(self.known[frame])
        writer.close()


def _handshake(server: Served) -> bytes:
    key = base64.b64encode(os.urandom(16)).decode()
    lines = [
        "GET /api/feed?cursor=0 HTTP/1.1",
        f"Host: 127.0.0.1:{server.port}",
        "Upgrade: websocket",
        "Connection: Upgrade",
        f"Sec-WebSocket-Key: {key}",
        "Sec-WebSocket-Version: 13",
        f"Authorization: Bearer {server.token}",
    ]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


async def _frame(reader: asyncio.StreamReader) -> bytes | None:
    """The next text; None when the other side closes. Pings go unanswered: it is a short visit."""
    while True:
        head = await reader.readexactly(2)
        size = head[1] & 127
        if size == 126:
            (size,) = struct.unpack(">H", await reader.readexactly(2))
        elif size == 127:
            (size,) = struct.unpack(">Q", await reader.readexactly(8))
        body = await reader.readexactly(size)
        if head[0] & 15 == 1:
            return body
        if head[0] & 15 == 8:
            return None


def read_all(server: Served, load: Load, pipe: Connection) -> None:
    """The readers' process: says when all are connected, then what each has seen."""
    os.nice(10)  # elsewhere they would be on machines of their own
    asyncio.run(_read_all(server, load, pipe))


async def _read_all(server: Served, load: Load, pipe: Connection) -> None:
    gate, leave = asyncio.Semaphore(50), asyncio.Event()
    readers = [Reader(deaf=number < load.deaf) for number in range(load.readers)]
    tasks = [asyncio.create_task(each.run(server, gate, leave)) for each in readers]
    while not await _connected(server, load.readers):
        await asyncio.sleep(0.05)
    pipe.send("connected")
    wanted = await asyncio.to_thread(pipe.recv)
    listening = [each for each in readers if not each.deaf]
    until = time.monotonic() + 60
    while time.monotonic() < until and any(
        not each.positions or each.positions[-1] < wanted for each in listening
    ):
        await asyncio.sleep(0.1)
    leave.set()
    for task in tasks:
        task.cancel()
    pipe.send([each.positions for each in listening])


async def _connected(server: Served, readers: int) -> bool:
    """Whether the server has as many open connections as there are readers."""
    process = await asyncio.to_thread(psutil.Process, server.pid)
    connections = await asyncio.to_thread(process.net_connections, "tcp")
    return sum(each.status == psutil.CONN_ESTABLISHED for each in connections) >= readers


# ---- the whole -------------------------------------------------------------------------------


def memory_mb(server: Served) -> float:
    return float(psutil.Process(server.pid).memory_info().rss / 1e6)


async def log_of(server: Served, after: int) -> list[int]:
    """The positions of the log, as the log itself has them."""
    found: list[int] = []
    line, cursor = await Line.to(server), after
    while True:
        asked = request(server, "GET", f"/api/log?after={cursor}&limit=1000")
        events = json.loads((await line.send(asked))[1])
        if not events["events"]:
            await line.close()
            return found
        found += [each["position"] for each in events["events"]]
        cursor = events["cursor"]


def writing(load: Load, readers: bool) -> float:
    """Submissions per second at an offered rate, with or without the readers."""
    with directory() as place, served("gateway", place) as server:
        if not readers:
            written = asyncio.run(write(server, load))
            _say("alone", written, memory_mb(server))
            return written.per_second
        return _under_load(server, load)


def _under_load(server: Served, load: Load) -> float:
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(
        target=read_all, args=(server, load, theirs), daemon=True
    )
    process.start()
    assert ours.recv() == "connected"
    before_mb = memory_mb(server)
    written = asyncio.run(write(server, load))
    after_mb = memory_mb(server)
    log = asyncio.run(log_of(server, 0))
    ours.send(log[-1])
    seen: list[list[int]] = ours.recv()
    process.join(20)
    whole = sum(positions == log for positions in seen)
    _say(f"{load.readers} readers", written, after_mb, before_mb)
    print(
        f"    {whole} of {len(seen)} readers saw exactly the {len(log)} positions of the log; "
        f"{load.deaf} read nothing",
        flush=True,
    )
    if whole != len(seen):
        raise RuntimeError(f"{len(seen) - whole} readers saw something else than the log")
    if after_mb - before_mb > 200:
        raise RuntimeError(f"memory grew by {after_mb - before_mb:.0f} MB")
    return written.per_second


def _say(name: str, written: Written, after_mb: float, before_mb: float | None = None) -> None:
    grown = "" if before_mb is None else f" (from {before_mb:.0f})"
    print(
        f"    {name}: {written.tasks} tasks, {written.per_second:.0f}/s, "
        f"median {written.quantile_ms(0.5):.1f} ms, p99 {written.quantile_ms(0.99):.1f} ms, "
        f"server {after_mb:.0f} MB{grown}",
        flush=True,
    )


def _contestants(scale: Scale) -> tuple[Contestant, ...]:
    load = Load.at(scale)
    return (
        Contestant("with readers", partial(writing, load, True)),
        Contestant("alone", partial(writing, load, False)),
    )


BENCHMARKS = (
    Benchmark(
        "feed.load",
        f"{RATE} submissions/s with {READERS:,} open WebSockets, {DEAF} of which do not read",
        "tasks/s",
        _contestants,
        aims=(Aim(0.9, over="alone"),),
    ),
)
