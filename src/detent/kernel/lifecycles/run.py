"""The run: one execution under one lease, ended once. Data only.

A lost lease ends it; a retry, and going on after a suspension, is a new run.
"""

from detent.kernel.lifecycle import Lifecycle, Row, State
from detent.kernel.state_shapes import Look

RUN = Lifecycle(
    name="run",
    title="Run: one execution under one lease, ended once",
    states=(
        State("queued", "recorded at the claim, not started", Look.WAITING),
        State("running", "being executed", Look.ACTIVE),
        State("succeeded", "ended with exit code 0, or suspended", Look.GOOD),
        State("failed", "ended with another exit code", Look.BAD),
        State("timeout", "stopped at its time limit", Look.BAD),
        State("cancelled", "cancelled, or its worker was lost", Look.ENDED),
    ),
    initial="queued",
    terminal=("succeeded", "failed", "timeout", "cancelled"),
    rows=(
        Row(
            None,
            "run_queued",
            "queued",
            "worker",
            "a worker claimed the job: recorded at the claim",
        ),
        Row("queued", "run_started", "running", "worker", "the worker starts it"),
        Row(
            "queued",
            "run_cancelled",
            "cancelled",
            "worker, keeper, person",
            "cancelled, handed back, or its worker was lost before it started",
        ),
        Row(
            "running", "run_succeeded", "succeeded", "worker", "exit code 0; also when it suspends"
        ),
        Row("running", "run_failed", "failed", "worker", "any other exit code"),
        Row("running", "run_timed_out", "timeout", "worker, keeper", "it ran over its time limit"),
        Row(
            "running",
            "run_cancelled",
            "cancelled",
            "worker, keeper, person",
            "cancelled, handed back, or its worker was lost (reason worker_lost)",
        ),
    ),
)
