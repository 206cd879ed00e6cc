"""Events of detent that a rule emits after any end of a job."""

from collections.abc import Callable
from pathlib import Path

from detent.kernel import commands as c
from detent.kernel import events as e
from detent.kernel.decide import decide
from detent.kernel.world import World
from detent.task_lifecycles.document_file import read_document

DOCUMENTS = Path(__file__).parent / "documents"
ACTOR = c.Actor("person")


def events_of_end(text: str, end: Callable[[c.Grant, str], c.Report]) -> list[e.Event]:
    """The events of the end of the first run of a task."""
    lifecycle = read_document(text)[1]
    world = World(lifecycles={lifecycle.id: lifecycle})
    submitted = c.SubmitTask("t", "p", lifecycle.id, "work", "cli", queue=True)
    for command in (submitted, c.ClaimJob("t-j1", "w", "n")):
        draft = decide(world, command, 1, ACTOR)
        world.merge(draft, draft.records)
    job = world.jobs[str(world.tasks["t"].job_id)]
    grant = c.Grant(job.id, job.fence, str(job.nonce))
    draft = decide(world, end(grant, str(job.run_id)), 2, ACTOR)
    return [record.event for record in draft.records]


def test_a_false_result_fails_the_task_with_a_reason() -> None:
    text = (DOCUMENTS / "nightly_qa.toml").read_text(encoding="utf-8")
    events = events_of_end(text, lambda grant, run: c.CompleteRun(grant, run, False))
    assert events[-1] == e.TaskFailed("error", "the job completed with the result False")


def test_a_failed_job_can_cancel_its_task() -> None:
    text = (DOCUMENTS / "release.toml").read_text(encoding="utf-8")
    text = text.replace('then = ["task_blocked"]', 'then = ["task_cancelled"]')
    events = events_of_end(text, lambda grant, run: c.FailRun(grant, run, "budget", "x"))
    assert events[-1] == e.TaskCancelled("job_failed")
