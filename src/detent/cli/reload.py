"""`detent worker --reload`: start anew when a source file of the app has changed.

Looks at the files of the modules that are loaded, and not at installed ones. No dependency: the
times at which files were changed are enough.
"""

import os
import sys
import sysconfig
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from detent.cli import output

#: How often the files are looked at.
PAUSE_S = 0.5
#: Where to look if the app could not be imported: here, but not in a whole file system.
MAX_FILES = 5_000

Times = Mapping[Path, int]


def own_sources() -> set[Path]:
    """The files of loaded modules that somebody may be working on: not installed, not Python's."""
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


def sources_below(directory: Path) -> set[Path]:
    """Every source file here, for an app that could not even be imported."""
    found: set[Path] = set()
    for folder, folders, names in os.walk(directory):
        folders[:] = [name for name in folders if not name.startswith((".", "__"))]
        found.update(Path(folder, name) for name in names if name.endswith(".py"))
        if len(found) > MAX_FILES:
            break
    return found


def times_of(paths: Iterable[Path]) -> dict[Path, int]:
    """When each file was last changed; one that is being replaced just now is left out."""
    found = {}
    for path in paths:
        try:
            found[path] = path.stat().st_mtime_ns
        except OSError:
            continue
    return found


class Sources:
    """Files, and whether one has changed since this was made; it is made before they are loaded."""

    def __init__(self) -> None:
        self.began_ns = time.time_ns()
        self._times: dict[Path, int] = {}
        self._looked_s = 0.0

    def changed(self) -> bool:
        """Looks now and then; modules that were loaded meanwhile are taken along."""
        if time.monotonic() - self._looked_s < PAUSE_S:
            return False
        self._looked_s = time.monotonic()
        now = times_of(own_sources())
        changed = differing(self._times, now, self.began_ns)
        self._times |= now
        return any(_compiles(path) for path in changed)


def differing(before: Times, now: Times, began_ns: int) -> list[Path]:
    """The files that have changed; one that is seen for the first time, if it is newer than that.

    It may have been written between its import and the first look.
    """
    return [path for path, at in now.items() if before.get(path, min(at, began_ns)) != at]


def _compiles(path: Path) -> bool:
    """Half a thought is not worth a restart: the old code goes on until it can be read."""
    try:
        compile(path.read_bytes(), str(path), "exec")
    except (SyntaxError, ValueError, OSError) as error:
        output.print_note(f"detent: {path} was changed and is not taken over: {error}")
        return False
    output.print_note(f"detent: {path} was changed, starting anew.")
    return True


def wait_for_change(directory: Path, began_ns: int) -> None:
    """Wait until something here is newer, for an app that could not be imported as it was then."""
    while not any(at > began_ns for at in times_of(sources_below(directory)).values()):
        time.sleep(PAUSE_S)


def start_anew() -> None:
    """Become a new process with the same command line."""
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, [sys.executable, "-m", "detent", *sys.argv[1:]])
