"""The command runner: starts an argv list, never a shell, and ends its whole process group.

The argv comes from the operator. A payload's field can only be a whole element of it,
`{payload.path}`. A value that begins with `-` could be read as an option: it is refused unless it
follows a literal `--`. Exit code 0 is success. The environment is an allowlist, and
`variables`.
"""

import json
import os
import select
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any

from detent import failpoints
from detent.app.handlers import PAYLOAD_FIELD, CommandHandler
from detent.errors import DetentError, Invalid
from detent.kernel import commands as c
from detent.redaction import remember_environment
from detent.worker import run_outcome
from detent.worker.active_run import ActiveRun
from detent.worker.engine_client import EngineClient
from detent.worker.run_files import EVIDENCE, WORK, Kept
from detent.worker.runners.process_group import Group, Records
from detent.worker.sandbox import confined

TAIL_BYTES = 1_000
CHUNK = 65_536
#: Chunks read in one go: more than a pipe holds, and no flood keeps a stop from being seen.
MAX_CHUNKS = 32


class CommandRunner:
    """Runs one command for each run of its intent."""

    asynchronous = False
    stoppable = True

    def __init__(self, handler: CommandHandler) -> None:
        self.argv = handler.argv
        self.environment = handler.environment
        self.directory = handler.directory

    def execute(self, run: ActiveRun, client: EngineClient) -> c.Report:
        grant, run_id = run.held.grant, run.run_id
        try:
            argv = filled(self.argv, run.payload)
            code, tail = self._follow(argv, run)
            failure = run_outcome.of_exit_code(code, tail)
            report_evidence(run, client)
            result = run.files.result() if failure is None else None
        except (DetentError, OSError, ValueError) as error:
            return run_outcome.failed(grant, run_id, run_outcome.of_exception(error))
        if failure is not None:
            return run_outcome.failed(grant, run_id, failure)
        return run_outcome.completed(grant, run_id, result, code)

    async def execute_async(self, run: ActiveRun, client: EngineClient) -> c.Report:
        return await client.run_blocking(lambda: self.execute(run, client))

    def _follow(self, argv: list[str], run: ActiveRun) -> tuple[int, str]:
        """Start the command and wait until it and all its children have ended."""
        files = run.files
        files.put("payload.json", json.dumps(run.payload))
        group = Group(run.run_id)
        records = Records(files.path.parent.parent)
        records.write(group)
        try:
            failpoints.hit("spawn.before")
            run.require_lease()
            with self._start(argv, run) as process:
                return self._wait(process, group, records, run)
        finally:
            records.remove(group)

    def _wait(
        self,
        process: "subprocess.Popen[bytes]",
        group: Group,
        records: Records,
        run: ActiveRun,
    ) -> tuple[int, str]:
        try:
            failpoints.hit("spawn.after")
            group.leads(process.pid)
            records.write(group)
            with Follower(process, group, run) as follower:
                return follower.follow(), follower.tail()
        finally:
            group.end(run.grace_s)

    def _start(self, argv: list[str], run: ActiveRun) -> "subprocess.Popen[bytes]":
        settings = run.intent.app.installation().settings
        names = settings.worker_environment if self.environment is None else self.environment
        allowed = {name: os.environ[name] for name in names if name in os.environ}
        remember_environment(allowed)
        workspace = Path(self.directory) if self.directory else run.files.directory(WORK)
        return subprocess.Popen(
            confined(argv, settings, run.files.path, workspace),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=workspace,
            env={**allowed, **variables(run, self.directory)},
            start_new_session=True,
        )


def variables(run: ActiveRun, directory: str | None) -> dict[str, str]:
    """The environment variables that describe the run to its command."""
    held, files = run.held, run.files
    found = {
        "DETENT_RUN_ID": run.run_id,
        "DETENT_JOB_ID": held.job.id,
        "DETENT_TASK_ID": held.job.task_id or "",
        "DETENT_FENCE": str(held.grant.fence),
        "DETENT_ATTEMPT": str(run.attempt),
        "DETENT_RUN_DIR": files.directory(),
        "DETENT_EVIDENCE_DIR": files.directory(EVIDENCE),
        "DETENT_PAYLOAD_FILE": files.path / "payload.json",
        "DETENT_RESULT_FILE": files.path / "result.json",
        "DETENT_PROJECT": held.job.project,
        "DETENT_PROJECT_DIR": directory or Path.cwd(),
        "DETENT_RESOURCE": run.resource or "",
    }
    return {name: str(value) for name, value in found.items()}


def report_evidence(run: ActiveRun, client: EngineClient, first: Sequence[Kept] = ()) -> None:
    """Report the given evidence, then the other files that the run has left."""
    if run.stopped is None:
        known = {kept.file for kept in first}
        others = (kept for kept in run.files.collect() if kept.file not in known)
        for kept in chain(first, others):
            run.require_lease()
            client.execute(
                c.AddEvidence(run.held.grant, run.run_id, *kept), lease_over=run.held.expired
            )


class Follower:
    """Reads a process's output as it comes, and ends the group when the run must stop."""

    def __init__(self, process: "subprocess.Popen[bytes]", group: Group, run: ActiveRun) -> None:
        self.process, self.group, self.run = process, group, run
        self.last = b""
        self.kill_at_s: float | None = None

    def __enter__(self) -> "Follower":
        pipes = filter(None, (self.process.stdout, self.process.stderr))
        self.outputs = [pipe.fileno() for pipe in pipes]
        self.exit = os.pidfd_open(self.process.pid)
        self.wake_read, self.wake_write = os.pipe()
        self.poll = select.poll()
        for descriptor in (*self.outputs, self.exit, self.wake_read):
            os.set_blocking(descriptor, False)
            self.poll.register(descriptor, select.POLLIN)
        self.run.on_stop(self._wake)
        return self

    def __exit__(self, *error: object) -> None:
        self.run.on_stop(lambda _: None)
        for descriptor in (self.exit, self.wake_read, self.wake_write):
            os.close(descriptor)

    def _wake(self, _: object) -> None:
        with suppress(OSError):
            os.write(self.wake_write, b"!")

    def follow(self) -> int:
        """Read until the process has exited, and return its exit code."""
        while True:
            ready = {descriptor for descriptor, _ in self.poll.poll(self._timeout_ms())}
            for output in self.outputs:
                if output in ready:
                    self._read(output)
            if self.wake_read in ready:
                os.read(self.wake_read, CHUNK)
                self._stop()
            self.check()
            if self.kill_at_s is not None and time.monotonic() >= self.kill_at_s:
                self.group.kill()
                self.kill_at_s = None
            if self.exit in ready:
                for output in self.outputs:
                    self._read(output)
                return self.process.wait()

    def check(self) -> None:
        """A hook that is called after each event; the agent runner checks its limits in it."""

    def _timeout_ms(self) -> int | None:
        if self.kill_at_s is None:
            return None
        return max(0, round((self.kill_at_s - time.monotonic()) * 1_000))

    def _stop(self) -> None:
        """Send SIGTERM to the group, SIGKILL after the grace. A second stop can only shorten it."""
        self.group.terminate()
        at_s = time.monotonic() + self.run.grace_s
        self.kill_at_s = at_s if self.kill_at_s is None else min(at_s, self.kill_at_s)

    def _read(self, output: int) -> None:
        """Read what is available now. A child that outlives the process may keep the pipe open."""
        for _ in range(MAX_CHUNKS):
            try:
                chunk = os.read(output, CHUNK)
            except BlockingIOError:
                return
            if not chunk:
                with suppress(KeyError):
                    self.poll.unregister(output)
                return
            self.run.record_activity()
            self.take(output, chunk)

    def take(self, output: int, chunk: bytes) -> None:  # noqa: ARG002 - the agent runner uses it
        """Write a chunk of output; `output` is the pipe that it came from."""
        self.run.files.write(chunk)
        self.last = (self.last + chunk)[-TAIL_BYTES:]

    def tail(self) -> str:
        """The last lines of the output, for the error."""
        return self.last.decode("utf-8", "replace").strip()


# ---- argv ----------------------------------------------------------------------------------


def filled(argv: Sequence[str], payload: Any) -> list[str]:
    """The argv with the payload's values in their places."""
    made: list[str] = []
    for each in argv:
        made.append(_value(each, payload, "--" in made) if PAYLOAD_FIELD.fullmatch(each) else each)
    return made


def _value(place: str, payload: Any, after_options: bool) -> str:
    path = place[1:-1]
    value = payload
    for name in path.split(".")[1:]:
        value = value.get(name) if isinstance(value, Mapping) else None
    if value is None or isinstance(value, Mapping | list):
        raise Invalid(
            f"{path} must be a text or a number, because the command needs it.",
            field=path,
            given=value,
        )
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if "\0" in text:
        raise Invalid(f"{path} must not contain a NUL character.", field=path)
    if text.startswith("-") and not after_options:
        raise Invalid(
            f"{path} begins with '-' and could be read as an option. Put '--' before it in the "
            "command.",
            field=path,
            given=text,
        )
    return text
