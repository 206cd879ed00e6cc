"""Checks of lists: filters, order, pages without gaps, and counts."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from detent.errors import Invalid
from detent.kernel import commands as c
from detent.store.types import Query
from detent.testing.conformance.case import Case, check
from detent.testing.conformance.work_actions import (
    claim,
    code,
    complete,
    do,
    outcome,
    submit_job,
    submit_task,
    suspend,
)


def a_list(case: Case) -> None:
    """Nine tasks: by turns P0, P1, P2, each three in another project, the first three done."""
    for number in range(9):
        submit_task(
            case.engine,
            task_id=f"t{number}",
            project=f"p{number // 3}",
            priority=f"P{number % 3}",
            tags=("even",) if number % 2 == 0 else ("odd", "strange"),
            title=f"Number {number}",
            budget=number if number > 4 else None,
        )
        case.clock.advance(us=1)
    for claimed in claim(case.engine, 3, projects=["p0"]):
        complete(case.engine, claimed)


def ids(case: Case, **query: Any) -> list[str]:
    with case.store.read() as view:
        return [row["id"] for row in view.page(Query("tasks", **query))]


@check
def rows_are_filtered(case: Case) -> None:
    a_list(case)
    for where, expected in (
        ({}, "012345678"),
        ({"project": "p1"}, "345"),
        ({"project": ["p0", "p2"]}, "012678"),
        ({"project": []}, ""),
        ({"budget": None}, "01234"),
        ({"budget": (">", 6)}, "78"),
        ({"budget": ("<=", 6)}, "56"),
        ({"tags": "strange"}, "1357"),
        ({"tags": "even", "project": "p1"}, "4"),
        ({"state": "done"}, "012"),
        ({"title": "Number 8"}, "8"),
        ({"created_at": (">=", case.clock() - 2)}, "78"),
        ({"project": "nowhere"}, ""),
    ):
        assert ids(case, where=where) == [f"t{number}" for number in expected], where


@check
def a_list_by_a_tag_follows_edits_and_deletions(case: Case) -> None:
    """Page by page in the order of creation, from both ends, with another filter beside it."""
    a_list(case)
    submit_task(case.engine, task_id="t9", tags=("odd", "odd"))
    do(case.engine, c.EditTask("t3", {"tags": ["even", "new"]}))
    do(case.engine, c.EditTask("t5", {"tags": []}))
    do(case.engine, c.DeleteTask("t1"))
    for tag, expected in (("odd", "79"), ("even", "023468"), ("new", "3"), ("none", "")):
        wanted = [f"t{number}" for number in expected]
        for descending in (False, True):
            found = [row["id"] for row in _pages(case, "created_at", descending, tags=tag)]
            assert found == (wanted[::-1] if descending else wanted), tag
    both = {"tags": "even", "project": "p2"}
    assert ids(case, where=both, order="created_at") == ["t6", "t8"]


@check
def rows_are_searched(case: Case) -> None:
    """In any letter case, and a sign that means something to the database is only a sign."""
    a_list(case)
    for search, expected in (("umber 8", "8"), ("NUMBER", "012345678"), ("t3", "3"), ("%", "")):
        assert ids(case, search=search) == [f"t{number}" for number in expected], search
    assert ids(case, search="number", where={"project": "p1"}, limit=2) == ["t3", "t4"]


@check
def letters_of_all_alphabets_are_searched_in_any_case(case: Case) -> None:
    titles = ("Größe ändern", "GRÖSSE ÄNDERN", "Проверка", "ΣΑΣ", "日本 100% ÉTÉ")
    for number, title in enumerate(titles):
        submit_task(case.engine, task_id=f"t{number}", title=title)
    for search, expected in (
        ("Ändern", "01"),
        ("ände", "01"),
        ("Grö", "01"),
        ("größe", "0"),
        ("ПРОВЕРКА", "2"),
        ("проверка", "2"),
        ("ΣΑΣ", "3"),
        ("0% été", "4"),
        ("日", "4"),
        ("Проверки", ""),
    ):
        assert ids(case, search=search) == [f"t{number}" for number in expected], search
    with case.store.read() as view:
        assert [row["id"] for row in view.page(Query("jobs", search="ПРОВ"))] == ["t2-j1"]


@check
def jobs_and_runs_are_found_by_the_title_of_their_task(case: Case) -> None:
    """Together with those that have the text themselves; a job without a task has no title."""
    a_list(case)
    alone = submit_job(case.engine, intent="number 1")
    with case.store.read() as view:
        jobs = [row["id"] for row in view.page(Query("jobs", search="UMBER 1"))]
        runs = [row["id"] for row in view.page(Query("runs", search="umber 1", order="queued_at"))]
        none = view.page(Query("runs", search="number_1"))
    assert sorted(jobs) == sorted([alone, "t1-j1"])
    assert runs == ["t1-j1-r1"]
    assert none == []


@check
def a_text_is_never_a_part_of_a_statement(case: Case) -> None:
    """Whatever it says to a database: it is stored, matched and searched for as it is."""
    text = "x'); DROP TABLE tasks; --\" :p0 ? $1 %s {} \\"
    plain, hostile = (
        submit_task(case.engine, project=each, intent=each, title=each, tags=(each,))
        for each in ("plain", text)
    )
    for where in ({"project": text}, {"intent": text}, {"tags": text}, {"id": hostile}):
        assert ids(case, where=where) == [hostile], where
    assert ids(case, search=text) == [hostile]
    assert ids(case, where={"project": "' OR '1'='1"}) == []
    assert sorted(ids(case)) == sorted([plain, hostile])


@check
def pages_meet(case: Case) -> None:
    """Page by page gives what one long page gives, in any order, both ways, whatever its ties."""
    a_list(case)
    for order in ("", "id", "priority", "created_at", "state"):
        for descending in (False, True):
            whole = ids(case, order=order, descending=descending)
            assert sorted(whole) == [f"t{number}" for number in range(9)]
            paged = [row["id"] for row in _pages(case, order or "id", descending)]
            assert paged == whole, (order, descending)
    by_priority = ids(case, order="priority")
    assert by_priority == ["t0", "t3", "t6", "t1", "t4", "t7", "t2", "t5", "t8"]
    assert ids(case, order="priority", descending=True) == by_priority[::-1]


def _pages(case: Case, order: str, descending: bool, **where: Any) -> Iterator[Mapping[str, Any]]:
    after = None
    with case.store.read() as view:
        while page := view.page(Query("tasks", where, order, descending, after, limit=2)):
            assert len(page) <= 2
            yield from page
            after = (page[-1][order], page[-1]["id"])


@check
def a_row_is_shown_with_all_its_columns(case: Case) -> None:
    a_list(case)
    do(case.engine, c.EditTask("t8", {"title": "Changed", "tags": ["new"], "priority": "P3"}))
    with case.store.read() as view:
        (row,) = view.page(Query("tasks", {"id": "t8"}))
        (job,) = view.page(Query("jobs", {"task_id": "t0"}))
        (run,) = view.page(Query("runs", {"job_id": "t0-j1"}))
        (queued,) = view.page(Query("queue", {"job_id": "t8-j1"}))
    shown = {name: row[name] for name in ("title", "tags", "priority", "depends_on", "options")}
    assert shown == {
        "title": "Changed",
        "tags": ["new"],
        "priority": "P3",
        "depends_on": [],
        "options": {},
    }
    assert (row["version"], job["state"], job["version"]) == (3, "completed", 6)
    assert (run["id"], run["state"], run["outcome"]) == ("t0-j1-r1", "succeeded", "done")
    assert (queued["project"], queued["worker"]) == ("p2", None)


@check
def rows_are_counted(case: Case) -> None:
    a_list(case)
    with case.store.read() as view:
        assert view.count_by(Query("tasks"), "state") == {"done": 3, "todo": 6}
        late = Query("tasks", {"project": ["p0", "p1"]}, "id", after=("t1", "t1"), limit=1)
        assert view.count_by(late, "priority") == {"P0": 2, "P1": 2, "P2": 2}
        assert view.count_by(Query("tasks", {"tags": "odd"}), "budget") == {None: 2, 5: 1, 7: 1}
        assert view.count_by(Query("queue"), "worker") == {None: 6}
        assert view.count_by(Query("waits"), "kind") == {}


@check
def questions_of_jobs_alone_are_listed(case: Case) -> None:
    """Oldest first, until they are answered; neither what a task asks nor any other wait."""
    submit_task(case.engine, task_id="t", intent="talk")
    for name, project in (("j1", "p1"), ("j2", "p2"), ("j3", "p2")):
        submit_job(case.engine, job_id=name, project=project, intent="talk", priority="P1")
    asking = {"t-j1": "question", "j1": "timer", "j2": "budget", "j3": "question"}
    held = {each.grant.job_id: each for each in claim(case.engine, 4, intents=["talk"])}
    for job_id in ("t-j1", "j1", "j3", "j2"):
        case.clock.advance(seconds=1)
        fields = {"detail": {"text": job_id}, "due_at": case.clock() + 9_000_000}
        suspend(case.engine, held[job_id], "ask", asking[job_id], **fields)
    with case.store.read() as view:
        rows = view.page(Query("questions", {}, "begun_at"))
        assert [row["job_id"] for row in rows] == ["j3", "j2"]
        assert view.count_by(Query("questions"), "kind") == {"budget": 1, "question": 1}
        assert view.page(Query("questions", {"project": "p1"}, "begun_at")) == []
        assert view.page(Query("questions", {}, "begun_at", after=(rows[0]["begun_at"], "j3"))) == [
            rows[1]
        ]
    assert rows[0] == {
        "job_id": "j3",
        "name": "ask",
        "kind": "question",
        "step": None,
        "begun_at": case.clock() - 1_000_000,
        "due_at": case.clock() + 8_000_000,
        "detail": {"text": "j3"},
        "project": "p2",
        "intent": "talk",
        "priority": "P1",
        "state": "waiting",
    }
    do(case.engine, c.AnswerJob("j3", "yes"))
    assert outcome(case.engine, c.AnswerJob("j3", "yes")) == "repeated"
    do(case.engine, c.CancelJob("j2"))
    with case.store.read() as view:
        assert view.page(Query("questions", {}, "begun_at")) == []


@check
def what_cannot_be_listed_is_refused(case: Case) -> None:
    """Names come from outside: only tables and columns that exist reach the database."""
    for query, column in (
        (Query("tokens"), "name"),
        (Query("tasks; drop"), "id"),
        (Query("tasks", {"id = '' or 1 --": 1}), "id"),
        (Query("tasks", order="rowid"), "id"),
        (Query("tasks"), "secret"),
    ):
        with case.store.read() as view:
            assert code(partial(view.count_by, query, column)) == Invalid.default_code
            assert column != "id" or code(partial(view.page, query)) == Invalid.default_code
