"""Checks of the order between projects: they share the claims by weight, and none is starved."""

from collections import Counter

from detent.engine import CommandRequest
from detent.ids import new_id
from detent.kernel import commands as c
from detent.testing.conformance.case import Case, check
from detent.testing.conformance.limits import set_limits
from detent.testing.conformance.work_actions import PERSON, claim, claim_one, complete, submit_job


def fill(case: Case, project: str, count: int, **fields: object) -> list[str]:
    """Submit equal jobs in one batch; their ids in the order of claims."""
    given = {"project": project, "intent": "dig", **fields}
    jobs = [c.SubmitJob(job_id=new_id(), **given) for _ in range(count)]  # type: ignore[arg-type]
    case.engine.execute([CommandRequest(job, PERSON, fresh=True) for job in jobs])
    case.clock.advance(us=1)
    return [job.job_id for job in jobs]


def projects_of(case: Case, claims: int, size: int = 1) -> list[str]:
    """The projects of the jobs that several claims get, in order."""
    return [each.project for _ in range(claims) for each in claim(case.engine, size)]


@check
def a_project_does_not_wait_for_all_jobs_of_another(case: Case) -> None:
    fill(case, "barn", 200)
    claim(case.engine, 20)
    first = submit_job(case.engine, project="field")
    assert claim_one(case.engine).job.id == first
    late = fill(case, "field", 3)
    claimed = claim(case.engine, 8)
    assert [each.job.id for each in claimed if each.project == "field"] == late
    assert [each.project for each in claimed][:6] == ["barn", "field"] * 3


@check
def projects_share_claims_by_weight(case: Case) -> None:
    """In claims of any size; the number of queued jobs does not matter."""
    set_limits(case, **{"project:field": {"weight": 3}})
    fill(case, "barn", 120)
    fill(case, "field", 60)
    assert Counter(projects_of(case, 20)) == {"barn": 5, "field": 15}
    assert Counter(projects_of(case, 4, size=10)) == {"barn": 10, "field": 30}
    set_limits(case, **{"project:field": None})
    assert Counter(projects_of(case, 10)) == {"barn": 5, "field": 5}


@check
def a_project_alone_gets_every_slot(case: Case) -> None:
    fill(case, "barn", 30)
    fill(case, "field", 2)
    assert Counter(projects_of(case, 1, size=20)) == {"barn": 18, "field": 2}
    assert projects_of(case, 1, size=20) == ["barn"] * 12


@check
def a_project_without_work_saves_nothing_up(case: Case) -> None:
    fill(case, "barn", 60)
    fill(case, "field", 1)
    projects_of(case, 40)
    fill(case, "field", 20)
    assert Counter(projects_of(case, 10)) == {"barn": 5, "field": 5}


@check
def the_order_within_a_project_is_that_of_rank(case: Case) -> None:
    plain = fill(case, "barn", 10)
    urgent = fill(case, "barn", 2, priority="P0", intent="saw")
    keyed = fill(case, "barn", 1, priority="P0", concurrency_key="rope")
    fill(case, "field", 20)
    claimed = [each.job.id for each in claim(case.engine, 16) if each.project == "barn"]
    assert claimed == [*urgent, *keyed, *plain[:5]]


@check
def jobs_that_a_limit_excludes_leave_their_share_to_others(case: Case) -> None:
    fill(case, "barn", 20)
    fill(case, "field", 20)
    fill(case, "yard", 20, concurrency_key="rope")
    set_limits(case, **{"project:barn": {"running": 2}})
    running = claim(case.engine, 12)
    assert Counter(each.project for each in running) == {"barn": 2, "field": 9, "yard": 1}
    for each in running:
        if each.project == "yard":
            complete(case.engine, each)
    assert Counter(projects_of(case, 1, size=4)) == {"field": 3, "yard": 1}
    set_limits(case, **{"project:barn": None})


@check
def many_projects_are_claimed_in_turn(case: Case) -> None:
    """Each of them once before one of them twice, whichever process has queued the jobs."""
    for engine in case.others(2):
        for number in range(30):
            submit_job(engine, project=f"p{number:02}")
    first = projects_of(case, 6, size=5)
    assert len(set(first)) == 30
    assert len(set(projects_of(case, 6, size=5))) == 30
    assert claim(case.engine, 5) == []


@check
def a_claimer_of_some_projects_shares_among_those(case: Case) -> None:
    for project in ("barn", "field", "yard"):
        fill(case, project, 20)
    claim(case.engine, 10, projects=["barn"])
    claimed = claim(case.engine, 10, projects=["barn", "field"])
    assert set(Counter(each.project for each in claimed).values()) == {5}
