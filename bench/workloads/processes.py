"""Processes of their own for the benchmarks: workers with a few intents, and senders.

The benchmarks start `work` and `send`. A worker prints `ready` when it claims, and runs until its
standard input ends. It is the real worker with its real settings.
"""

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from bench import ROOT
from detent.app.app import App
from detent.app.run_context import Run
from detent.engine import Engine
from detent.ids import new_id
from detent.kernel import commands as c
from detent.operations.context import Core
from detent.service import collect_garbage_less_often, open_core
from detent.settings import Loaded, Settings
from detent.store.store_url import open_store
from detent.worker.worker import Worker

#: How long a job of each kind keeps its worker, when it does not wait for the database.
COMPUTE_S = 0.002
ASLEEP_S = 0.02


def application() -> App:
    """What the workers of the benchmarks can do."""
    app = App()

    @app.intent("nothing")
    def nothing() -> None:
        pass

    @app.intent("compute")
    def compute() -> None:
        until_s = time.thread_time() + COMPUTE_S
        while time.thread_time() < until_s:
            pass

    @app.intent("sleep")
    def sleep() -> None:
        time.sleep(ASLEEP_S)

    @app.intent("hold")
    def hold() -> None:
        time.sleep(3_600)

    @app.intent("hear")
    def hear(run: Run) -> Any:
        return run.wait_for("go")

    return app


@contextmanager
def worker(core: Core, **settings: Any) -> "Iterator[subprocess.Popen[str]]":
    """A worker process on the store of this core, once it claims."""
    own = {"store_url": core.settings.url, "store_data_dir": core.settings.store_data_dir}
    command = [
        sys.executable,
        "-m",
        "bench.workloads.processes",
        "work",
        json.dumps({**own, **settings}),
    ]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            output = process.stdout.readline()
            if output != "ready\n":
                raise RuntimeError(f"the worker printed {output!r} instead of 'ready'")
            yield process
        finally:
            process.stdin.close()
            process.wait(60)


def work(settings: Mapping[str, Any]) -> None:
    with open_core(Loaded(Settings(**settings), {}, {}, None)) as core:
        running = Worker(core, application())
        collect_garbage_less_often()
        running.start()
        print("ready", flush=True)
        sys.stdin.read()
        running.stop(grace_s=0)


def sending(url: str, intent: str, count: int, gap_s: float) -> "subprocess.Popen[bytes]":
    """A process that submits jobs one after the other, each with the time of its sending."""
    command = [
        sys.executable,
        "-m",
        "bench.workloads.processes",
        "send",
        url,
        intent,
        str(count),
        str(gap_s),
    ]
    return subprocess.Popen(command, cwd=ROOT)


def send(url: str, intent: str, count: int, gap_s: float) -> None:
    store = open_store(url)
    engine = Engine(store)
    for _ in range(count):
        time.sleep(gap_s)
        payload = {"at_ns": time.time_ns()}
        engine.do(
            c.SubmitJob(new_id(), "bench", intent, payload=payload), c.Actor("bench"), fresh=True
        )
    store.close()


if __name__ == "__main__":
    if sys.argv[1] == "work":
        work(json.loads(sys.argv[2]))
    else:
        send(sys.argv[2], sys.argv[3], int(sys.argv[4]), float(sys.argv[5]))
