"""Intents that the tests execute on a Ray cluster. The nodes import this module."""

import fcntl
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

from detent import App, RayRun

app = App()
ONE = {"num_cpus": 1}


@app.intent("double", ray=ONE)
def double(n: int) -> int:
    """Return twice the number."""
    sys.stdout.write(f"doubling {n}\n")
    return 2 * n


@app.intent("describe", ray=ONE)
def describe(run: RayRun, note: str) -> dict[str, Any]:
    """Return what the run knows, and leave evidence."""
    os.system("echo from a child process")
    run.evidence("note.txt", note)
    run.evidence("numbers.json", [1, 2])
    return {"run": run.id, "job": run.job_id, "fence": run.fence, "attempt": run.attempt}


@app.intent("fail", ray=ONE, retry={"retries": 0})
def fail(how: str) -> Any:
    """Fail in one of several ways."""
    if how == "exit":
        raise SystemExit(3)
    if how == "unpicklable":
        return threading.Lock()
    if how == "unpicklable-error":
        error = ValueError("a lock")
        error.lock = threading.Lock()  # type: ignore[attr-defined]
        raise error
    raise ValueError("wrong on purpose")


@app.intent("crash", ray=ONE, retry={"classes": {"lost": {"retries": 1}}})
def crash(directory: str) -> None:
    """End the process, and leave a file for each call."""
    (Path(directory) / f"called-{os.getpid()}-{time.monotonic_ns()}").touch()
    os._exit(1)


@app.intent("flood", ray=ONE)
def flood(megabytes: int) -> int:
    """Print a lot."""
    line = "x" * 1_023
    for _ in range(megabytes * 1_024):
        os.write(1, line.encode() + b"\n")
    return megabytes


@app.intent("wait", ray=ONE, retry={"classes": {"lost": {"retries": 20}}})
def wait(run: RayRun, directory: str, name: str) -> str:
    """Leave a file, print a line, and wait until a file named `go` exists.

    The file is locked as long as the process lives.
    """
    place = Path(directory)
    with (place / f"{name}-{run.fence}-{os.getpid()}").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        return _waited(place, name, run)


def _waited(place: Path, name: str, run: RayRun) -> str:
    sys.stdout.write(f"{name} waits\n")
    while not (place / "go").exists():
        time.sleep(0.05)
    return f"{name} after fence {run.fence}"


@app.intent("fill_memory", ray={"resources": {"little_memory": 1}}, retry={"retries": 0})
def fill_memory() -> None:
    """Wait on a node on which Ray ends every process."""
    time.sleep(600)


@app.intent("gpu", ray={"num_gpus": 1, "resources": {"phone": 1}})
def gpu() -> str:
    """Need what no node has."""
    return "ran"


@app.intent("labelled", ray={"num_cpus": 1, "label_selector": {"zone": "eu"}})
def labelled() -> str:
    """Need a node with a label."""
    import ray

    return str(ray.get_runtime_context().get_node_labels().get("zone"))
