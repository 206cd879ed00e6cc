"""The review task: an agent's task that a person accepts. Data only.

`blocked` always carries a typed reason. `failed` and `timed_out` are not terminal: a person may run
them again.
"""

from detent.kernel.lifecycle import Lifecycle, Row, State, rows_from
from detent.kernel.state_shapes import Look

REVIEW = Lifecycle(
    name="review",
    title="Review task: an agent's task that a person accepts",
    states=(
        State("pending", "stored, not yet asked to run", Look.WAITING),
        State("queued", "waiting for a worker or for its dependencies", Look.WAITING),
        State("running", "a runner is on it", Look.ACTIVE),
        State("ready", "finished, waiting for a person to accept or reject", Look.ATTENTION),
        State("blocked", "cannot go on; its reason says why", Look.ATTENTION),
        State("failed", "ended badly; a person may run it again", Look.BAD),
        State("timed_out", "its deadline passed; a person may resume or run it again", Look.BAD),
        State("completed", "accepted, or a subtask that ended well", Look.GOOD),
        State("cancelled", "given up by a person", Look.ENDED),
        State("budget_exceeded", "spent more than it was allowed to", Look.BAD),
    ),
    initial="pending",
    terminal=("completed", "cancelled", "budget_exceeded"),
    rows=(
        Row(None, "task_created", "pending", "gateway", "the input is valid and stored"),
        Row("pending", "task_queued", "queued", "gateway, person", "it was asked to run"),
        Row("queued", "task_started", "running", "worker", "a worker starts it"),
        Row(
            "running",
            "task_ready",
            "ready",
            "worker",
            "the runner ended well, no question, top-level, no subtasks",
        ),
        Row(
            "running",
            "task_blocked",
            "blocked",
            "worker",
            "the runner ended well with a question, or top-level with subtasks, "
            "or it cannot go on for another typed reason",
        ),
        Row(
            "running",
            "task_completed",
            "completed",
            "worker",
            "the runner ended well, no question, and it is itself a subtask",
        ),
        Row(
            "running",
            "task_failed",
            "failed",
            "worker, keeper",
            "the runner exited with an error, or its output reported one",
        ),
        Row("running", "task_timed_out", "timed_out", "worker, keeper", "its deadline passed"),
        Row(
            "running",
            "task_cancelled",
            "cancelled",
            "worker, keeper",
            "cancel was asked and the runner has stopped",
        ),
        Row(
            "running",
            "task_budget_exceeded",
            "budget_exceeded",
            "worker",
            "it spent more than max_budget_usd and its policy is to stop",
        ),
        Row(
            "queued",
            "task_failed",
            "failed",
            "engine",
            "a dependency ended in a terminal failure, so this can never start",
        ),
        Row("ready", "task_accepted", "completed", "person", "accepted"),
        Row("ready", "task_rejected", "pending", "person", "rejected, with an optional comment"),
        Row("failed", "task_retried", "queued", "person", "run again, with new counts"),
        Row("timed_out", "task_retried", "queued", "person", "run again, in a fresh session"),
        Row("timed_out", "task_resumed", "queued", "person", "resumed in the same agent session"),
        Row(
            "blocked",
            "task_answered",
            "queued",
            "person, keeper",
            "its question was answered (or expired into its default): same agent session",
        ),
        Row(
            "blocked",
            "task_ready",
            "ready",
            "engine",
            "the reason is subtasks and every one of them, with their descendants, is settled; "
            "never without subtasks, never over an open question",
        ),
        *rows_from(
            ("pending", "queued"), "task_cancelled", "cancelled", "person, engine", "cancelled"
        ),
        *rows_from(
            ("blocked", "ready"),
            "task_cancelled",
            "cancelled",
            "person, engine",
            "cancelled; added because any live task of a board can be cancelled, and a person who "
            "is stuck on a question needs it here too",
            extension=True,
        ),
        Row(
            "blocked",
            "task_unblocked",
            "queued",
            "engine, keeper, person",
            "a reason other than a question is gone (retry due, budget raised, rate limit over, "
            "resource there, parent run again); added because no other event ends those reasons",
            extension=True,
        ),
    ),
)
