"""Programs of runs: started in the sandbox or a container, with a network and limits."""

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from detent.allowed_hosts import AllowedHost, allowed_hosts
from detent.app.failures import NeedsUser
from detent.app.program_options import PLAIN, ProgramLimits, ProgramOptions
from detent.settings import Settings
from detent.worker import sandbox
from detent.worker.active_run import ActiveRun
from detent.worker.cgroup import RunCgroup, parent_of
from detent.worker.network_proxy import NetworkProxy
from detent.worker.program_priority import ProgramPriority
from detent.worker.runners.container import (
    Container,
    create_options,
    mounts_of,
    proxy_environment,
    proxy_port,
)
from detent.worker.runners.process_group import Group
from detent.worker.runners.resource_watch import Exceeded, Limit, ResourceWatch, rlimits

#: How many refused connections the error of a run names.
MAX_REFUSALS = 3
#: The exit code of a container whose program was ended by SIGKILL.
KILLED = 128 + signal.SIGKILL


@dataclass(frozen=True, slots=True)
class ProgramSpec:
    """What is started for a run, and what it may use."""

    argv: Sequence[str]
    directory: Path
    environment: Mapping[str, str]
    #: Paths besides its directory that it may write to.
    writable: Sequence[Path] = ()
    options: ProgramOptions = PLAIN
    #: Hosts that it may reach, besides those of its options and of the settings.
    hosts: Sequence[AllowedHost] = ()
    #: Whether errors are a part of the output, not an output of their own.
    joins_errors: bool = False
    #: Whether the worker writes to its standard input; otherwise that is empty.
    has_input: bool = False


@dataclass(frozen=True, slots=True)
class Program:
    """A started program."""

    process: "subprocess.Popen[bytes]"
    proxy: NetworkProxy | None
    watch: ResourceWatch
    priority: ProgramPriority
    container: Container | None = None

    def exceeded_by(self, code: int, tail: str) -> Exceeded | None:
        """The kernel's own limit that has ended it, if one has."""
        memory_mb = self.watch.limits.memory_mb
        if code == KILLED and memory_mb and self.container is not None:
            # By the kernel: podman's own report of this comes too late at times.
            return Exceeded(Limit.MEMORY, memory_mb)
        return self.watch.of_exit(code, tail)

    def kill(self, group: Group) -> None:
        """Kill all its processes."""
        if self.watch.cgroup is not None:
            self.watch.cgroup.kill()
        group.kill()

    def refusals(self) -> list[str]:
        """The first connections that its network refused, if it refused any."""
        return [] if self.proxy is None else list(self.proxy.refused.values())[:MAX_REFUSALS]

    def notices(self) -> list[str]:
        """What a person should know of its isolation, since the last call."""
        return [] if self.proxy is None else self.proxy.notices()


@contextmanager
def started(
    spec: ProgramSpec, run: ActiveRun, check: Callable[[], object] = lambda: None
) -> Iterator[Program]:
    """Start the program; at the end it is waited for, and its network is closed.

    `check` raises if the run must end: preparing a container can take long.
    """
    settings = run.intent.app.installation().settings
    limits = spec.options.limits.over(settings)
    image = spec.options.image
    if image is None:
        way = _in_sandbox(spec, run, limits)
    else:
        container = Container(image, run.run_id, run.files.path, check)
        way = _in_image(container, spec, run, limits)
    with way as program:
        yield program


@contextmanager
def _in_sandbox(spec: ProgramSpec, run: ActiveRun, limits: ProgramLimits) -> Iterator[Program]:
    """Start the program in the configured sandbox, which may be none."""
    settings = run.intent.app.installation().settings
    paths = _program_paths(spec, run.intent.name)
    visible = [run.files.path, spec.directory, *spec.writable, *_caches(spec)]
    if all(sandbox.hides(each, settings, visible) for each in paths):
        raise NeedsUser(
            f"the sandbox hides the program {paths[0]}: /tmp, /run and the data directory of "
            "detent are empty in it. Install the program elsewhere, or add its directory to "
            "worker.sandbox_writable; then retry."
        )
    sandboxed = sandbox.chosen(settings) is not sandbox.Sandbox.NONE
    entry: dict[str, Any] = {}
    if own := rlimits(limits, own_users=sandboxed):
        entry["limits"] = own
    with ExitStack() as stack:
        proxy = None
        if sandbox.has_closed_network(settings):
            proxy = stack.enter_context(_proxy(spec, run, settings))
            entry |= {"control": proxy.control.fileno(), "ports": proxy.ports}
        argv = sandbox.confined(
            spec.argv,
            settings,
            run.files.path,
            spec.directory,
            spec.writable,
            entry=entry,
            memory_mb=limits.memory_mb,
            caches=_caches(spec),
        )
        cgroup = _cgroup(run, limits)
        if cgroup is not None:
            stack.callback(cgroup.remove)
            argv = [*sandbox.ENTRY, json.dumps({"cgroup": str(cgroup.procs)}), *argv]
        process = stack.enter_context(_process(argv, spec, spec.environment, entry))
        if proxy is not None:
            proxy.control.close()  # the program has its own
        watched = _watched(run.files.path, spec.directory)
        watch = ResourceWatch(limits, process.pid, watched, cgroup)
        yield Program(process, proxy, watch, ProgramPriority(process.pid, settings.worker_nice))


def _program_paths(spec: ProgramSpec, intent: str) -> list[Path]:
    """Where the program is, in the order of the PATH.

    Fails if it or its directory is not on this worker, so that a person corrects it.
    """
    if not spec.directory.is_dir():
        raise NeedsUser(
            f"the directory {spec.directory} does not exist on this worker. Make it, or correct "
            f"the directory of intent {intent}; then retry."
        )
    program = spec.argv[0]
    path = spec.directory / program
    if os.sep not in program:
        searched = spec.environment.get("PATH", os.defpath).split(os.pathsep)
        ways = (shutil.which(program, path=place or os.curdir) for place in searched)
        found = [Path(each) for each in ways if each is not None]
    else:
        found = [path] if path.exists() else []
    if not found:
        raise NeedsUser(
            f"there is no program {program!r} on this worker. Install it, or correct the command "
            f"of intent {intent}; then retry."
        )
    if os.sep in program and (path.is_dir() or not os.access(path, os.X_OK)):
        raise NeedsUser(
            f"{program!r} is not an executable file. Make it executable (chmod +x), or start it by "
            f'its interpreter, for example ["sh", "{program}"]; then retry.'
        )
    return found


def _cgroup(run: ActiveRun, limits: ProgramLimits) -> RunCgroup | None:
    """The cgroup of the run, if cgroups are configured."""
    parent = parent_of(run.intent.app.installation().settings)
    if parent is None:
        return None
    made = RunCgroup(parent, run.run_id)
    made.create(limits)
    return made


@contextmanager
def _in_image(
    container: Container, spec: ProgramSpec, run: ActiveRun, limits: ProgramLimits
) -> Iterator[Program]:
    """Start the program in a container, which is removed at the end."""
    settings, run_dir = run.intent.app.installation().settings, run.files.path
    closed = sandbox.network(settings) is sandbox.Network.CLOSED
    with ExitStack() as stack:
        proxy = stack.enter_context(_proxy(spec, run, settings)) if closed else None
        port = 0 if proxy is None else proxy_port(proxy.ports)
        environment = {**spec.environment, **(proxy_environment(port) if closed else {})}
        mounts = mounts_of([run_dir, spec.directory, *spec.writable], _caches(spec))
        options = [*create_options(limits, closed=closed), *settings.worker_container_args]
        stack.callback(container.remove)
        container.create(spec.argv, spec.directory, environment, mounts, options)
        if proxy is not None:
            container.open_network(proxy, port)
            proxy.control.close()
        process = stack.enter_context(_process(container.start_argv(), spec, os.environ, {}))
        watched = _watched(run_dir, spec.directory)
        watch = ResourceWatch(limits, container.pid, watched)
        # Its processes are not those of the worker, but of podman.
        yield Program(process, proxy, watch, ProgramPriority(process.pid, 0), container)


def _caches(spec: ProgramSpec) -> list[Path]:
    return [Path(each).expanduser() for each in spec.options.caches]


def _watched(run_dir: Path, directory: Path) -> list[Path]:
    """The directories whose size is limited: the run's, and a workspace that detent has made."""
    data_dir, inside = run_dir.parent.parent, directory.is_relative_to(run_dir)
    made = directory.is_relative_to(data_dir) and not inside
    return [run_dir, directory] if made else [run_dir]


def _process(
    argv: Sequence[str],
    spec: ProgramSpec,
    environment: Mapping[str, str],
    entry: Mapping[str, Any],
) -> "subprocess.Popen[bytes]":
    """Start it in its own session and process group, without our descriptors."""
    return subprocess.Popen(
        argv,
        stdin=subprocess.PIPE if spec.has_input else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if spec.joins_errors else subprocess.PIPE,
        cwd=spec.directory,
        env=dict(environment),
        start_new_session=True,
        pass_fds=[entry["control"]] if "control" in entry else [],
    )


def _proxy(spec: ProgramSpec, run: ActiveRun, settings: Settings) -> NetworkProxy:
    """The proxy of a closed network."""
    of_settings = allowed_hosts(settings.worker_sandbox_hosts, sandbox.HOSTS)
    of_intent = allowed_hosts(spec.options.hosts, "hosts")
    remedy = f"To allow it, add it to hosts of intent {run.intent.name}, or to {sandbox.HOSTS}."
    return NetworkProxy([*spec.hosts, *of_intent, *of_settings], remedy)
