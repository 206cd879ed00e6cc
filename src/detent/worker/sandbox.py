"""A sandbox for the programs of runs: the arguments before their argv. Starts nothing itself.

With `worker.sandbox = "bwrap"` a program sees the machine read-only, its own processes only, an
empty /run and /tmp, devices of its own, and an empty directory where detent's data is. It writes
into its run's directory, its workspace, and what `worker.sandbox_writable` names. The network stays
as it is, because an agent needs it; `socket_scope` closes the abstract sockets that come with it.
"""

import shutil
import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path

from detent.errors import Misconfigured
from detent.settings import Settings

PROGRAM = "bwrap"
#: Directories that hold sockets of the machine: empty inside. One that is a link is not mounted on.
EMPTY = tuple(
    each for each in ("/tmp", "/run") if Path(each).is_dir() and not Path(each).is_symlink()
)
#: Namespaces of its own, no capability of ours, and devices that every program expects.
ALONE = (
    *("--unshare-pid", "--unshare-ipc", "--unshare-uts", "--cap-drop", "ALL"),
    *("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"),
    *(word for each in EMPTY for word in ("--tmpfs", each)),
)
#: detent's own Python and code: programs of detent itself run in the sandbox too. And what programs
#: need that is in /run on some systems: how names are looked up, and the system's own programs.
OWN = (
    *(Path(sys.prefix), Path(sys.base_prefix), Path(__file__).resolve().parents[1]),
    *(Path("/etc/resolv.conf").resolve(), Path("/run/current-system")),
)
#: What starts the program inside, after it has closed the abstract sockets of the machine.
SCOPED = (sys.executable, "-I", "-S", str(Path(__file__).with_name("socket_scope.py")), "auto")


class Sandbox(StrEnum):
    """The sandbox configuration for the programs of runs."""

    NONE = "none"
    BWRAP = "bwrap"


def check(settings: Settings) -> Sandbox:
    """The configured sandbox; raises if it is not available, so that the worker does not start."""
    try:
        wanted = Sandbox(settings.worker_sandbox)
    except ValueError:
        raise Misconfigured(
            f"worker.sandbox must be one of {', '.join(Sandbox)}, not {settings.worker_sandbox!r}.",
            setting="worker.sandbox",
        ) from None
    if wanted is Sandbox.BWRAP and shutil.which(PROGRAM) is None:
        raise Misconfigured(
            f"worker.sandbox is {wanted.value!r} and there is no program {PROGRAM!r}.",
            setting="worker.sandbox",
            hint='Install it (on Debian: apt-get install bubblewrap), or set it to "none".',
        )
    return wanted


def confined(
    argv: Sequence[str],
    settings: Settings,
    run_dir: Path,
    workspace: Path,
    also: Sequence[Path] = (),
    shown: Sequence[Path] = (),
) -> list[str]:
    """The argv that starts the program in the sandbox; it may write to `also` and read `shown`."""
    if check(settings) is Sandbox.NONE:
        return list(argv)
    writable = [*(Path(each).expanduser() for each in settings.worker_sandbox_writable), *also]
    # With its full path: the program's own PATH may not contain it.
    found = shutil.which(PROGRAM) or PROGRAM
    inside = words(settings.data_dir, run_dir, workspace, writable)
    return [found, *ALONE, *_shown((*OWN, *shown)), *inside, *SCOPED, *argv]


def words(
    data_dir: Path, run_dir: Path, workspace: Path, writable: Sequence[Path] = ()
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
