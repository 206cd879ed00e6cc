"""Event logs of real processes that were killed and stopped are sequences of steps of the model."""

from pathlib import Path

import pytest

from detent.failpoints import Action
from detent.kernel import events as e
from detent.lifecycle_search import search
from detent.store.log_walk import batches
from detent.task_lifecycles.document_file import read_document
from verification.fault_injection import fault_cells, matrix
from verification.fault_injection.environment import Environment
from verification.fault_injection.fault_scenes import SCENES, Scene
from verification.fault_injection.followed_tasks import DOCUMENT, LIFECYCLES, RELEASE, follow
from verification.fault_injection.matrix import Databases, FaultCell
from verification.fault_injection.process_supervisor import ProcessSupervisor
from verification.lifecycle_model.related_tasks import SUBTASK, TASK
from verification.lifecycle_model.task_traces import Traces, records_of, traces_of
from verification.memory_directory import directory_in_memory


def scene(point: str) -> Scene:
    return next(each for each in SCENES if (each.point, each.role) == (point, "worker"))


#: Of each row of cells, one has tasks of each lifecycle, and one has jobs without a task.
POINTS: tuple[tuple[str, Action], ...] = (
    ("effect.done", Action.KILL),
    ("report.before", Action.STOP),
    ("step.recorded", Action.DELAY),
)
CELLS: list[FaultCell] = [
    (scene(point), action, None) for point, action in POINTS for _ in matrix.WORK
]


@pytest.mark.timeout(600)
def test_the_logs_of_fault_cells_follow_the_model(
    stores: Databases | None, supervisor: ProcessSupervisor, where: Path
) -> None:
    outcomes = matrix.run(supervisor, where, stores, CELLS)
    assert [line for outcome in outcomes for line in outcome.lines()] == []
    checked, problems = follow(each.traces for each in outcomes)
    assert problems == []
    assert checked.left_out == 0
    traces = [trace for outcome in outcomes for trace in outcome.traces.traces]
    assert {each.lifecycle.name for each in traces} == {*LIFECYCLES}
    # A tour submits a subtask.
    assert [sorted(each.tasks) for each in traces] == [[SUBTASK, TASK]] * 9
    assert checked.tasks == 18
    assert checked.steps >= 9 * len(traces)


@pytest.fixture(scope="module")
def log() -> list[e.Record]:
    """The log of a task whose worker was killed before it reported."""
    with directory_in_memory("detent-faults-") as where, ProcessSupervisor() as supervisor:
        environment = Environment(supervisor, where / "cell", lifecycle=RELEASE)
        outcome = fault_cells.run(environment, scene("report.before"), Action.KILL)
        assert outcome.lines() == []
        with environment.core() as core, core.store.read() as view:
            return records_of(each for piece in batches(view) for each in piece)


def test_a_planted_event_in_a_real_log_is_found(log: list[e.Record]) -> None:
    """The build of a task is sent back before a person could see it: its job is still live."""
    [trace] = traces_of(log).traces
    task_id = trace.tasks[TASK]
    requeued = next(at for at, each in enumerate(log) if isinstance(each.event, e.JobRequeued))
    kept = [each for each in log if each.at <= log[requeued].at]
    blocked = e.TaskBlocked("retry", {}, 1)
    for event, problems in ((None, 0), (blocked, 1)):
        planted = [] if event is None else [e.Record(task_id, None, event, log[-1].at + 1, "test")]
        checked, found = follow([traces_of([*kept, *planted])])
        assert len(found) == problems, found
    assert checked.offences[0].task == task_id
    assert checked.offences[0].events == ("task_blocked",)
    assert f"model: task {task_id}: task_blocked: from " in found[0]


def test_an_event_that_was_left_out_of_a_real_log_is_found(log: list[e.Record]) -> None:
    [ready] = [at for at, each in enumerate(log) if each.event.name == "task_ready"]
    checked, _ = follow([traces_of([*log[:ready], *log[ready + 1 :]])])
    assert [each.events[-1] for each in checked.offences] == ["job_completed"]


def test_logs_without_tasks_need_no_run_of_tlc() -> None:
    checked, problems = follow([Traces(), Traces()])
    assert (checked.tasks, checked.steps, problems) == (0, 0, [])


def test_the_installed_lifecycle_passes_its_check() -> None:
    """The cells install it without the search."""
    result = search(read_document(DOCUMENT.read_text(encoding="utf-8"))[1])
    assert (result.violation, result.exhausted) == (None, True)
