"""The job of the trials, and the two processes of a tool: a worker, and a client.

Standard library only, since the interpreter of each tool runs it. A script is started as
`script.py worker|client URL DIRECTORY VARIANT IDENTITY LABEL`. The identity is the name of the
worker for the tool; the label names this process in the journal, and is the result of the job.
"""

import asyncio
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

#: The lease, heartbeat time-out or visibility time-out, for every tool that has one.
LEASE_S = 5
HEARTBEAT_S = LEASE_S / 3
POLL_S = 0.05


class Order(NamedTuple):
    """What one process is to be."""

    role: str
    url: str
    directory: Path
    variant: str
    identity: str
    label: str


class TrialJob:
    """A job of two parts with a wait between them; both parts are recorded in a journal.

    The journal is the world outside the tool: a line in it is a side effect that happened. The
    job waits until the file `release-LABEL` or `release-all` exists.
    """

    def __init__(self, order: Order) -> None:
        self.label, self.directory = order.label, order.directory

    def first_part(self, key: str) -> None:
        """The part before the interruption: a durable step, if the tool has those."""
        self._record("first part", key)

    def hold(self, key: str) -> None:
        self._record("hold", key)

    @property
    def is_released(self) -> bool:
        names = (f"release-{self.label}", "release-all")
        return any((self.directory / name).exists() for name in names)

    def wait(self, beat: Callable[[], object] = lambda: None) -> None:
        """Wait to be released; `beat` is called often, for tools whose handlers send heartbeats."""
        while not self.is_released:
            time.sleep(POLL_S)
            beat()

    def effect(self, key: str) -> str:
        self._record("effect", key)
        return self.label

    def run(self, key: str) -> str:
        self.first_part(key)
        self.hold(key)
        self.wait()
        return self.effect(key)

    async def run_async(self, key: str) -> str:
        self.first_part(key)
        self.hold(key)
        while not self.is_released:
            await asyncio.sleep(POLL_S)
        return self.effect(key)

    def _record(self, what: str, key: str) -> None:
        line = json.dumps({"what": what, "key": key, "label": self.label, "at": time.time()})
        journal = os.open(self.directory / "journal", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(journal, line.encode() + b"\n")  # one write, so lines of processes do not mix
        finally:
            os.close(journal)


def state(ended: bool, text: str, result: object = None) -> dict[str, Any]:
    """What a client reports about a job: whether it ended, the tool's own words, and its result."""
    return {"ended": ended, "text": text, "result": result}


def serve(calls: dict[str, Callable[..., Any]]) -> None:
    """Answer the requests of the harness, one line of JSON each, until standard input ends."""
    for line in sys.stdin:
        name, *arguments = json.loads(line)
        try:
            answer = {"answer": calls[name](*arguments)}
        except Exception as error:  # a refusal is a result of a trial
            answer = {"refused": f"{type(error).__name__}: {error}"[:200]}
        print(json.dumps(answer), flush=True)


def serve_async(calls: dict[str, Callable[..., Any]]) -> None:
    """As `serve`, for coroutine functions."""
    with asyncio.Runner() as runner:

        def called(name: str) -> Callable[..., Any]:
            return lambda *arguments: runner.run(calls[name](*arguments))

        serve({name: called(name) for name in calls})


def main(worker: Callable[[Order], None], client: Callable[[Order], None]) -> None:
    role, url, directory, variant, identity, label = sys.argv[1:]
    order = Order(role, url, Path(directory), variant, identity, label)
    (worker if role == "worker" else client)(order)
