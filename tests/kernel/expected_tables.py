"""The five lifecycles typed by hand, cell by cell, as a second opinion on the kernel's tables.

Data only. It imports nothing from detent, so a slip in the code's tables cannot repeat itself here.
A cell is (source, event) -> target; source None is creation. `ext` marks a row that is our own
addition to the lifecycles we took over; every export has to show that mark.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple


class Cell(NamedTuple):
    """One legal transition, without the words that explain it."""

    source: str | None
    event: str
    target: str
    extension: bool


@dataclass(frozen=True, slots=True)
class Expected:
    """What a lifecycle has to be: its states in order, its beginning, its ends, its cells."""

    name: str
    states: tuple[str, ...]
    initial: str
    terminal: frozenset[str]
    cells: tuple[Cell, ...]

    @property
    def events(self) -> tuple[str, ...]:
        """Every event of the lifecycle, each once, in the order of its first cell."""
        return tuple(dict.fromkeys(cell.event for cell in self.cells))

    @property
    def sources(self) -> tuple[str | None, ...]:
        """Every row of the full grid: creation first, then each state."""
        return (None, *self.states)

    @property
    def move(self) -> dict[tuple[str | None, str], str]:
        """The legal cells as a mapping."""
        return {(cell.source, cell.event): cell.target for cell in self.cells}

    def legal(self, source: str | None) -> set[str]:
        """The events that are legal from `source`."""
        return {cell.event for cell in self.cells if cell.source == source}


EXT = True
OWN = False  # a row of the lifecycle as it was taken over


BOARD = Expected(
    name="board",
    states=("inbox", "todo", "doing", "blocked", "done", "cancelled"),
    initial="inbox",
    terminal=frozenset({"done", "cancelled"}),
    cells=(
        Cell(None, "task_created", "inbox", OWN),
        Cell("inbox", "task_queued", "todo", OWN),
        Cell("todo", "task_started", "doing", OWN),
        Cell("todo", "task_blocked", "blocked", OWN),
        Cell("doing", "task_completed", "done", OWN),
        Cell("doing", "task_blocked", "blocked", OWN),
        Cell("blocked", "task_unblocked", "todo", OWN),
        Cell("blocked", "task_started", "doing", OWN),
        Cell("inbox", "task_cancelled", "cancelled", OWN),
        Cell("todo", "task_cancelled", "cancelled", OWN),
        Cell("doing", "task_cancelled", "cancelled", OWN),
        Cell("blocked", "task_cancelled", "cancelled", OWN),
    ),
)

# Who may cause each move of a board task. The other lifecycles leave more of this open.
BOARD_WHO: Mapping[tuple[str | None, str], frozenset[str]] = {
    (None, "task_created"): frozenset({"gateway"}),
    ("inbox", "task_queued"): frozenset({"gateway"}),
    ("todo", "task_started"): frozenset({"worker"}),
    ("todo", "task_blocked"): frozenset({"engine"}),
    ("doing", "task_completed"): frozenset({"worker"}),
    ("doing", "task_blocked"): frozenset({"worker"}),
    ("blocked", "task_unblocked"): frozenset({"engine", "keeper", "person"}),
    ("blocked", "task_started"): frozenset({"worker"}),
    ("inbox", "task_cancelled"): frozenset({"person", "system"}),
    ("todo", "task_cancelled"): frozenset({"person", "system"}),
    ("doing", "task_cancelled"): frozenset({"person", "system"}),
    ("blocked", "task_cancelled"): frozenset({"person", "system"}),
}


REVIEW = Expected(
    name="review",
    states=(
        "pending",
        "queued",
        "running",
        "ready",
        "blocked",
        "failed",
        "timed_out",
        "completed",
        "cancelled",
        "budget_exceeded",
    ),
    initial="pending",
    terminal=frozenset({"completed", "cancelled", "budget_exceeded"}),
    cells=(
        Cell(None, "task_created", "pending", OWN),
        Cell("pending", "task_queued", "queued", OWN),
        Cell("pending", "task_cancelled", "cancelled", OWN),
        Cell("queued", "task_started", "running", OWN),
        Cell("queued", "task_failed", "failed", OWN),
        Cell("queued", "task_cancelled", "cancelled", OWN),
        Cell("running", "task_ready", "ready", OWN),
        Cell("running", "task_blocked", "blocked", OWN),
        Cell("running", "task_completed", "completed", OWN),
        Cell("running", "task_failed", "failed", OWN),
        Cell("running", "task_timed_out", "timed_out", OWN),
        Cell("running", "task_cancelled", "cancelled", OWN),
        Cell("running", "task_budget_exceeded", "budget_exceeded", OWN),
        Cell("ready", "task_accepted", "completed", OWN),
        Cell("ready", "task_rejected", "pending", OWN),
        Cell("ready", "task_accepting", "queued", EXT),
        Cell("ready", "task_cancelled", "cancelled", EXT),
        Cell("blocked", "task_answered", "queued", OWN),
        Cell("blocked", "task_ready", "ready", OWN),
        Cell("blocked", "task_cancelled", "cancelled", EXT),
        Cell("blocked", "task_unblocked", "queued", EXT),
        Cell("failed", "task_retried", "queued", OWN),
        Cell("timed_out", "task_retried", "queued", OWN),
        Cell("timed_out", "task_resumed", "queued", OWN),
    ),
)

# The moves of a review task that are a verb a person calls (run, accept, reject, retry, resume,
# answer, cancel): the gateway or a person is among those who cause them.
REVIEW_VERBS: frozenset[tuple[str | None, str]] = frozenset(
    {
        ("pending", "task_queued"),
        ("ready", "task_accepted"),
        ("ready", "task_accepting"),
        ("ready", "task_rejected"),
        ("failed", "task_retried"),
        ("timed_out", "task_retried"),
        ("timed_out", "task_resumed"),
        ("blocked", "task_answered"),
        ("pending", "task_cancelled"),
        ("queued", "task_cancelled"),
    }
)


# The grid of a job as it was taken over: nine rows, ten events, '-' is illegal. The first row is
# creation. The columns are in the order of JOB_GRID_EVENTS.
JOB_GRID_EVENTS = (
    "job_created",
    "job_queued",
    "job_requeued",
    "job_leased",
    "job_running",
    "job_waiting",
    "wait_completed",
    "job_completed",
    "job_failed",
    "job_cancelled",
)
JOB_GRID = """
(initial)  queued  queued  queued  -        -        -        -       -          -       -
queued     -       -       queued  running  running  -        queued  -          -       -
running    -       -       queued  -        -        waiting  queued  completed  failed  cancelled
waiting    -       -       -       -        -        -        queued  -          -       cancelled
parked     -       -       -       -        -        -        queued  -          -       cancelled
retrying   -       -       queued  running  running  -        queued  -          -       -
completed  -       -       -       -        -        -        -       -          -       -
failed     -       -       queued  -        -        -        -       -          -       -
cancelled  -       -       -       -        -        -        -       -          -       -
"""

# What the grid lacks: ways into parked and retrying, and cancelling work that has not begun.
JOB_EXTENSIONS = (
    Cell("waiting", "job_parked", "parked", EXT),
    Cell("running", "job_parked", "parked", EXT),
    Cell("running", "job_retrying", "retrying", EXT),
    Cell("queued", "job_cancelled", "cancelled", EXT),
    Cell("retrying", "job_cancelled", "cancelled", EXT),
)


def grid_cells(grid: str, events: tuple[str, ...]) -> tuple[Cell, ...]:
    """Read a literal grid; a row of the wrong width is an error, not a shorter row."""
    cells = []
    for line in grid.strip().splitlines():
        source, *targets = line.split()
        for event, target in zip(events, targets, strict=True):
            if target != "-":
                cells.append(Cell(None if source == "(initial)" else source, event, target, OWN))
    return tuple(cells)


JOB = Expected(
    name="job",
    states=(
        "queued",
        "running",
        "waiting",
        "parked",
        "retrying",
        "completed",
        "failed",
        "cancelled",
    ),
    initial="queued",
    # `failed` ends a job; its one way out is a person's retry.
    terminal=frozenset({"completed", "failed", "cancelled"}),
    cells=grid_cells(JOB_GRID, JOB_GRID_EVENTS) + JOB_EXTENSIONS,
)


STEP = Expected(
    name="step",
    states=(
        "pending",
        "waiting_deps",
        "leased",
        "running",
        "succeeded",
        "failed_retryable",
        "retrying",
        "failed_resource",
        "switching_resource",
        "failed_fatal",
        "failed",
        "needs_user",
        "lease_timeout",
    ),
    initial="pending",
    terminal=frozenset({"succeeded", "failed"}),
    cells=(
        Cell(None, "step_pending", "pending", OWN),
        Cell("pending", "step_waiting_deps", "waiting_deps", OWN),
        Cell("pending", "step_leased", "leased", OWN),
        Cell("waiting_deps", "step_leased", "leased", OWN),
        Cell("leased", "step_running", "running", OWN),
        Cell("leased", "step_lease_timeout", "lease_timeout", OWN),
        Cell("running", "step_succeeded", "succeeded", OWN),
        Cell("running", "step_failed_retryable", "failed_retryable", OWN),
        Cell("running", "step_failed_resource", "failed_resource", OWN),
        Cell("running", "step_failed_fatal", "failed_fatal", OWN),
        Cell("running", "step_needs_user", "needs_user", OWN),
        Cell("failed_retryable", "step_retrying", "retrying", OWN),
        Cell("retrying", "step_running", "running", OWN),
        Cell("failed_resource", "step_switching_resource", "switching_resource", OWN),
        Cell("switching_resource", "step_leased", "leased", OWN),
        Cell("switching_resource", "step_failed_fatal", "failed_fatal", EXT),
        Cell("needs_user", "step_running", "running", OWN),
        Cell("lease_timeout", "step_pending", "pending", OWN),
        Cell("failed_fatal", "step_failed", "failed", OWN),
    ),
)


RUN = Expected(
    name="run",
    states=("queued", "running", "succeeded", "failed", "timeout", "cancelled"),
    initial="queued",
    terminal=frozenset({"succeeded", "failed", "timeout", "cancelled"}),
    cells=(
        Cell(None, "run_queued", "queued", OWN),
        Cell("queued", "run_started", "running", OWN),
        Cell("queued", "run_cancelled", "cancelled", OWN),
        Cell("running", "run_succeeded", "succeeded", OWN),
        Cell("running", "run_failed", "failed", OWN),
        Cell("running", "run_timed_out", "timeout", OWN),
        Cell("running", "run_cancelled", "cancelled", OWN),
    ),
)


EXPECTED: Mapping[str, Expected] = {
    expected.name: expected for expected in (BOARD, REVIEW, JOB, STEP, RUN)
}
