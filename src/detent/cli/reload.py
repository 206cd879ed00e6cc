"""`detent worker --reload`: restart the worker when a source file of the app has changed.

Checks the modification times of the files of loaded modules, except installed packages.
"""

import os
import sys
import sysconfig
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from detent.cli import output

#: Minimum interval between two checks of the files.
CHECK_EVERY_S = 0.5
#: Maximum number of files to watch if the app could not be imported.
MAX_FILES = 5_000

ModifiedTimes = Mapping[Path, int]


def own_sources() -> set[Path]:
    """The files of loaded modules, except installed packages and Python's own modules."""
    installed = [Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib", "purelib")]
    ours = Path(__file__).resolve().parent.parent
    found = {_source(module) for module in list(sys.modules.values())}
    return {
        path
        for path in found
        if path is not None and not any(path.is_relative_to(each) for each in (*installed, ours))
    }


def _source(module: object) -> Path | None:
    file = getattr(module, "__file__", None)
    return Path(file).resolve() if isinstance(file, str) and file.endswith(".py") else None


def sources_in(directory: Path) -> set[Path]:
    """Every source file below a directory, for an app that could not be imported."""
    found: set[Path] = set()
    for folder, folders, names in os.walk(directory):
        folders[:] = [name for name in folders if not name.startswith((".", "__"))]
        found.update(Path(folder, name) for name in names if name.endswith(".py"))
        if len(found) > MAX_FILES:
            break
    return found


def modified_times(paths: Iterable[Path]) -> dict[Path, int]:
    """The modification time of each file; files that do not exist are left out."""
    found = {}
    for path in paths:
        try:
            found[path] = path.stat().st_mtime_ns
        except OSError:
            continue
    return found


class SourceWatch:
    """Watches the source files of the app; create it before the app is imported."""

    def __init__(self) -> None:
        self.began_ns = time.time_ns()
        self._times: dict[Path, int] = {}
        self._checked_s = 0.0

    def changed(self) -> bool:
        """Whether a file has changed and can be compiled; checks at most every CHECK_EVERY_S."""
        if time.monotonic() - self._checked_s < CHECK_EVERY_S:
            return False
        self._checked_s = time.monotonic()
        now = modified_times(own_sources())
        changed = changed_files(self._times, now, self.began_ns)
        self._times |= now
        return any(_compiles(path) for path in changed)


def changed_files(before: ModifiedTimes, now: ModifiedTimes, began_ns: int) -> list[Path]:
    """The files that have changed; a file that was not known, if it is newer than `began_ns`.

    It may have been written between its import and the first check.
    """
    return [path for path, at in now.items() if before.get(path, min(at, began_ns)) != at]


def _compiles(path: Path) -> bool:
    """Whether a changed file can be compiled; if not, the worker continues with the old code."""
    try:
        compile(path.read_bytes(), str(path), "exec")
    except (SyntaxError, ValueError, OSError) as error:
        output.print_note(
            f"detent: {path} has changed, but cannot be compiled: {error}. The old code continues."
        )
        return False
    output.print_note(f"detent: {path} has changed, restarting.")
    return True


def wait_for_change(directory: Path, began_ns: int) -> None:
    """Wait until a source file below the directory changes, after a failed import."""
    while not any(at > began_ns for at in modified_times(sources_in(directory)).values()):
        time.sleep(CHECK_EVERY_S)


def restart_process() -> None:
    """Replace this process with a new one that has the same command line."""
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, [sys.executable, "-m", "detent", *sys.argv[1:]])
