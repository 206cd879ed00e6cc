"""The process supervisor has imported everything and forks real processes in milliseconds.

`python -m verification.fault_injection.process_supervisor` reads one JSON request per line and
answers with one.
Every process that it forks dies with it.
"""

import ctypes
import gc
import importlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from detent import failpoints

PR_SET_PDEATHSIG = 1
#: How often a process that must end is polled.
LOOK_S = 0.005
#: How much of the log of a process that has ended is shown.
SHOWN_CHARACTERS = 4_000


@dataclass(frozen=True, slots=True)
class ProcessSpec:
    """What a process is to be: its part, its settings, its environment, its directory."""

    role: str
    name: str
    directory: Path
    settings: Mapping[str, Any]
    environment: Mapping[str, str] = field(default_factory=dict)

    def request(self) -> dict[str, Any]:
        return {
            "role": self.role,
            "name": self.name,
            "directory": str(self.directory),
            "settings": dict(self.settings),
            "environment": dict(self.environment),
        }


class Child:
    """A process that the supervisor started."""

    def __init__(self, supervisor: "ProcessSupervisor", spec: ProcessSpec, pid: int) -> None:
        self.supervisor, self.spec, self.pid = supervisor, spec, pid
        self.code: int | None = None
        #: It was asked to stop; a second time would make it exit immediately.
        self.asked = False
        #: It did not stop when it was asked to.
        self.unruly = False

    @property
    def ready(self) -> Path:
        """The file that it writes when it is up; what is in it is its URL, if it has one."""
        return self.spec.directory / f"{self.spec.name}.ready"

    @property
    def log(self) -> Path:
        return self.spec.directory / f"{self.spec.name}.log"

    @property
    def armed(self) -> bool:
        """Whether it may end by itself, at a failpoint."""
        return failpoints.VARIABLE in self.spec.environment

    def ending(self) -> str:
        """How it ended, with the end of its log."""
        log = self.log.read_text(errors="replace") if self.log.exists() else ""
        return f"{self.spec.name} ended with {self.code}, its log: {log[-SHOWN_CHARACTERS:]!r};"

    def poll(self) -> int | None:
        """How it ended, negative for a signal; None while it lives."""
        if self.code is None:
            self.code = self.supervisor.ask({"poll": self.pid})["code"]
        return self.code

    def send(self, number: signal.Signals) -> None:
        """Through the supervisor, which alone knows that the pid is still this process."""
        if self.code is None:
            self.supervisor.ask({"signal": self.pid, "number": int(number)})

    def wait(self, seconds: float) -> int:
        until_s = time.monotonic() + seconds
        while (code := self.poll()) is None:
            if time.monotonic() > until_s:
                raise TimeoutError(f"{self.spec.name} did not end within {seconds} s")
            time.sleep(LOOK_S)
        return code

    def stop(self) -> None:
        """Ask it to stop; one that was stopped goes on first."""
        if not self.asked:
            self.asked = True
            self.send(signal.SIGTERM)
            self.send(signal.SIGCONT)

    def end(self, seconds: float = 60.0) -> int:
        """Ask it to stop, and kill it if it does not end; its log says what it was at."""
        self.stop()
        try:
            return self.wait(seconds)
        except TimeoutError:
            self.unruly = True
            self.send(signal.SIGUSR1)
            time.sleep(0.5)
            self.send(signal.SIGKILL)
            return self.wait(seconds)

    def is_stopped(self) -> bool:
        if self.poll() is not None:
            return False
        try:
            stat = Path(f"/proc/{self.pid}/stat").read_text()
        except OSError:
            return False
        return stat.rpartition(")")[2].split()[0] == "T"


class ProcessSupervisor:
    """The side that asks. Safe to use from any thread."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "verification.fault_injection.process_supervisor"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._lock = threading.Lock()

    def ask(self, request: Mapping[str, Any]) -> Any:
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        with self._lock:
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
        if not line:
            raise RuntimeError("the process supervisor has died")
        return json.loads(line)

    def start(self, spec: ProcessSpec) -> Child:
        spec.directory.mkdir(parents=True, exist_ok=True)
        return Child(self, spec, self.ask({"start": spec.request()})["pid"])

    def close(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        self._process.wait()

    def __enter__(self) -> "ProcessSupervisor":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


# ---- the process that forks ------------------------------------------------------------------


#: What processes import only when they come to it; here once, and not in each of them.
LATE = (
    "anyio._backends._asyncio",
    "h11",
    "httptools",
    "httpcore2",
    "truststore",
    "uvicorn.lifespan.on",
    "uvicorn.loops.asyncio",
    "uvicorn.protocols.http.httptools_impl",
    "uvicorn.protocols.websockets.websockets_sansio_impl",
)
#: A plain installation has none of these.
OF_POSTGRES = ("detent.store.postgres", "psycopg_binary")


def main() -> None:
    from verification.fault_injection import process_roles

    for name in (*LATE, *(OF_POSTGRES if importlib.util.find_spec("psycopg") else ())):
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # the children's collectors leave alone, and so do not copy, what is here
    children: set[int] = set()
    ended: dict[int, int] = {}
    for line in sys.stdin:
        request = json.loads(line)
        answer: dict[str, Any] = {}
        if "start" in request:
            pid = os.fork()
            if pid == 0:
                _live(process_roles.play, request["start"])
            children.add(pid)
            ended.pop(pid, None)
            answer = {"pid": pid}
        elif "signal" in request:
            # One that has ended and was not asked for keeps its pid: no other process is hit.
            if request["signal"] in children:
                os.kill(request["signal"], request["number"])
        else:
            answer = {"code": _code(request["poll"], children, ended)}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
    for pid in children:
        os.kill(pid, signal.SIGKILL)


def _code(pid: int, children: set[int], ended: dict[int, int]) -> int | None:
    """How a child ended; a second request gets the same answer."""
    if pid in children:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found == 0:
            return None
        children.discard(pid)
        ended[pid] = os.waitstatus_to_exitcode(status)
    return ended[pid]


def _live(play: Any, request: Mapping[str, Any]) -> None:
    """A life of its own: no pipe to the supervisor, its own log, its own environment."""
    code = 1
    try:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        log = os.open(
            Path(request["directory"]) / f"{request['name']}.log",
            os.O_WRONLY | os.O_APPEND | os.O_CREAT,
            0o600,
        )
        null = os.open(os.devnull, os.O_RDONLY)
        for source, target in ((null, 0), (log, 1), (log, 2)):
            os.dup2(source, target)
        os.environ.update(request["environment"])
        play(request)
        code = 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    main()
