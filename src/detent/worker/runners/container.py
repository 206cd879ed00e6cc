"""Containers of runs: a program in an image of its own, made and removed with podman.

The container has no network but its own loopback. It is created, its namespaces are set up
(`podman init`), the listeners of the network proxy are opened in them, and then it is started. Its
labels say which worker it belongs to: containers of a worker that is gone are removed.
"""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from detent.app.failures import Failure
from detent.app.program_options import ProgramLimits
from detent.errors import Misconfigured
from detent.kernel.retry import FailureClass
from detent.settings import Settings
from detent.worker import sandbox
from detent.worker.network_proxy import NetworkProxy
from detent.worker.program_entry import proxy_variables
from detent.worker.runners.process_group import MARK, start_ticks
from detent.worker.sandbox import PODMAN

#: How long one command of podman may take; images are not pulled by it.
PODMAN_S = 120.0
RUN, DATA, WORKER = "detent.run", "detent.data_dir", "detent.worker"
#: The first port that the proxy may have on the container's loopback.
PROXY_PORT = 3_128
#: Variables of the machine that mean nothing in an image.
OF_MACHINE = ("HOME", "PATH", "TMPDIR")
UNKNOWN_IMAGE = "image not known"


class Container:
    """The container of one run."""

    def __init__(
        self, image: str, run_id: str, run_dir: Path, check: Callable[[], object] = lambda: None
    ) -> None:
        self.image, self.run_id, self.run_dir = image, run_id, run_dir
        #: Called before each command that prepares it: raises if the run must end.
        self._check = check
        self.name = f"detent-{re.sub(r'[^A-Za-z0-9_.-]', '-', run_id)}"
        #: Its first process, known when it is created.
        self.pid = 0

    def start_argv(self) -> list[str]:
        """The argv that starts the container and passes on its output, signals and exit code."""
        self._check()
        return [_podman(), "start", "--attach", self.name]

    def create(
        self,
        argv: Sequence[str],
        directory: Path,
        environment: Mapping[str, str],
        mounts: Sequence[str],
        options: Sequence[str],
    ) -> None:
        """Create it with its namespaces and mounts; the program does not run yet."""
        self._check()
        self.remove()  # left by an earlier program of the run
        inside = {name: text for name, text in environment.items() if name not in OF_MACHINE}
        # By name, so that no value is on a command line. The mark of the run's processes is no
        # secret, and podman's own processes must not have it: they clean up after the container.
        named = [f"--env={name}" for name in inside if name != MARK]
        own = {DATA: self.run_dir.parent.parent, RUN: self.run_id, WORKER: _worker_label()}
        self._check()
        _run(
            [
                *("create", f"--name={self.name}", "--pull=never"),
                *("--cap-drop=all", "--security-opt=no-new-privileges"),
                *(f"--label={name}={value}" for name, value in own.items()),
                *(f"--workdir={directory}", *(f"--volume={each}" for each in mounts)),
                *(f"--env={MARK}={self.run_id}", *named, *options, self.image, *argv),
            ],
            {name: text for name, text in inside.items() if name != MARK},
        )
        self._check()
        # Its monitor writes the file `oom` to its working directory if the memory is exhausted.
        _run(["init", self.name], directory=self.run_dir)
        self._check()
        self.pid = int(_run(["inspect", "--format={{.State.Pid}}", self.name]))

    def open_network(self, proxy: NetworkProxy, port: int) -> None:
        """Make the listeners of the proxy on the loopback of the container."""
        self._check()
        control = proxy.control.fileno()
        entry = {"join": self.pid, "control": control, "port": port, "ports": proxy.ports}
        done = subprocess.run(
            [*sandbox.ENTRY, json.dumps(entry), "true"],
            pass_fds=[control],
            capture_output=True,
            text=True,
            timeout=PODMAN_S,
            check=False,
        )
        if done.returncode != 0:
            raise Failure(f"the network of the container cannot be opened: {done.stderr.strip()}")

    def remove(self) -> None:
        """Kill what is left of it, and remove it."""
        _run(["rm", "--force", "--time=0", "--ignore", self.name])


def create_options(limits: ProgramLimits, *, closed: bool) -> list[str]:
    """The arguments of `podman create` for the limits and the network."""
    made = ["--network=none" if closed else "--network=host", "--tmpfs=/tmp"]
    if limits.memory_mb:
        made += [f"--memory={limits.memory_mb}m", f"--memory-swap={limits.memory_mb}m"]
    if limits.processes:
        # The worker measures the limit itself; this one ends programs that fork faster.
        made.append(f"--pids-limit={limits.processes * 2}")
    if limits.disk_mb:
        made.append(f"--ulimit=fsize={limits.disk_mb << 20}:{limits.disk_mb << 20}")
    return made


def mounts_of(writable: Sequence[Path], caches: Sequence[Path]) -> list[str]:
    """Directories that the container shares with the machine, under the same paths."""
    shared = [f"{path}:{path}" for path in dict.fromkeys(writable)]
    return shared + [f"{path}:{path}:ro" for path in dict.fromkeys(caches) if path.exists()]


def proxy_environment(port: int) -> dict[str, str]:
    return proxy_variables(f"http://127.0.0.1:{port}")


def proxy_port(ports: Sequence[int]) -> int:
    """A port of the container's own loopback that is not forwarded."""
    return next(port for port in range(PROXY_PORT, 65_536) if port not in ports)


# ---- workers -----------------------------------------------------------------------------------


def check(settings: Settings) -> None:
    """Raise if containers cannot be made here, so that the worker does not start."""
    if shutil.which(PODMAN) is None:
        raise Misconfigured(
            f"an intent has an image, and there is no program {PODMAN!r}.",
            setting="intents",
            hint="Install it (on Debian: apt-get install podman), or remove the image.",
        )
    sandbox.network(settings)


def remove_orphans(data_dir: Path) -> list[str]:
    """Remove the containers of workers that are gone; the runs they belonged to."""
    removed = []
    for row in json.loads(
        _run(["ps", "--all", f"--filter=label={DATA}={data_dir}", "--format=json"])
    ):
        labels = row.get("Labels") or {}
        pid, _, began = str(labels.get(WORKER, "")).partition(":")
        if pid.isdigit() and str(start_ticks(int(pid))) != began:
            _run(["rm", "--force", "--time=0", "--ignore", row["Id"]])
            removed.append(str(labels.get(RUN)))
    return removed


def _worker_label() -> str:
    return f"{os.getpid()}:{start_ticks(os.getpid())}"


def _podman() -> str:
    return shutil.which(PODMAN) or PODMAN


def _run(
    arguments: Sequence[str],
    environment: Mapping[str, str] | None = None,
    directory: Path | None = None,
) -> str:
    """The output of a podman command; a Failure says what podman reports."""
    done = subprocess.run(
        [_podman(), *arguments],
        cwd=directory,
        env={**os.environ, **(environment or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PODMAN_S,
        check=False,
    )
    if done.returncode == 0:
        return done.stdout.strip()
    error = done.stderr.strip()[-1_000:]
    if UNKNOWN_IMAGE in error:
        raise Failure(
            f"{error}. Images are not pulled by runs: pull or build it on this worker, then retry.",
            error_class=FailureClass.NEEDS_USER,
        )
    raise Failure(f"podman {arguments[0]} failed: {error}")
