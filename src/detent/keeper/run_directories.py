"""Deletes the directories of runs and tasks on this machine when their retention time is over.

Every machine has its own directories, so each process with a worker or a keeper does this, elected
or not. A run that ended without a summary, because its worker died, gets one here.
"""

import logging
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from detent import thresholds
from detent.errors import DetentError
from detent.keeper.retention_sweep import live_runs
from detent.kernel.entities import Run
from detent.kernel.retention import DAY_US, Retention, is_over
from detent.operations import output_times, run_output, summaries
from detent.operations.context import Core
from detent.periodic_thread import PeriodicThread

log = logging.getLogger("detent.keeper")

EVERY_S = 600.0
BATCH = 500
#: The minimum age of an unknown directory before it is deleted: it may belong to another store.
ORPHAN_GRACE_US = DAY_US

#: Deletes the workspace of a task, given the data directory and the id of the task.
ForgetWorkspace = Callable[[Path, str], bool]


class Swept(NamedTuple):
    """The numbers of deleted directories, outputs and workspaces, and of written summaries."""

    directories: int = 0
    outputs: int = 0
    workspaces: int = 0
    summaries: int = 0


class Sweep:
    """One pass over all directories of this machine."""

    def __init__(
        self, core: Core, forget_workspace: ForgetWorkspace, *, dry_run: bool = False
    ) -> None:
        self.core = core
        self.data_dir = core.settings.data_dir
        self.retention: Retention = thresholds.retention(core.settings)
        self.forget_workspace = forget_workspace
        self.dry_run = dry_run
        self.counts = dict.fromkeys(Swept._fields, 0)

    def run(self) -> Swept:
        for names in _batches(self.data_dir / "runs"):
            self._sweep_runs(names)
        for names in _batches(self.data_dir / "workspaces"):
            self._sweep_workspaces(names)
        return Swept(**self.counts)

    def _sweep_runs(self, names: list[str]) -> None:
        with self.core.store.read() as view:
            runs: Mapping[str, Run] = {run.id: run for run in view.runs(names)}
            live, now = live_runs(view, list(runs.values())), view.now()
            found = summaries.documents(view, [each for each in runs if self._lacks_one(each)])
        for name in names:
            path, run = self.data_dir / "runs" / name, runs.get(name)
            if self._is_over(path, run, name in live, now):
                self._remove(path, "directories")
                continue
            if run is not None and self._output_is_over(run, name in live, now):
                self._remove(path / run_output.FILE, "outputs")
                if not self.dry_run:
                    (path / output_times.FILE).unlink(missing_ok=True)
            if name in found and not self.dry_run:
                summaries.write(path, found[name])
                self.counts["summaries"] += 1

    def _lacks_one(self, run_id: str) -> bool:
        return not (self.data_dir / "runs" / run_id / summaries.FILE).exists()

    def _is_over(self, path: Path, run: Run | None, live: bool, now: int) -> bool:
        if run is None:
            return _untouched(path, now)
        return is_over(run.ended_at, self.retention.run_directory_days, now, task_live=live)

    def _output_is_over(self, run: Run, live: bool, now: int) -> bool:
        return is_over(run.ended_at, self.retention.output_days, now, task_live=live)

    def _sweep_workspaces(self, names: list[str]) -> None:
        """Delete the workspaces whose task or job no longer exists."""
        with self.core.store.read() as view:
            known = {task.id for task, _ in view.tasks(names)}
            known |= {job.id for job, _ in view.jobs(names)}
            now = view.now()
        for name in names:
            path = self.data_dir / "workspaces" / name
            if name in known or not _untouched(path, now):
                continue
            if self.dry_run or self.forget_workspace(self.data_dir, name):
                self.counts["workspaces"] += 1

    def _remove(self, path: Path, what: str) -> None:
        if not os.path.lexists(path):
            return
        if not self.dry_run:
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
        self.counts[what] += 1


def _batches(directory: Path) -> Iterator[list[str]]:
    """The names of directories in batches; hidden ones are skipped because they are incomplete."""
    try:
        names = [each.name for each in directory.iterdir() if each.is_dir()]
    except FileNotFoundError:
        return
    plain = sorted(name for name in names if not name.startswith("."))
    for at in range(0, len(plain), BATCH):
        yield plain[at : at + BATCH]


def _untouched(path: Path, now: int) -> bool:
    try:
        return path.stat(follow_symlinks=False).st_mtime_ns // 1_000 < now - ORPHAN_GRACE_US
    except FileNotFoundError:
        return False


class RunDirectorySweeper(PeriodicThread):
    """A thread that runs `Sweep` periodically."""

    def __init__(self, core: Core, forget_workspace: ForgetWorkspace) -> None:
        super().__init__("detent-directories", self._sweep)
        self.core = core
        self.forget_workspace = forget_workspace

    def _sweep(self) -> float:
        try:
            Sweep(self.core, self.forget_workspace).run()
        except (DetentError, OSError) as error:
            log.warning("the sweep of run directories failed: %s", error)
        except Exception:
            log.exception("the sweep of run directories failed; it will be retried")
        return EVERY_S
