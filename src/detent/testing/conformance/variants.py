"""Checks of choices between variants: one is chosen, also by several processes at a time."""

from functools import partial

from detent.engine import Engine
from detent.integrity.rebuild import rebuild
from detent.kernel import commands as c
from detent.kernel.variants import CHOSEN, VARIANT
from detent.testing.audit import picture
from detent.testing.conformance.case import Case, check
from detent.testing.conformance.work_actions import (
    claim,
    claim_one,
    complete,
    do,
    names,
    outcome,
    submit_task,
    suspend,
    task_of,
    together,
)


def with_variants(engine: Engine, count: int = 3) -> tuple[str, list[str]]:
    """A task that waits for its variants, none of which has started."""
    task_id = submit_task(engine, lifecycle="review", options={"variants": count})
    own = claim_one(engine)
    marks = [{"number": n, "job_id": own.job.id, "set": 1} for n in range(1, count + 1)]
    made = [
        submit_task(engine, lifecycle="review", parent_id=task_id, options={VARIANT: mark})
        for mark in marks
    ]
    needs = tuple(f"task:{each}" for each in made)
    suspend(engine, own, "variants", "subtasks", needs=needs, detail={"outcomes": True})
    return task_id, made


@check
def one_of_several_variants_is_chosen_by_several_processes(case: Case) -> None:
    """Each process chooses another one: one succeeds, and the rest of the variants is cancelled."""
    task_id, made = with_variants(case.engine, 4)
    for claimed in claim(case.engine, 3):
        complete(case.engine, claimed)
    done = [each for each in made if task_of(case.store, each).state == "completed"]
    engines = (case.engine, *case.others(2))
    choices = [
        partial(outcome, engine, c.ChooseVariant(task_id, each))
        for engine, each in zip(engines, done, strict=True)
    ]
    answers = together(*choices)
    assert sorted(answers) == ["already_chosen", "already_chosen", "chosen"], answers
    task = task_of(case.store, task_id)
    assert task.options[CHOSEN]["task_id"] == done[answers.index("chosen")]
    assert [task_of(case.store, each).state for each in made].count("cancelled") == 1
    assert (task.state, task.open_subtasks) == ("running", 0)
    with case.store.read() as view:
        assert names(view, task_id).count("variant_chosen") == 1


@check
def an_answer_chooses_and_cancels_in_one_transaction(case: Case) -> None:
    """The question may be answered by a process that has seen nothing of the variants."""
    task_id, made = with_variants(case.engine)
    complete(case.engine, claim_one(case.engine))
    for each in made[1:]:
        do(case.engine, c.CancelTask(each))
    detail = {"text": "Which?", "options": ["1"], "variants": made[:1]}
    suspend(case.engine, claim_one(case.engine), "choice", "question", detail=detail)
    assert outcome(case.another(), c.AnswerTask(task_id, "2")) == "variant_not_done"
    assert outcome(case.another(), c.AnswerTask(task_id, "9")) == "invalid"
    assert do(case.another(), c.AnswerTask(task_id, "1")) == "chosen"
    before = picture(case.store)
    rebuild(case.store, lease_us=1)
    assert picture(case.store) == before
    assert task_of(case.store, task_id).options[CHOSEN]["number"] == 1
    complete(case.engine, claim_one(case.engine))
    do(case.engine, c.RejectTask(task_id, run=True))
    again = claim_one(case.engine)
    assert again.job.options[CHOSEN]["task_id"] == made[0]
    assert "variants" not in again.job.options
