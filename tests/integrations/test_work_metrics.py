"""Metrics by model and project, and the work that autoscalers see."""

from itertools import product

from detent import feed
from detent.integrations.telemetry.metrics import LabelValues, Metrics
from detent.keeper import scheduler
from detent.kernel import commands as c
from detent.kernel.commands.limit_commands import EndPause, SetPause
from detent.operations.context import Core
from detent.operations.registry import OWNER
from detent.operations.schedules import put_schedule
from detent.testing.clock import VirtualClock
from tests.integrations.test_metrics import PERSON, claim, observed, read, submit, value

# ---- language models -------------------------------------------------------------------------


def test_costs_and_tokens_by_model_and_project(core: Core) -> None:
    """An event has the totals of its run so far: each part is counted once."""
    submit(core, "t1", project="shop")
    grant = claim(core)
    run = f"{grant.job_id}-r1"
    for cost, tokens in ((1_000_000, (10, 1)), (2_500_000, (30, 4))):
        core.engine.do(c.ChargeRun(grant, run, cost, *tokens, "opus"), PERSON)
    core.engine.do(c.FailRun(grant, run, "error", "it broke", 1), PERSON)
    submit(core, "t2", project="bank")
    grant = claim(core)
    core.engine.do(c.ChargeRun(grant, f"{grant.job_id}-r1", 500_000), PERSON)
    samples = read(observed(core))
    known = {"model": "opus", "project": "shop"}
    assert value(samples, "detent_cost_usd_total", intent="dig") == 3
    assert value(samples, "detent_model_cost_usd_total", **known) == 2.5
    assert value(samples, "detent_model_tokens_total", **known, type="input") == 30
    assert value(samples, "detent_model_tokens_total", **known, type="output") == 4
    assert value(samples, "detent_model_runs_total", **known, status="failed") == 1
    unknown = {"model": "unknown", "project": "bank"}
    assert value(samples, "detent_model_cost_usd_total", **unknown) == 0.5


def test_pairs_of_model_and_project_over_the_maximum_are_counted_as_other(core: Core) -> None:
    metrics = Metrics(core)
    metrics._model_labels = LabelValues(2)
    for number, (model, project) in enumerate(product(("opus", "haiku"), ("shop", "bank"))):
        core.engine.do(c.SubmitJob(f"j{number}", project, "dig"), PERSON)
        grant = claim(core)
        core.engine.do(c.ChargeRun(grant, f"{grant.job_id}-r1", 1_000_000, 0, 0, model), PERSON)
    metrics.observe(feed.read(core.store, 0))
    costs = {
        tuple(dict(key).values()): number
        for (name, key), number in read(metrics).items()
        if name == "detent_model_cost_usd_total"
    }
    assert costs == {("opus", "shop"): 1, ("opus", "bank"): 1, ("other", "other"): 2}


# ---- work that needs workers -----------------------------------------------------------------


def workload(core: Core) -> dict[str, float]:
    samples = read(Metrics(core))
    kinds = ("queued", "held", "due_soon")
    return {kind: value(samples, "detent_workload_jobs", kind=kind) for kind in kinds}


def test_autoscalers_see_work_from_the_queue_to_its_end(core: Core, clock: VirtualClock) -> None:
    assert workload(core) == {"queued": 0, "held": 0, "due_soon": 0}
    submit(core)
    assert workload(core) == {"queued": 1, "held": 0, "due_soon": 0}
    grant = claim(core)
    assert workload(core) == {"queued": 0, "held": 1, "due_soon": 0}
    samples = read(Metrics(core))
    assert value(samples, "detent_workload_jobs_by_intent", kind="held", intent="dig") == 1
    clock.advance(seconds=31)
    assert workload(core)["held"] == 1, "the work of a lost worker needs another one"
    run = f"{grant.job_id}-r1"
    soon = c.SuspendRun(grant, run, "nap", "timer", due_at=clock.now + 30_000_000)
    core.engine.do(soon, PERSON)
    assert workload(core) == {"queued": 0, "held": 0, "due_soon": 1}


def test_autoscalers_see_delays_retries_and_schedules_a_minute_before(
    core: Core, clock: VirtualClock
) -> None:
    submit(core, delay=90_000_000)
    assert workload(core) == {"queued": 0, "held": 0, "due_soon": 0}
    clock.advance(seconds=31)
    assert workload(core) == {"queued": 0, "held": 0, "due_soon": 1}
    put_schedule(core, OWNER, name="hourly", intent="dig", every_s=3_600)
    scheduler.run(core)
    clock.advance(seconds=3_541)
    assert workload(core) == {"queued": 1, "held": 0, "due_soon": 1}
    core.engine.do(SetPause("intent:dig"), PERSON)
    assert workload(core) == {"queued": 0, "held": 0, "due_soon": 0}
    core.engine.do(EndPause("intent:dig"), PERSON)
    claim(core)
    core.engine.do(SetPause("all"), PERSON)
    assert workload(core) == {"queued": 0, "held": 1, "due_soon": 0}
