"""A task whose runs leave diffs, for tests of the commands of a review."""

from io import BytesIO

from detent.engine.claims import ClaimRequest
from detent.kernel import commands as c
from detent.operations.context import Core


def submit_reviewed(core: Core) -> None:
    """Submit the task `t`, which is reviewed when its work has ended."""
    submit = c.SubmitTask("t", "p", "review", "runQA", "cli", queue=True)
    core.engine.do(submit, c.Actor("person"))


def work(core: Core, changes: str) -> None:
    """A run that leaves this diff and completes."""
    (claimed,) = core.engine.claim(ClaimRequest("w", "nonce", 1))
    run_id = str(claimed.job.run_id)
    blob = core.store.blobs.put(BytesIO(changes.encode()))
    actor = c.Actor("worker:w")
    core.engine.do(c.AddEvidence(claimed.grant, run_id, "changes.diff", "unknown", *blob), actor)
    core.engine.do(c.CompleteRun(claimed.grant, run_id, None, 0), actor)
