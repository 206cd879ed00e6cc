"""What a worker reports about a plan of two steps, one after the other, in a search.

A critic may not accept a result; each step is retried once. Resources and new versions of plans are
not searched: the lifecycle of a task does not depend on them.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from detent.kernel import commands as c
from detent.kernel.critic import Decision
from detent.kernel.entities import Job
from detent.kernel.plan_steps import startable
from detent.kernel.world import STEPS, World

#: The second step begins when the first has succeeded.
PLAN: Mapping[str, Any] = {
    "steps": [
        {"name": "first", "intent": "work", "max_retries": 1},
        {"name": "second", "intent": "work", "needs": ["first"], "max_retries": 1},
    ]
}


def plan_reports(world: World, job: Job, now: int) -> Iterator[tuple[str, c.Command]]:
    """Everything that the worker of a claimed job with a plan can report."""
    grant = c.Grant(job.id, job.fence, job.nonce or "")
    ready = startable(world, job, now)
    for name in ready:
        yield f"start the step {name}", c.StartStep(grant, name)
    live = [step for step in world.parts_of(STEPS, job.id).values() if step.run_id is not None]
    for step in live:
        run_id = step.run_id or ""
        yield f"complete the step {step.name}", c.CompleteRun(grant, run_id, True)
        rejected = c.CompleteRun(grant, run_id, True, decision=Decision.RETRY.value)
        yield f"complete the step {step.name}, which its critic does not accept", rejected
        yield f"fail the step {step.name}", c.FailRun(grant, run_id, "error", "failed")
        failed = c.FailRun(grant, run_id, "budget", "failed")
        yield f"fail the step {step.name} by its budget", failed
    if not live and not ready and job.cancel_reason is None:
        yield "wait, because no step can start", c.RestPlan(grant)
    yield "hand the job back", c.HandBack(grant)
    if job.cancel_reason is not None:
        yield "confirm the cancel", c.ConfirmCancel(grant)
