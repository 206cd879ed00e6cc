"""Follows the program of a run: reads its output, enforces its limits, ends its process group.

`follow` also runs the commands that prepare the workspace and clean it up.
"""

import os
import select
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import TypeVar

from detent import failpoints
from detent.app.failures import Failure
from detent.errors import DetentError
from detent.worker import run_outcome
from detent.worker.active_run import ActiveRun
from detent.worker.program_priority import REPEAT_S
from detent.worker.runners.process_group import Group, Records
from detent.worker.runners.program import Program, ProgramSpec, started
from detent.worker.runners.resource_watch import Exceeded

TAIL_BYTES = 1_000
CHUNK = 65_536
#: Chunks read in one go: more than a pipe holds, and no flood keeps a stop from being seen.
MAX_CHUNKS = 32
#: How long one clean-up command may take.
CLEANUP_S = 30.0


class Follower:
    """Reads a process's output as it comes, and ends the group when the run must stop."""

    def __init__(self, program: Program, group: Group, run: ActiveRun) -> None:
        self.program, self.process = program, program.process
        self.group, self.run = group, run
        self.last = b""
        #: Held while the pipe that wakes the follower is written or closed.
        self._waking = threading.Lock()
        self._is_open = False
        self.kill_at_s: float | None = None
        self.exceeded: Exceeded | None = None

    def __enter__(self) -> "Follower":
        pipes = filter(None, (self.process.stdout, self.process.stderr))
        self.outputs = [pipe.fileno() for pipe in pipes]
        self.exit = os.pidfd_open(self.process.pid)
        self.wake_read, self.wake_write = os.pipe()
        self._is_open = True
        self.poll = select.poll()
        for descriptor in (*self.outputs, self.exit, self.wake_read):
            os.set_blocking(descriptor, False)
            self.poll.register(descriptor, select.POLLIN)
        self.run.on_stop(self._wake)
        return self

    def __exit__(self, *error: object) -> None:
        self.run.on_stop(lambda _: None)
        with self._waking:
            self._is_open = False
            for descriptor in (self.exit, self.wake_read, self.wake_write):
                os.close(descriptor)

    def _wake(self, _: object) -> None:
        """Wake `follow`. A stop may come late: the descriptor can belong to another file then."""
        with self._waking, suppress(OSError):
            if self._is_open:
                os.write(self.wake_write, b"!")

    def follow(self) -> int:
        """Read until the process has exited, and return its exit code."""
        while True:
            self.program.priority.lower()
            ready = {descriptor for descriptor, _ in self.poll.poll(self._timeout_ms())}
            for output in self.outputs:
                if output in ready:
                    self._read(output)
            if self.wake_read in ready:
                os.read(self.wake_read, CHUNK)
                self._stop()
            self.check()
            if self.kill_at_s is not None and time.monotonic() >= self.kill_at_s:
                self.program.kill(self.group)
                self.kill_at_s = None
            if self.exit in ready:
                for output in self.outputs:
                    self._read(output)
                self._write_notices()
                return self.process.wait()

    def finish(self) -> None:
        """A hook that is called when the process has exited."""

    def check(self) -> None:
        """Kill the group if it exceeds a limit. Called after each event."""
        if self.run.stopped is None and self.exceeded is None:
            self.exceeded = self.program.watch.measure()
            if self.exceeded is not None:
                self.program.kill(self.group)

    def exceeded_by(self, code: int) -> Exceeded | None:
        """The limit that has ended the program: one that was measured, or the kernel's own."""
        if self.run.stopped is not None:
            return None
        return self.exceeded or self.program.exceeded_by(code, self.tail())

    def _timeout_ms(self) -> int | None:
        until_kill_s = None if self.kill_at_s is None else self.kill_at_s - time.monotonic()
        until_lower_s = None if self.program.priority.is_set else REPEAT_S
        all_s = (until_kill_s, until_lower_s, self.program.watch.wait_s)
        waits_s = [each for each in all_s if each is not None]
        return max(0, round(min(waits_s) * 1_000)) if waits_s else None

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
        self._write(chunk)
        if chunk.endswith(b"\n"):
            self._write_notices()

    def _write(self, chunk: bytes) -> None:
        self.run.files.write(chunk)
        self.last = (self.last + chunk)[-TAIL_BYTES:]

    def _write_notices(self) -> None:
        """Write what happened to the program, as lines between those of its own."""
        for notice in self.program.notices():
            between = b"" if self.last.endswith(b"\n") or not self.last else b"\n"
            self._write(between + f"[{notice}]\n".encode())

    def tail(self) -> str:
        """The last lines of the output, for the error."""
        return self.last.decode("utf-8", "replace").strip()


class CleanupFollower(Follower):
    """Follows a clean-up command: it runs also if the run must stop, for a limited time."""

    def __init__(self, program: Program, group: Group, run: ActiveRun) -> None:
        super().__init__(program, group, run)
        self.kill_at_s = time.monotonic() + CLEANUP_S

    def _stop(self) -> None:
        """The stop of the run has ended its program; the clean-up comes after it."""


F = TypeVar("F", bound=Follower)
MakeFollower = Callable[[Program, Group, ActiveRun], F]


def follow(spec: ProgramSpec, run: ActiveRun, follower: MakeFollower[F]) -> tuple[int, F]:
    """Set up, run the program until it and all its children have ended, and clean up."""
    try:
        for argv in spec.options.setup:
            _set_up(replace(spec, argv=argv, has_input=False), run)
        return _followed(spec, run, follower)
    finally:
        for argv in spec.options.cleanup:
            if not run.held.expired():
                _clean_up(replace(spec, argv=argv, has_input=False), run)


def _set_up(spec: ProgramSpec, run: ActiveRun) -> None:
    """Run a command that prepares the workspace; if it fails, the run fails."""
    code, followed = _followed(spec, run, Follower)
    if followed.exceeded is not None:
        failed = followed.exceeded.failed(run.intent.name, code, followed.tail())
        raise Failure(failed.error, error_class=failed.error_class)
    failure = run_outcome.of_exit_code(code, followed.tail())
    if failure is not None:
        text = f"the set-up of the workspace failed, {spec.argv[0]}: {failure.error}"
        raise Failure(text[: run_outcome.LONGEST_ERROR])


def _clean_up(spec: ProgramSpec, run: ActiveRun) -> None:
    """Run a clean-up command; the output says if it fails, and the run ends as it would."""
    try:
        code, _ = _followed(spec, run, CleanupFollower, also_stopped=True)
        failure = run_outcome.of_exit_code(code)
    except (OSError, Failure, DetentError) as error:
        failure = run_outcome.of_exception(error)
    if failure is not None:
        run.files.write(f"[the clean-up failed, {spec.argv[0]}: {failure.error}]\n")


def _followed(
    spec: ProgramSpec, run: ActiveRun, follower: MakeFollower[F], *, also_stopped: bool = False
) -> tuple[int, F]:
    """Start the process, and return when it and its child processes have ended."""
    group = Group(run.run_id)
    records = Records(run.files.path.parent.parent)
    records.write(group)
    try:
        failpoints.hit("spawn.before")
        check: Callable[[], object] = (lambda: None) if also_stopped else run.require_lease
        check()
        with started(spec, run, check) as program:
            try:
                failpoints.hit("spawn.after")
                group.leads(program.process.pid)
                records.write(group)
                following = follower(program, group, run)
                with following:
                    code = following.follow()
                    following.exceeded = following.exceeded_by(code)
                    following.finish()
                    return code, following
            finally:
                group.end(run.grace_s)
    finally:
        records.remove(group)
