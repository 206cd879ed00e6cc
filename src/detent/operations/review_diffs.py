"""The diffs of a task: found in the evidence of its runs, read from the blob store, parsed once.

The diff under review is the evidence `changes.diff` of the newest run that has one. Its SHA-256
identifies it. Its content was written by an agent and is untrusted.
"""

import threading
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from detent.errors import NotFound, TooLarge
from detent.kernel.derived_ids import jobs_of_task
from detent.kernel.entities import Task
from detent.operations.context import Core
from detent.review.unified_diff import Diff, FileDiff, parse_diff
from detent.store.port import ReadTransaction
from detent.store.types import LoggedEvent, Query

#: The evidence file that contains the diff of a run's worktree.
DIFF_FILE = "changes.diff"
#: The largest diff that is parsed, and how much of them is kept parsed.
MAX_DIFF_BYTES = 20_000_000
MAX_CACHED_BYTES = 40_000_000
MAX_RUNS, MAX_EVIDENCE = 10_000, 100_000
MAX_EVENTS = 100_000


class TaskDiff(NamedTuple):
    """A diff of a task: which run left it, in which round. The first round is 1."""

    sha256: str
    size: int
    run_id: str
    at: int
    round: int

    @property
    def download(self) -> str:
        """The path of its content over HTTP."""
        return f"/api/runs/{self.run_id}/evidence/{DIFF_FILE}"


class TaskRuns(NamedTuple):
    """The runs of a task, oldest first, with the round of each. The first round is 1."""

    rows: Sequence[Mapping[str, Any]]
    rounds: Mapping[str, int]


def runs_of(view: ReadTransaction, task: Task, events: Sequence[LoggedEvent]) -> TaskRuns:
    """The runs of a task. Each event that counts a round ends one and begins the next."""
    jobs = list(jobs_of_task(task.id, task.jobs))
    query = Query("runs", {"job_id": jobs}, "queued_at", limit=MAX_RUNS)
    rows = view.page(query) if jobs else ()
    counted = view.lifecycles()[task.lifecycle].rounds.events
    began = [event.at for event in events if event.name in counted]
    rounds = {row["id"]: bisect_right(began, row["queued_at"]) + 1 for row in rows}
    return TaskRuns(rows, rounds)


def events_of(view: ReadTransaction, task: Task) -> Sequence[LoggedEvent]:
    """The events of the task itself, in order."""
    return view.events(0, MAX_EVENTS, stream=task.id)


def event_data(event: LoggedEvent) -> Mapping[str, Any]:
    """The data of an event."""
    found = msgspec.json.decode(event.data) if event.data else {}
    return found if isinstance(found, dict) else {}


def diffs_of(view: ReadTransaction, runs: TaskRuns) -> Sequence[TaskDiff]:
    """The diffs of a task, oldest first; the last one is under review."""
    if not runs.rows:
        return ()
    order = {row["id"]: number for number, row in enumerate(runs.rows)}
    where = {"run_id": list(order), "file": DIFF_FILE}
    found = view.page(Query("evidence", where, "at", limit=MAX_RUNS))
    return [
        TaskDiff(row["sha256"], row["size"], run_id, row["at"], runs.rounds[run_id])
        for row in sorted(found, key=lambda row: order[row["run_id"]])
        for run_id in [row["run_id"]]
    ]


def chosen_diff(task_id: str, diffs: Sequence[TaskDiff], sha256: str | None) -> TaskDiff:
    """The diff with this SHA-256, or the one under review."""
    if not diffs:
        raise NotFound(
            f"Task {task_id} has no diff.",
            code="unknown_diff",
            hint="A diff is left by an agent that works in a worktree or clone.",
        )
    if sha256 is None:
        return diffs[-1]
    for each in reversed(diffs):
        if each.sha256 == sha256:
            return each
    known = list(dict.fromkeys(each.sha256 for each in reversed(diffs)))
    raise NotFound(
        f"Task {task_id} has no diff {sha256[:100]!r}; the one under review is {known[0]}.",
        code="unknown_diff",
        known=known[:20],
    )


def chosen_file(diff: Diff, path: str) -> FileDiff:
    """The file of a diff with this path."""
    found = diff.file(path)
    if found is None:
        known = [each.path for each in diff.files[:20]]
        raise NotFound(f"The diff has no file {path[:200]!r}.", code="unknown_file", known=known)
    return found


# ---- content ---------------------------------------------------------------------------------


class ParsedDiffs:
    """Parsed diffs by their SHA-256; those that were used least recently are dropped."""

    def __init__(self, max_bytes: int = MAX_CACHED_BYTES) -> None:
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._found: OrderedDict[str, tuple[Diff, int]] = OrderedDict()

    def get(self, sha256: str) -> Diff | None:
        with self._lock:
            if sha256 not in self._found:
                return None
            self._found.move_to_end(sha256)
            return self._found[sha256][0]

    def put(self, sha256: str, diff: Diff, size: int) -> None:
        with self._lock:
            self._found[sha256] = (diff, size)
            self._found.move_to_end(sha256)
            while len(self._found) > 1 and self._size() > self._max_bytes:
                self._found.popitem(last=False)

    def _size(self) -> int:
        return sum(size for _, size in self._found.values())


PARSED = ParsedDiffs()


def read_diff(core: Core, found: TaskDiff) -> Diff:
    """The parsed content of a diff. A digest has one content, so all callers share it."""
    if found.size > MAX_DIFF_BYTES:
        raise TooLarge(
            f"The diff has {found.size:,} bytes; at most {MAX_DIFF_BYTES:,} are shown.",
            limit=MAX_DIFF_BYTES,
            hint=f"Download {found.download}, or `detent evidence {found.run_id} --save DIR`.",
        )
    known = PARSED.get(found.sha256)
    if known is not None:
        return known
    try:
        data = b"".join(core.store.blobs.read(found.sha256))
    except NotFound:
        raise NotFound(
            f"The content of the diff {found.sha256} has been deleted.",
            code="unknown_diff",
            hint="Its size and SHA-256 are still in the task's events.",
        ) from None
    parsed = parse_diff(data)
    PARSED.put(found.sha256, parsed, found.size)
    return parsed
