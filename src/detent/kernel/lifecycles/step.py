"""The step: one node of a job's plan. Data only.

Each event is named `step_` + the state it leads to. `leased` means that the step holds its resource
lease.
"""

from detent.kernel.lifecycle import Lifecycle, Row, State
from detent.kernel.state_shapes import Look

STEP = Lifecycle(
    name="step",
    title="Step: one node of a job's plan",
    states=(
        State("pending", "to be scheduled", Look.WAITING),
        State("waiting_deps", "steps that it depends on have not ended", Look.WAITING),
        State("leased", "holds its resource lease, not started", Look.ACTIVE),
        State("running", "being executed", Look.ACTIVE),
        State("succeeded", "ended well", Look.GOOD),
        State("failed_retryable", "failed in a way that may pass", Look.ATTENTION),
        State("retrying", "waiting to be tried again", Look.WAITING),
        State("failed_resource", "its resource failed it", Look.ATTENTION),
        State("switching_resource", "looking for another resource", Look.WAITING),
        State("failed_fatal", "failed in a way that will not pass", Look.BAD),
        State("failed", "ended badly", Look.BAD),
        State("needs_user", "a person must confirm or help", Look.ATTENTION),
        State("lease_timeout", "its resource lease ended before it started", Look.ATTENTION),
    ),
    initial="pending",
    terminal=("succeeded", "failed"),
    rows=(
        Row(None, "step_pending", "pending", "engine", "its plan version was stored"),
        Row("pending", "step_waiting_deps", "waiting_deps", "engine", "a dependency has not ended"),
        Row("pending", "step_leased", "leased", "worker", "it got its resource lease"),
        Row(
            "waiting_deps",
            "step_leased",
            "leased",
            "worker",
            "its dependencies have ended and it got its resource lease",
        ),
        Row("leased", "step_running", "running", "worker", "its run started"),
        Row(
            "leased",
            "step_lease_timeout",
            "lease_timeout",
            "keeper, engine",
            "its lease ended before it started: its worker was lost, or its job was cancelled",
        ),
        Row("running", "step_succeeded", "succeeded", "worker", "the critic accepted the result"),
        Row(
            "running",
            "step_failed_retryable",
            "failed_retryable",
            "worker, keeper",
            "the critic asks for a retry and one is left, or its worker was lost",
        ),
        Row(
            "running",
            "step_failed_resource",
            "failed_resource",
            "worker",
            "the critic asks for another resource",
        ),
        Row(
            "running",
            "step_failed_fatal",
            "failed_fatal",
            "worker, engine",
            "no retry is left, a new plan is asked for, the critic raised, or the job is cancelled",
        ),
        Row("running", "step_needs_user", "needs_user", "worker", "the critic asks for a person"),
        Row(
            "failed_retryable",
            "step_retrying",
            "retrying",
            "worker, engine",
            "another try is planned, after its delay",
        ),
        Row(
            "retrying",
            "step_running",
            "running",
            "worker",
            "the try is due and the step holds a resource lease again",
        ),
        Row(
            "failed_resource",
            "step_switching_resource",
            "switching_resource",
            "worker",
            "the failed resource is now on the step's avoid list",
        ),
        Row("switching_resource", "step_leased", "leased", "worker", "another resource was leased"),
        Row(
            "switching_resource",
            "step_failed_fatal",
            "failed_fatal",
            "worker, engine",
            "no resource is left; added because the step would otherwise switch without end",
            extension=True,
        ),
        Row(
            "needs_user",
            "step_running",
            "running",
            "worker",
            "a person confirmed, refused, or let it expire, and the step holds its resource lease",
        ),
        Row("lease_timeout", "step_pending", "pending", "keeper, engine", "back to be scheduled"),
        Row("failed_fatal", "step_failed", "failed", "worker, engine", "the failure is final"),
    ),
)
