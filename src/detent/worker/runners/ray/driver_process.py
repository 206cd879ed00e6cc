"""The driver process: a child of the worker that is connected to the cluster. Imports Ray.

Ray ends the process of a driver when it loses the cluster for long; so the driver has a process of
its own, and the worker starts a new one. It ends when the worker closes the connection or dies.

Usage: python -m detent.worker.runners.ray.driver_process DESCRIPTOR ADDRESS ORPHAN_S KEEP_S
"""

import asyncio
import logging
import os
import secrets
import socket
import sys
import threading
import time
from multiprocessing.connection import Connection
from typing import Any

from detent.worker.runners.ray.messages import (
    Answer,
    Attach,
    Down,
    Leave,
    News,
    Note,
    Request,
    Submit,
    Up,
)
from detent.worker.runners.ray.node_resources import why_pending

#: How long a call of the actor waits for news.
POLL_S = 5.0
CONNECT_S = 5.0
#: How long the actor may take to start, which is a process on the head node.
ACTOR_S = 180.0
#: How often tasks that have not started are compared with the nodes.
PENDING_S = 2.0
SAME_VERSIONS = "Install the same versions of Ray and Python on the nodes and where the worker runs"


class Driver:
    """Passes requests of the worker to the actor, and news of the actor to the worker."""

    def __init__(self, connection: Connection, actor: Any) -> None:
        self.connection, self.actor = connection, actor
        self.name = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
        self.pending: dict[str, tuple[Submit, float]] = {}
        self.noted: dict[str, str] = {}
        self._answers: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Work until the connection to the worker or to the cluster ends."""
        loop = asyncio.get_running_loop()
        over = loop.create_future()
        reader = threading.Thread(target=self._read, args=(loop, over), daemon=True)
        reader.start()
        works = [asyncio.ensure_future(self._poll()), asyncio.ensure_future(self._explain())]
        await asyncio.wait([over, *works], return_when=asyncio.FIRST_COMPLETED)
        for work in works:
            if work.done():
                work.result()  # raises what has ended it

    def _read(self, loop: asyncio.AbstractEventLoop, over: "asyncio.Future[None]") -> None:
        try:
            while True:
                request = self.connection.recv()
                loop.call_soon_threadsafe(self._begin, request)
        except (EOFError, OSError):
            loop.call_soon_threadsafe(over.set_result, None)

    def _begin(self, request: Request) -> None:
        task = asyncio.ensure_future(self._answer(request))
        self._answers.add(task)
        task.add_done_callback(self._answers.discard)

    async def _answer(self, request: Request) -> None:
        try:
            value, error = await self._call(request), ""
        except Exception as raised:
            value, error = "", f"{type(raised).__name__}: {raised}"
        self.connection.send(Answer(request.number, value, error))

    async def _call(self, request: Request) -> str:
        actor = self.actor
        if isinstance(request, Submit):
            self.pending[request.spec.key] = (request, time.monotonic())
            return str(await actor.submit.remote(self.name, request.spec, request.options))
        if isinstance(request, Attach):
            return str(await actor.attach.remote(self.name, request.key, request.fence))
        self.pending.pop(request.key, None)
        if isinstance(request, Leave):
            return str(await actor.leave.remote(request.key, request.fence))
        return str(await actor.cancel.remote(request.key, request.fence))

    async def _poll(self) -> None:
        while True:
            for news in await self.actor.poll.remote(self.name, POLL_S):
                self.connection.send(await _with_evidence(news))
                if news.started or news.ended is not None or news.stale:
                    self.pending.pop(news.key, None)
                    self.noted.pop(news.key, None)

    async def _explain(self) -> None:
        """Say why tasks have not started."""
        while True:
            await asyncio.sleep(PENDING_S)
            before_s = time.monotonic() - PENDING_S
            waiting = [each for each, at_s in self.pending.values() if at_s < before_s]
            if waiting:
                found = await asyncio.to_thread(why_pending, waiting)
                for key, text in found.items():
                    if self.noted.get(key) != text:
                        self.noted[key] = text
                        self.connection.send(Note(key, text))


async def _with_evidence(news: News) -> News:
    """The news with the evidence itself. If it was lost with its node, so is the end."""
    if news.evidence is None or news.ended is None:
        return news
    try:
        return news._replace(evidence=await news.evidence)
    except Exception as error:
        lost = news.ended._replace(how="lost", error=f"Ray lost the evidence of the task: {error}")
        return news._replace(evidence=None, ended=lost)


def connected(address: str, orphan_s: float, keep_s: float) -> tuple[Any, str]:
    """Connect to the cluster; the handle of its actor, and the version of Ray there."""
    host, _, port = address.rpartition(":")
    if host and port.isdigit():  # Ray itself would try for minutes
        socket.create_connection((host, int(port)), CONNECT_S).close()
    import ray

    from detent.worker.runners.ray import cluster_actor

    ray.init(
        address=address,
        namespace=cluster_actor.NAMESPACE,
        log_to_driver=False,
        logging_level=logging.ERROR,
    )
    actor = cluster_actor.submissions(orphan_s, keep_s)
    return actor, ray.get(actor.check.remote(), timeout=ACTOR_S)


def down(error: BaseException) -> Down:
    """Why the cluster cannot be used, and what to do."""
    reason = " ".join(f"{type(error).__name__}: {error}".split())
    if "Version mismatch" in reason:  # Ray has no class of its own for it
        return Down(reason, SAME_VERSIONS)
    return Down(reason)


def main() -> None:
    descriptor, address, orphan_s, keep_s = sys.argv[1:]
    connection = Connection(int(descriptor))
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        actor, version = connected(address, float(orphan_s), float(keep_s))
        connection.send(Up(version))
        asyncio.run(Driver(connection, actor).run())
    except BaseException as error:
        connection.send(down(error))
    # Ray's own threads can delay an ordinary exit of the interpreter.
    os._exit(0)


if __name__ == "__main__":
    main()
