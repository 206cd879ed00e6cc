"""The worker's connection to a Ray cluster: one driver process and one thread for all its runs.

Requests are kept until they are answered, and sent again by the next driver process if one dies.
While the cluster cannot be reached, the runs wait and say so; a new driver process is started after
a pause.
"""

import logging
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from itertools import count
from multiprocessing.connection import Connection
from typing import Any, Protocol

from detent.optional_package import optional_package
from detent.worker.runners.ray.messages import (
    UNKNOWN,
    Answer,
    Attach,
    Cancel,
    Down,
    Ended,
    Leave,
    News,
    Note,
    Request,
    Submit,
    Up,
)

log = logging.getLogger("detent.worker")

#: The note after one that reported an unreachable cluster.
BACK = "connected to the Ray cluster again"
OLDEST_RAY = "2.60"
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 15.0
#: How long a driver process may take to end after its connection is closed.
EXIT_S = 10.0


class RunFollower(Protocol):
    """What the connection tells the follower of a run; it is called on the connection's thread."""

    fence: int

    def news(self, news: News) -> None: ...

    def note(self, text: str) -> None:
        """What the run waits for."""

    def resolve(self, text: str) -> None:
        """The run no longer waits for what a note reported."""


class RayConnection:
    """Submits, follows and cancels tasks on one cluster. Started by the first request."""

    #: Words before the argv of the driver process; tests enter a network namespace by them.
    prefix: tuple[str, ...] = ()

    def __init__(self, address: str, orphan_s: float, keep_s: float) -> None:
        self.address = address
        self.arguments = (address, str(orphan_s), str(keep_s))
        self.followers: dict[str, RunFollower] = {}
        self.process: subprocess.Popen[bytes] | None = None
        self._numbers = count(1)
        self._waiting: dict[int, tuple[Request, Future[str]]] = {}
        self._connection: Connection | None = None
        self.is_up = False
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._wanted = threading.Event()
        self._thread: threading.Thread | None = None

    # -- called by runs ----------------------------------------------------------------------

    def request(self, make: Callable[[int], Request]) -> Future[str]:
        """Send a request; `make` gets its number. The answer comes when the cluster has it."""
        answer: Future[str] = Future()
        with self._lock:
            made = make(next(self._numbers))
            self._waiting[made.number] = (made, answer)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="detent-ray", daemon=True)
                self._thread.start()
            self._wanted.set()
            if self.is_up:
                self._send(made)
        return answer

    def follow(self, key: str, follower: RunFollower) -> None:
        self.followers[key] = follower

    def leave(self, key: str, follower: RunFollower) -> None:
        """Tell the follower nothing more; forget its requests, except those that end its work."""
        if self.followers.get(key) is follower:
            del self.followers[key]
        with self._lock:
            for number, (request, _) in list(self._waiting.items()):
                if _key(request) == key and not isinstance(request, Cancel | Leave):
                    del self._waiting[number]

    def close(self) -> None:
        """End the driver process and the thread."""
        self._closing.set()
        self._wanted.set()
        self._disconnect()
        if self._thread is not None:
            self._thread.join(timeout=EXIT_S)

    # -- its thread --------------------------------------------------------------------------

    def _run(self) -> None:
        pause_s = FIRST_PAUSE_S
        while not self._closing.is_set():
            self._wanted.wait()
            if self._closing.is_set():
                return
            began_s = time.monotonic()
            try:
                down = self._drive()
            except Exception as error:
                log.exception("internal error of the connection to Ray")
                down = Down(repr(error))
            if self._closing.is_set():
                return
            if not self.followers and not self._waiting:
                self._wanted.clear()
            self._tell(
                f"the Ray cluster at {self.address} cannot be used: {down.reason}. {down.advice}; "
                "the run continues when the cluster can be used"
            )
            pause_s = FIRST_PAUSE_S if time.monotonic() - began_s > 60 else pause_s
            self._closing.wait(pause_s)
            pause_s = min(pause_s * 2, LONGEST_PAUSE_S)

    def _tell(self, reason: str) -> None:
        log.warning("%s", reason)
        for follower in list(self.followers.values()):
            follower.note(reason)

    def _drive(self) -> Down:
        """Start a driver process and serve it until it ends; why it ended."""
        own, other = socket.socketpair()
        argv = [*self.prefix, sys.executable, "-m", "detent.worker.runners.ray.driver_process"]
        with other:
            self.process = subprocess.Popen(
                [*argv, str(other.fileno()), *self.arguments],
                pass_fds=[other.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
            )
        self._connection = Connection(own.detach())
        try:
            return self._serve(self._connection)
        finally:
            self._disconnect()
            self._end_process(self.process)

    def _serve(self, connection: Connection) -> Down:
        try:
            while True:
                message = connection.recv()
                if isinstance(message, Down):
                    return message
                self._take(message)
        except (EOFError, OSError):
            return Down("its driver process died")

    def _take(self, message: Up | Answer | News | Note) -> None:
        if isinstance(message, Up):
            self._connected()
        elif isinstance(message, Answer):
            with self._lock:
                found = self._waiting.pop(message.number, None)
            if found is not None:
                _answer(found[1], message)
        elif (follower := self.followers.get(message.key)) is not None:
            if isinstance(message, Note):
                follower.note(message.text)
            elif message.fence == follower.fence:
                follower.news(message)

    def _connected(self) -> None:
        """Send what has no answer yet, and follow again what was followed before."""
        with self._lock:
            self.is_up = True
            requests = [request for request, _ in self._waiting.values()]
            for request in requests:
                self._send(request)
        asked = {_key(request) for request in requests}
        for key, follower in list(self.followers.items()):
            follower.resolve(BACK)
            if key not in asked:
                self._attach(key, follower)

    def _attach(self, key: str, follower: RunFollower) -> None:
        answer = self.request(lambda number: Attach(number, key, follower.fence))
        answer.add_done_callback(lambda done: _attached(key, follower, done))

    def _send(self, request: Request) -> None:
        with suppress(OSError, AttributeError):  # the next driver process gets it
            self._connection.send(request)  # type: ignore[union-attr]

    def _disconnect(self) -> None:
        with self._lock:
            connection, self._connection, self.is_up = self._connection, None, False
            if connection is not None:
                # Also wakes the thread that reads from it.
                with suppress(OSError), socket.socket(fileno=os.dup(connection.fileno())) as end:
                    end.shutdown(socket.SHUT_RDWR)
                connection.close()

    def _end_process(self, process: "subprocess.Popen[bytes]") -> None:
        try:
            process.wait(EXIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _key(request: Request) -> str:
    return request.spec.key if isinstance(request, Submit) else request.key


def _answer(answer: "Future[str]", message: Answer) -> None:
    with suppress(InvalidStateError):  # the run was cancelled meanwhile
        if message.error:
            answer.set_exception(RaySubmissionError(message.error))
        else:
            answer.set_result(message.value)


def _attached(key: str, follower: RunFollower, done: "Future[str]") -> None:
    """The submission is lost if the cluster does not know it any more."""
    value: Any = None if done.exception() is not None else done.result()
    if value == UNKNOWN:
        text = "the Ray cluster does not know the task any more: its head node was restarted"
        follower.news(News(key, follower.fence, ended=Ended("lost", None, "lost", text)))
    elif value == "stale":
        follower.news(News(key, follower.fence, stale=True))


class RaySubmissionError(Exception):
    """Ray refused a request."""


def check_ray() -> None:
    """Raise Misconfigured if Ray cannot be used here, so that the worker does not start."""
    with optional_package("ray", OLDEST_RAY, "ray"):
        pass
