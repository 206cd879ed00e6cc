"""The board task: the plain kanban life of a task. Data only.

There is no failed state: a failure with no retry left stays blocked (reason error, retries_left 0)
until a person acts.
"""

from detent.kernel.lifecycle import Lifecycle, Row, State, rows_from
from detent.kernel.state_shapes import Look

BOARD = Lifecycle(
    name="board",
    title="Board task: the plain kanban life of a task",
    states=(
        State("inbox", "stored, not yet in the queue", Look.WAITING),
        State("todo", "in the queue, waiting for a worker", Look.WAITING),
        State("doing", "a worker is on it", Look.ACTIVE),
        State("blocked", "cannot go on: a dependency, a question, an error", Look.ATTENTION),
        State("done", "ended well", Look.GOOD),
        State("cancelled", "given up by a person or the system", Look.ENDED),
    ),
    initial="inbox",
    terminal=("done", "cancelled"),
    rows=(
        Row(None, "task_created", "inbox", "gateway", "the input is valid and stored"),
        Row("inbox", "task_queued", "todo", "gateway", "it was enqueued"),
        Row("todo", "task_started", "doing", "worker", "a worker took its job"),
        Row("todo", "task_blocked", "blocked", "engine", "a dependency is not done yet"),
        Row("doing", "task_completed", "done", "worker", "its run succeeded"),
        Row(
            "doing",
            "task_blocked",
            "blocked",
            "worker",
            "its run failed (retry pending or exhausted), it has a question, its worker was lost, "
            "or its job completed before all its subtasks were settled",
        ),
        Row(
            "blocked",
            "task_unblocked",
            "todo",
            "engine, keeper, person",
            "the reason is gone: back into the queue",
        ),
        Row(
            "blocked",
            "task_started",
            "doing",
            "worker",
            "a run that was holding goes on in place: its confirmation was given; or its last "
            "subtask is settled, and task_completed follows in the same transaction",
        ),
        *rows_from(
            ("inbox", "todo", "doing", "blocked"),
            "task_cancelled",
            "cancelled",
            "person, system",
            "it is not wanted any more; any live state may be cancelled, never one that is done",
        ),
    ),
)
