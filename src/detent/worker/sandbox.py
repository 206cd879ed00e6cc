"""A sandbox for the programs of runs: the arguments before their argv. Starts nothing itself.

With `worker.sandbox = "bwrap"` a program sees the machine read-only, its own processes only, an
empty /run and /tmp, devices of its own, and an empty directory where detent's data is. It writes
into its run's directory, its workspace, and what `worker.sandbox_writable` names. Its network is
closed: it has a loopback of its own, from which `network_proxy` connects it to allowed hosts. With
`worker.sandbox_network = "open"` it has the machine's network, and `socket_scope` closes the
abstract sockets that come with it.
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any

from detent.allowed_hosts import allowed_hosts
from detent.errors import Invalid, Misconfigured
from detent.settings import Settings

PROGRAM = "bwrap"
#: What makes containers, for programs that have an image of their own.
PODMAN = "podman"
#: Directories that hold sockets of the machine: empty inside. One that is a link is not mounted on.
EMPTY = tuple(
    each for each in ("/tmp", "/run") if Path(each).is_dir() and not Path(each).is_symlink()
)
#: Settings of the kernel. Root may write to them without any capability, for example to
#: kernel.core_pattern, a program that the kernel starts outside the sandbox. bubblewrap leaves them
#: writable: it checks the access to the directories, which is refused, and not to the files.
KERNEL_SETTINGS = tuple(f"/proc/{each}" for each in ("sys", "sysrq-trigger", "irq", "bus", "fs"))
#: Namespaces of its own, no capability of ours, and devices that every program expects.
ALONE = (
    *("--unshare-pid", "--unshare-ipc", "--unshare-uts", "--cap-drop", "ALL"),
    *("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"),
    *(word for each in KERNEL_SETTINGS for word in ("--ro-bind-try", each, each)),
)
#: Files in memory, besides those of `EMPTY`.
SHARED_MEMORY = "/dev/shm"
MB = 1_048_576
#: detent's own Python and code: programs of detent itself run in the sandbox too. And what programs
#: need that is in /run on some systems: how names are looked up, and the system's own programs.
OWN = (
    *(Path(sys.prefix), Path(sys.base_prefix), Path(__file__).resolve().parents[1]),
    *(Path("/etc/resolv.conf").resolve(), Path("/run/current-system")),
)
#: Scripts that prepare the process inside and then become the program: the first closes the
#: abstract sockets of the machine, the second sets limits and connects the program to its proxy.
SCOPED = (sys.executable, "-I", "-S", str(Path(__file__).with_name("socket_scope.py")), "auto")
ENTRY = (sys.executable, "-I", "-S", str(Path(__file__).with_name("program_entry.py")))
HOSTS = "worker.sandbox_hosts"
#: How long an empty program may take to start in the sandbox.
PROBE_S = 60.0
NAMESPACES_HINT = (
    "Allow user namespaces for this user: sysctl user.max_user_namespaces must not be 0, and where "
    "they exist, kernel.unprivileged_userns_clone must be 1 and "
    "kernel.apparmor_restrict_unprivileged_userns must be 0 (or AppArmor must have a profile for "
    "bwrap). In a container, the container's runtime must allow them; in a systemd unit, "
    "RestrictAddressFamilies must contain AF_NETLINK. Otherwise run the worker as "
    'a separate user and set worker.sandbox to "none".'
)


class Sandbox(StrEnum):
    """The sandbox configuration for the programs of runs."""

    NONE = "none"
    BWRAP = "bwrap"


class Network(StrEnum):
    """The network of programs in the sandbox."""

    CLOSED = "closed"
    OPEN = "open"


def chosen(settings: Settings) -> Sandbox:
    """The configured sandbox; raises if its program is not installed."""
    wanted = Sandbox(_one_of(settings.worker_sandbox, Sandbox, "worker.sandbox"))
    if wanted is Sandbox.BWRAP and shutil.which(PROGRAM) is None:
        raise Misconfigured(
            f"worker.sandbox is {wanted.value!r} and there is no program {PROGRAM!r}.",
            setting="worker.sandbox",
            hint='Install it (on Debian: apt-get install bubblewrap), or set it to "none".',
        )
    return wanted


def network(settings: Settings) -> Network:
    """The configured network of programs in the sandbox and in containers."""
    name = "worker.sandbox_network"
    return Network(_one_of(settings.worker_sandbox_network, Network, name))


def has_closed_network(settings: Settings) -> bool:
    """Whether programs in the sandbox reach only allowed hosts; False if there is no sandbox."""
    return network(settings) is Network.CLOSED and chosen(settings) is Sandbox.BWRAP


def check(settings: Settings) -> None:
    """Start an empty program in the sandbox; raises if the worker's programs could not start."""
    closed = has_closed_network(settings)
    try:
        allowed_hosts(settings.worker_sandbox_hosts, HOSTS)
    except Invalid as error:
        raise Misconfigured(error.message, setting=HOSTS) from None
    if chosen(settings) is Sandbox.NONE:
        return
    empty = _empty(None, EMPTY)
    argv = [shutil.which(PROGRAM) or PROGRAM, *ALONE, *_network(closed), *empty, "--", "true"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=PROBE_S, check=False)
    if done.returncode != 0:
        raise Misconfigured(
            f"worker.sandbox is {Sandbox.BWRAP.value!r}, and no sandbox can be made here: "
            f"{done.stderr.strip() or f'exit code {done.returncode}'}.",
            setting="worker.sandbox",
            hint=NAMESPACES_HINT,
        )


def _one_of(given: str, allowed: type[StrEnum], name: str) -> str:
    if given not in tuple(allowed):
        raise Misconfigured(
            f"{name} must be one of {', '.join(allowed)}, not {given!r}.", setting=name
        )
    return given


def confined(
    argv: Sequence[str],
    settings: Settings,
    run_dir: Path,
    workspace: Path,
    also: Sequence[Path] = (),
    shown: Sequence[Path] = (),
    *,
    entry: Mapping[str, Any] | None = None,
    online: bool = False,
    memory_mb: int | None = None,
    caches: Sequence[Path] = (),
) -> list[str]:
    """The argv that starts the program in the sandbox; it may write to `also` and read `shown`.

    `entry` are the options of `program_entry`, which also applies outside a sandbox. With `online`
    the program has the machine's network. `memory_mb` limits what it stores in memory as files.
    `caches` can be read and not written, wherever they are.
    """
    program = [*ENTRY, json.dumps(entry), *argv] if entry else list(argv)
    if chosen(settings) is Sandbox.NONE:
        return program
    writable = [*(Path(each).expanduser() for each in settings.worker_sandbox_writable), *also]
    closed = has_closed_network(settings) and not online
    # With its full path: the program's own PATH may not contain it.
    found = shutil.which(PROGRAM) or PROGRAM
    return [
        *(found, *ALONE, *_network(closed), *_empty(memory_mb, (*EMPTY, SHARED_MEMORY))),
        *_shown((*OWN, *shown)),
        *words(settings.data_dir, run_dir, workspace, writable, caches),
        *(() if closed else SCOPED),
        *program,
    ]


def hides(path: Path, settings: Settings, visible: Sequence[Path]) -> bool:
    """Whether the sandbox hides a file of the machine, or the one that a link leads to.

    `visible` are the paths that are bound for the program, besides those of the settings.
    """
    if chosen(settings) is Sandbox.NONE:
        return False
    of_settings = (Path(each).expanduser() for each in settings.worker_sandbox_writable)
    bound = {way for each in (*OWN, *of_settings, *visible) for way in _ways(each)}
    empty = (*map(Path, EMPTY), settings.data_dir.absolute())
    return any(
        any(way.is_relative_to(each) for each in empty)
        and not any(way.is_relative_to(each) for each in bound)
        for way in _ways(path)
    )


def _ways(path: Path) -> set[Path]:
    return {path.absolute(), path.resolve()}


def _empty(memory_mb: int | None, paths: Sequence[str]) -> list[str]:
    """Empty directories in memory, each of which holds at most this much."""
    size = () if memory_mb is None else ("--size", str(memory_mb * MB))
    return [word for each in paths for word in (*size, "--tmpfs", each)]


def _network(closed: bool) -> Sequence[str]:
    """The arguments for a network namespace of its own, whose abstract sockets are its own too."""
    return ("--unshare-net",) if closed else ()


def words(
    data_dir: Path,
    run_dir: Path,
    workspace: Path,
    writable: Sequence[Path] = (),
    caches: Sequence[Path] = (),
) -> list[str]:
    """The arguments that hide detent's data, bind directories and set the working directory.

    Later arguments override earlier ones: a workspace around the data directory is bound before
    that is hidden, and the run's own directory, which is inside it, after that.
    """
    hidden = data_dir.absolute()
    inside = [run_dir.absolute()]
    outside = []
    for each in (*writable, workspace):
        path = each.absolute()
        if not path.is_relative_to(hidden):
            outside.append(path)
        elif path != hidden:
            inside.append(path)
    return [
        *_bound(outside),
        *("--tmpfs", str(hidden)),
        *_bound(inside),
        *(word for path in caches for word in ("--ro-bind-try", str(path), str(path))),
        *("--remount-ro", str(hidden)),
        *("--chdir", str(workspace.absolute()), "--"),
    ]


def _shown(paths: Sequence[Path]) -> list[str]:
    """Read-only binds for paths that the empty directories would hide, if they exist."""
    covered = [
        path for path in dict.fromkeys(paths) if any(path.is_relative_to(each) for each in EMPTY)
    ]
    return [word for path in covered for word in ("--ro-bind-try", str(path), str(path))]


def _bound(paths: Sequence[Path]) -> list[str]:
    return [word for path in dict.fromkeys(paths) for word in ("--bind", str(path), str(path))]
