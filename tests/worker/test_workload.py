"""The work that autoscalers see, on real stores."""

from detent.engine.claims import ClaimRequest
from detent.kernel import commands as c
from detent.operations.context import Core
from detent.operations.workload import workload

PERSON = c.Actor("person")


def test_queued_held_and_due_soon(core: Core) -> None:
    for number in range(3):
        core.engine.do(c.SubmitJob(f"now{number}", "p", "dig"), PERSON)
    for number, delay in enumerate((30_000_000, 3_600_000_000)):
        core.engine.do(c.SubmitJob(f"later{number}", "p", "fill", delay=delay), PERSON)
    assert workload(core) == ({"dig": 3}, {}, {"fill": 1})
    claimed = core.engine.claim(ClaimRequest("w", "nonce", 2))
    assert workload(core) == ({"dig": 1}, {"dig": 2}, {"fill": 1})
    run = str(claimed[0].job.run_id)
    core.engine.do(c.SuspendRun(claimed[0].grant, run, "nap", "timer", due_at=1), PERSON)
    core.engine.do(c.CompleteRun(claimed[1].grant, str(claimed[1].job.run_id)), PERSON)
    assert workload(core).totals() == {"queued": 1, "held": 0, "due_soon": 2}
