"""The job: one durable execution. Data only.

A claim writes `job_running` and is made from `queued` alone; `job_leased` is read in foreign
streams only. `failed` is terminal with one declared exception: a person asks for a retry.
"""

from detent.kernel.lifecycle import Lifecycle, Row, State, rows_from
from detent.kernel.state_shapes import Look

FOREIGN = "written by other systems; detent reads it and writes job_running"
LATE_SIGNAL = "a signal came in a foreign stream; detent writes it for waiting or parked jobs only"

JOB = Lifecycle(
    name="job",
    title="Job: one durable execution",
    states=(
        State("queued", "waiting to be claimed", Look.WAITING),
        State("running", "claimed by one worker, which holds its fence", Look.ACTIVE),
        State("waiting", "suspended, holding no lease, until a signal or a timer", Look.WAITING),
        State("parked", "waiting for long: no scan touches it", Look.WAITING),
        State("retrying", "an attempt failed and the next is not due yet", Look.ATTENTION),
        State("completed", "ended well", Look.GOOD),
        State("failed", "ended badly, with no attempt left", Look.BAD),
        State("cancelled", "stopped because it is not wanted any more", Look.ENDED),
    ),
    initial="queued",
    terminal=("completed", "failed", "cancelled"),
    rows=(
        Row(
            None,
            "job_created",
            "queued",
            "engine",
            "its task was queued, or it was asked for alone",
        ),
        Row(None, "job_queued", "queued", "engine", "a foreign stream that begins at its queue"),
        Row(None, "job_requeued", "queued", "engine", "a foreign stream that begins at a retry"),
        Row("queued", "job_requeued", "queued", "keeper", "put back into the queue once more"),
        Row("queued", "job_leased", "running", "worker", FOREIGN),
        Row("queued", "job_running", "running", "worker", "a worker claimed it"),
        Row("queued", "wait_completed", "queued", "engine", LATE_SIGNAL),
        Row(
            "running",
            "job_requeued",
            "queued",
            "worker, keeper",
            "an attempt failed and the next is due now, it was handed back, or its worker was lost",
        ),
        Row("running", "job_waiting", "waiting", "worker", "it waits for a signal or a timer"),
        Row("running", "wait_completed", "queued", "engine", LATE_SIGNAL),
        Row(
            "running",
            "job_completed",
            "completed",
            "worker",
            "its run, or its whole plan, succeeded",
        ),
        Row(
            "running", "job_failed", "failed", "worker, keeper", "it failed and no attempt is left"
        ),
        Row(
            "running",
            "job_cancelled",
            "cancelled",
            "worker, keeper",
            "cancel was asked, or a time limit passed, and the work has stopped",
        ),
        Row(
            "waiting",
            "wait_completed",
            "queued",
            "engine, keeper",
            "its signal or timer came, or the wait expired",
        ),
        Row("waiting", "job_cancelled", "cancelled", "person, keeper", "cancelled while it waits"),
        Row(
            "parked",
            "wait_completed",
            "queued",
            "engine, keeper",
            "its signal or timer came, or the wait expired",
        ),
        Row(
            "parked", "job_cancelled", "cancelled", "person, keeper", "cancelled while it is parked"
        ),
        Row("retrying", "job_requeued", "queued", "keeper, worker", "the next attempt is due"),
        Row("retrying", "job_leased", "running", "worker", FOREIGN),
        Row(
            "retrying",
            "job_running",
            "running",
            "worker",
            "a foreign stream that claims without queueing; detent writes job_requeued first",
        ),
        Row("retrying", "wait_completed", "queued", "engine", LATE_SIGNAL),
        Row(
            "failed",
            "job_requeued",
            "queued",
            "person",
            "a person asks for a retry: the one way out of an end",
            reopens=True,
        ),
        *rows_from(
            ("waiting", "running"),
            "job_parked",
            "parked",
            "worker, engine",
            "the wait is expected to last over a minute, so no scan touches it until its signal, "
            "its timer or a slow sweep; added because no other event reaches parked",
            extension=True,
        ),
        Row(
            "running",
            "job_retrying",
            "retrying",
            "worker, keeper",
            "an attempt failed and another is due later (not_before); "
            "added because no other event reaches retrying",
            extension=True,
        ),
        *rows_from(
            ("queued", "retrying"),
            "job_cancelled",
            "cancelled",
            "person, keeper",
            "cancelled before it was claimed; added because queued tasks can be cancelled "
            "and their job must not outlive them",
            extension=True,
        ),
    ),
)
