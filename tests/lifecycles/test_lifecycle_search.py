"""The search of a lifecycle: correct documents pass, and every defect is found, by a short path."""

import re
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from detent.errors import Invalid
from detent.kernel import events as e
from detent.kernel import lifecycle_lint, outcome_rules, plan_progress
from detent.kernel.decide import declared_events
from detent.kernel.draft import Draft
from detent.kernel.task_lifecycle import TaskLifecycle, Trigger
from detent.kernel.transitions import cancellation, task_job
from detent.lifecycle_search import SearchResult, search
from detent.lifecycle_search.properties import PROPERTIES
from detent.task_lifecycles import OPTIONAL, SHIPPED
from tests.lifecycles.document_edits import DOCUMENTS, RELEASE, changed, read, row, state, timer
from tests.sampling import sampled


def searched(text: str, max_states: int = 20_000) -> SearchResult:
    return search(read(text), max_states)


# ---- correct documents -----------------------------------------------------------------------


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_lifecycles_pass(name: str) -> None:
    result = search(SHIPPED[name])
    assert (result.violation, result.exhausted) == (None, True)


@pytest.mark.parametrize("file", OPTIONAL.values(), ids=OPTIONAL)
def test_lifecycles_of_integrations_pass(file: Path) -> None:
    lifecycle = read(file.read_text(encoding="utf-8"))
    assert lifecycle_lint.flaws(lifecycle) == []
    assert lifecycle_lint.conflicts(lifecycle, SHIPPED) == []
    result = search(lifecycle)
    assert (result.violation, result.exhausted) == (None, True)


@pytest.mark.parametrize("name", sampled(DOCUMENTS, 3))
def test_correct_documents_pass(name: str) -> None:
    result = searched(DOCUMENTS[name])
    assert (result.violation, result.exhausted) == (None, True)
    assert result.states >= 30


def test_there_are_ten_documents_that_fit_together() -> None:
    assert len(DOCUMENTS) >= 10
    known = dict(SHIPPED)
    for text in DOCUMENTS.values():
        lifecycle = read(text)
        assert lifecycle_lint.conflicts(lifecycle, known) == []
        known[lifecycle.id] = lifecycle


def test_the_bound_is_reported() -> None:
    result = searched(RELEASE, max_states=100)
    assert (result.states, result.exhausted, result.violation) == (100, False, None)


# ---- planted defects -------------------------------------------------------------------------


#: By property: a document that breaks it, and the last step and length of the shortest path.
DEFECTS: list[tuple[str, str, str, int]] = [
    (
        "report",
        changed(('from = ["queued", "building"]', 'from = "queued"')),
        "worker: fail the run",
        3,
    ),
    (
        "report",
        changed(('then = ["task_ready"]', 'then = ["task_approved"]')),
        "worker: complete the run",
        3,
    ),
    (
        "table",
        changed((',"approval"]', "]")).replace('["draft",', '["approval", "draft",')
        + timer("draft", "task_approved"),
        "keeper: the timer of draft sends task_approved",
        1,
    ),
    ("phase", changed(('then = ["task_ready"]', "then = []")), "worker: complete the run", 3),
    (
        "phase",
        RELEASE + row("building", "task_stopped", "released"),
        "person: send task_stopped",
        3,
    ),
    (
        "phase",
        RELEASE + row("building", "task_queued", "queued"),
        "person: run the task",
        3,
    ),
    ("phase", changed(('in = ["queued"]', 'in = ["blocked"]')), "worker: claim the job", 2),
    ("final", RELEASE + row("released", "task_reopened", "draft"), "person: send task_reopened", 5),
    ("cancel", changed((',"approval"]', "]")), "person: cancel the task", 4),
    ("cancel", changed(('to = "cancelled"', 'to = "draft"')), "person: cancel the task", 1),
    (
        "cancel",
        changed(
            (
                'when = "job_cancelled"\nthen = ["task_cancelled"]',
                'when = "job_cancelled"\nthen = []',
            )
        ),
        "person: cancel the task",
        2,
    ),
    (
        "rounds",
        changed(
            ('after = "3d"\nevent = "task_cancelled"', 'after = "3d"\nevent = "task_sent_back"')
        ),
        "keeper: the timer of approval sends task_sent_back",
        10,
    ),
    (
        "subtasks",
        re.sub(r'\[\[rules\]\]\nwhen = "subtasks_settled"\n.*\n', "", DOCUMENTS["kanban"]),
        "",
        0,
    ),
    (
        "end",
        RELEASE
        + state("moon")
        + row("draft", "task_x", "moon")
        + row("moon", "task_cancelled", "cancelled"),
        "person: send task_x → moon",
        1,
    ),
    (
        "end",
        RELEASE
        + state("moon")
        + state("mars")
        + row("draft", "task_x", "moon")
        + row("moon", "task_y", "mars")
        + row("mars", "task_y", "moon")
        + row("moon", "task_cancelled", "cancelled")
        + row("mars", "task_cancelled", "cancelled"),
        "person: send task_x → moon",
        1,
    ),
]


@pytest.mark.parametrize(("name", "text", "last", "steps"), DEFECTS)
def test_a_planted_defect_is_found(name: str, text: str, last: str, steps: int) -> None:
    found = searched(text).violation
    assert found is not None
    assert found.property == name, found
    assert name in PROPERTIES
    if last:
        assert found.steps[-1] == last
        assert len(found.steps) == (steps or len(found.steps))


def test_the_shortest_path_is_shown() -> None:
    found = searched(changed(('then = ["task_ready"]', "then = []"))).violation
    assert found is not None
    assert found.lines() == [
        "phase: The state building has the phase working and a job that is completed.",
        "Steps (a task):",
        "  1. person: run the task → queued",
        "  2. worker: claim the job → building",
        "  3. worker: complete the run",
    ]
    assert found.plain() == {
        "property": "phase",
        "text": "The state building has the phase working and a job that is completed.",
        "scenario": "a task",
        "steps": [
            "person: run the task → queued",
            "worker: claim the job → building",
            "worker: complete the run",
        ],
    }


# ---- a broken kernel -------------------------------------------------------------------------

Patch = Callable[[pytest.MonkeyPatch], None]


def rule_is_ignored(patch: pytest.MonkeyPatch) -> None:
    """A failed job does not move its task."""
    real = outcome_rules.follow

    def follow(draft: Draft, when: Trigger, *more: Any) -> None:
        if when is not Trigger.JOB_FAILED:
            real(draft, when, *more)

    patch.setattr(task_job, "follow", follow)


def round_is_not_counted(patch: pytest.MonkeyPatch) -> None:
    def declared(*given: Any) -> e.TaskMoved:
        moved = outcome_rules.declared(*given)
        return e.TaskMoved(moved.name, moved.comment, None, moved.job_id)

    patch.setattr(declared_events, "declared", declared)


def cancel_does_not_reach_the_job(patch: pytest.MonkeyPatch) -> None:
    def cancel_job(*given: Any) -> str:
        return "requested"

    patch.setattr(cancellation, "cancel_job", cancel_job)


def condition_is_wrong(patch: pytest.MonkeyPatch) -> None:
    """A result that is false counts as true."""
    wrong = {**outcome_rules.PREDICATES}
    wrong[next(name for name in wrong if name == "result_is_false")] = lambda *given: False
    patch.setattr(outcome_rules, "PREDICATES", wrong)


def retry_ignores_the_table(patch: pytest.MonkeyPatch) -> None:
    """Running a task emits task_retried, whatever its lifecycle has."""
    patch.setattr(Draft, "may", lambda *given: True)


def failed_plan_goes_on(patch: pytest.MonkeyPatch) -> None:
    """A plan whose step has failed does not fail its job."""
    patch.setattr(plan_progress, "fail_job", lambda *_: None)


MUTANTS: list[tuple[Patch, str, str]] = [
    (rule_is_ignored, "release", "phase"),
    (round_is_not_counted, "release", "rounds"),
    (cancel_does_not_reach_the_job, "release", "cancel"),
    (condition_is_wrong, "critic_loop", "rule"),
    (retry_ignores_the_table, "release", "table"),
    (failed_plan_goes_on, "release", "report"),
]


@pytest.mark.parametrize(("mutant", "document", "name"), MUTANTS)
def test_a_broken_kernel_is_found(
    mutant: Patch, document: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutant(monkeypatch)
    found = searched(DOCUMENTS[document]).violation
    assert found is not None
    assert found.property == name, found


def test_a_failed_plan_is_found_by_the_shortest_path(monkeypatch: pytest.MonkeyPatch) -> None:
    failed_plan_goes_on(monkeypatch)
    found = searched(RELEASE).violation
    assert found is not None
    assert found.scenario == "a task with a plan"
    assert found.steps == [
        "person: run the task → queued",
        "worker: claim the job → queued",
        "worker: start the step first → building",
        "worker: fail the step first by its budget",
    ]


# ---- documents at random ---------------------------------------------------------------------


def mutated(text: str, random: Random) -> str:
    """A document with some names and lines exchanged, repeated or removed."""
    lines = text.split("\n")
    for _ in range(random.randint(1, 4)):
        at, other = random.randrange(len(lines)), random.randrange(len(lines))
        kind = random.choice((0, 1, 2, 3, 3, 3, 3, 3))
        if kind == 0:
            del lines[at]
        elif kind == 1:
            lines[at], lines[other] = lines[other], lines[at]
        elif kind == 2:
            key, given = lines[at].partition("=")[0], lines[other].partition("=")[2]
            lines[at] = f"{key}={given}"
        else:
            names = re.findall(r'"(\w+)"', text)
            lines[at] = re.sub(r'"\w+"', f'"{random.choice(names)}"', lines[at], count=1)
    return "\n".join(lines)


@pytest.mark.parametrize("name", sampled(DOCUMENTS, 2))
def test_no_document_crashes_lint_or_search(name: str) -> None:
    random = Random(name)
    texts = [mutated(DOCUMENTS[name], random) for _ in range(150)]
    lifecycles = [each for each in map(read_if_possible, texts) if each is not None]
    assert len(lifecycles) >= 30
    for lifecycle in lifecycles:
        flaws = lifecycle_lint.flaws(lifecycle)
        found = search(lifecycle, 150).violation
        crashed = found is not None and "Error:" in found.text
        assert flaws or not crashed, found


def read_if_possible(text: str) -> TaskLifecycle | None:
    try:
        return read(text)
    except Invalid:
        return None


def test_an_exception_of_the_kernel_is_a_violation() -> None:
    """A document that the lint refuses never makes the search raise."""
    text = changed(('then = ["task_ready"]', 'then = ["task_timed_out"]'))
    text += row("building", "task_timed_out", "approval", "worker")
    found = searched(text).violation
    assert found is not None
    assert "AttributeError" in found.text
