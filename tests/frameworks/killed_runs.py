"""Kills a process at every passing of a failpoint, and lets another process finish the job.

`python -m tests.frameworks.killed_runs SCENE INTENT DIRECTORY POINT...` prints one JSON line for
each kill. The libraries are imported once, and each process is a fork of this one, with one thread
and its own connection to a SQLite file.
A scene is a module with `app`, `PAYLOAD`, `ANSWER`, and `calls_file`, which its calls append to.
"""

import importlib
import json
import os
import shutil
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from detent import failpoints
from detent.app.handle import Handle
from detent.kernel import commands as c
from detent.store.store_url import open_store
from detent.testing.audit import audit
from detent.testing.harness import Harness

MAX_KILLS = 100


def finish(harness: Harness, scene: ModuleType, handle: Handle[Any]) -> Any:
    """Work on the job until it has ended, and answer its questions."""
    job = handle.job()
    if job.state == "running":  # as when the lease of the killed process has expired
        harness.engine.do(c.ReclaimJob(job.id, job.fence), c.Actor("clock"))
    harness.drain()
    while handle.state() == "parked":
        handle.answer(scene.ANSWER)
        harness.drain()
    return handle.result(timeout=0)


def forked(work: Callable[[], None]) -> int:
    """Do the work in a fork of this process and return its exit status."""
    child = os.fork()
    if child == 0:
        try:
            work()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


class Case:
    """One job, one process that is killed, and one that finishes the job."""

    def __init__(self, scene: ModuleType, intent: str, directory: Path) -> None:
        self.scene, self.intent, self.directory = scene, intent, directory
        self.job_file, self.result_file = directory / "job", directory / "result"
        self.calls_file = directory / "calls"
        vars(scene)["calls_file"] = self.calls_file

    @contextmanager
    def harness(self) -> Iterator[Harness]:
        store = open_store(f"sqlite:///{self.directory}/detent.db")
        try:
            yield Harness(self.scene.app, store)
            audit(store)
        finally:
            store.close()

    def victim(self, point: str, number: int) -> None:
        with self.harness() as harness:
            handle = harness.submit(self.intent, self.scene.PAYLOAD)
            self.job_file.write_text(json.dumps([handle.job_id, handle.task_id]))
            armed = {failpoints.VARIABLE: f"{point}:kill:{number}", failpoints.TESTING: "1"}
            failpoints.arm(armed)
            finish(harness, self.scene, handle)

    def other(self) -> None:
        with self.harness() as harness:
            job_id, task_id = json.loads(self.job_file.read_text())
            handle: Handle[Any] = Handle(harness.engine, job_id, task_id, Any, c.Actor("test"))
            self.result_file.write_text(json.dumps(finish(harness, self.scene, handle)))

    def outcome(self) -> dict[str, Any]:
        calls = self.calls_file.read_text().splitlines()
        return {"result": json.loads(self.result_file.read_text()), "calls": calls}


def prepare(case: Case) -> None:
    """Finish a job in memory, so that everything is imported; make a database to copy."""
    case.directory.mkdir(parents=True)
    harness = Harness(case.scene.app)
    finish(harness, case.scene, harness.submit(case.intent, case.scene.PAYLOAD))
    forked(lambda: open_store(f"sqlite:///{case.directory}/detent.db").close())


def main(name: str, intent: str, directory: Path, points: list[str]) -> None:
    scene = importlib.import_module(name)
    template = directory / "template"
    prepare(Case(scene, intent, template))
    for point in points:
        for number in range(1, MAX_KILLS):
            case = Case(scene, intent, directory / f"{point}-{number}")
            shutil.copytree(template, case.directory, ignore=shutil.ignore_patterns("calls*"))
            status = forked(lambda: case.victim(point, number))  # noqa: B023 - called in the loop
            if status == 0:  # it was not passed that often
                break
            if status != -signal.SIGKILL or forked(case.other):
                sys.exit(f"{point} {number}: the process was not killed, or the job not finished")
            line = json.dumps({"point": point, "number": number, **case.outcome()})
            sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4:])
