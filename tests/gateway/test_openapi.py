"""The served document: whole, true to what is answered, and with examples that fit."""

from collections.abc import Iterator
from typing import Any

import httpx2
import msgspec
import pytest
from openapi_python_client.schema import OpenAPI

from detent.kernel import commands as c
from detent.operations import OPERATIONS
from detent.operations.input_models import input_of
from detent.operations.parameters import INPUTS, OWN
from detent.operations.registry import Operation, Scope
from tests.gateway.installation import Installation
from tests.gateway.schema_material import QUERIES, leave_diff

Json = dict[str, Any]


@pytest.fixture(scope="module")
def document(owner: httpx2.Client) -> Json:
    answer = owner.get("/openapi.json")
    assert answer.status_code == 200
    found: Json = answer.json()
    return found


def operations(document: Json) -> Iterator[tuple[str, str, Json]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield method.upper(), path, operation


# ---- the document ----------------------------------------------------------------------------


def test_it_is_openapi_3_1(document: Json) -> None:
    assert document["openapi"].startswith("3.1")
    OpenAPI.model_validate(document)


def test_every_operation_is_in_it_under_its_own_name(document: Json) -> None:
    found = {
        (method, path): operation["operationId"] for method, path, operation in operations(document)
    }
    for each in OPERATIONS.values():
        assert found[each.method, each.path] == each.name
    assert len(set(found.values())) == len(found)


def test_every_reference_leads_somewhere(document: Json) -> None:
    for name in set(references(document)):
        place: Any = document
        for part in name.removeprefix("#/").split("/"):
            place = place[part]
        assert place


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            yield from references(each)


def test_every_operation_says_how_it_answers_and_how_it_refuses(document: Json) -> None:
    for method, path, operation in operations(document):
        answers = operation["responses"]
        assert any(status.startswith("2") for status in answers), path
        if operation.get("security") != []:
            assert {"401", "403", "421", "500", "503"} <= answers.keys(), (method, path)
        for status in answers:
            if status >= "4":
                shared = document["components"]["responses"][status]
                assert list(shared["content"]) == ["application/problem+json"]


def test_only_the_open_paths_and_the_login_ask_for_no_token(document: Json) -> None:
    assert document["security"] == [{"token": []}, {"session": []}]
    without = [
        path for _, path, operation in operations(document) if operation.get("security") == []
    ]
    logins = [f"/api/login{each}" for each in ("", "/cli", "/methods", "/oidc", "/oidc/callback")]
    hooks = ["/hooks/github", "/hooks/gitlab"]
    assert sorted(without) == [*logins, "/health", *hooks, "/ready"]


def test_every_parameter_has_a_meaning(document: Json) -> None:
    for _, path, operation in operations(document):
        for parameter in operation.get("parameters", ()):
            assert parameter.get("description"), (path, parameter["name"])
            assert "anyOf" not in parameter["schema"], "absent is not null"
    used = {each.name for operation in OPERATIONS.values() for each in operation.parameters}
    assert set(INPUTS) == used
    assert {name for name, _ in OWN} <= set(OPERATIONS)


def test_a_task_of_many_has_the_fields_of_a_single_one(document: Json) -> None:
    single = {each.name for each in OPERATIONS["submit_task"].parameters}
    body = document["paths"]["/api/bulk"]["post"]["requestBody"]
    listed = body["content"]["application/json"]["schema"]
    name = listed["items"]["$ref"].rpartition("/")[2]
    assert set(document["components"]["schemas"][name]["properties"]) == single


# ---- examples --------------------------------------------------------------------------------


def test_request_examples_are_accepted(document: Json) -> None:
    for each in OPERATIONS.values():
        body = document["paths"][each.path][each.method.lower()].get("requestBody")
        assert (body is None) == (input_of(each).body is None), each.name
        if body is not None:
            example = body["content"]["application/json"]["example"]
            assert input_of(each).read(example), each.name


def test_answer_examples_fit_their_shapes(document: Json) -> None:
    for each in OPERATIONS.values():
        answer = document["paths"][each.path][each.method.lower()]["responses"][str(each.status)]
        example = answer["content"]["application/json"]["example"]
        assert fits(each, example), each.name


# ---- true to what is answered ----------------------------------------------------------------


def fits(operation: Operation, answer: Any) -> bool:
    """Whether the answer has its declared shape, and no field beside it."""
    checked = msgspec.convert(answer, operation.response)
    return bool(msgspec.to_builtins(checked) == answer)


@pytest.fixture(scope="module")
def busy(gateway: Installation, owner: httpx2.Client) -> dict[str, str]:
    """A task with everything: a parent, a plan's steps, a run, evidence, a question."""
    plan = {"steps": [{"name": "a", "intent": "runQA"}]}
    parent = owner.post("/api/tasks", json={"intent": "runQA", "run": True, "max_budget_usd": 1})
    task_id = parent.json()["id"]
    owner.post("/api/tasks", json={"intent": "runQA", "parent_id": task_id})
    planned = {"intent": "runQA", "run": True, "options": {"plan": plan}}
    assert owner.post("/api/tasks", json=planned).status_code == 201
    claimed = gateway.claim(task_id)
    run_id = claimed.job.run_id
    assert run_id is not None
    gateway.report(c.AddEvidence(claimed.grant, run_id, "a.log", "log", "00" * 32, 1))
    leave_diff(gateway, claimed)
    gateway.report(c.ChargeRun(claimed.grant, run_id, 250_000, 10, 20))
    wait = c.SuspendRun(claimed.grant, run_id, "ask", "question", detail={"text": "Go on?"})
    gateway.report(wait)
    gateway.core.engine.transaction(
        lambda tx: tx.put_rows("resources", {"phone": {"capabilities": ["call"]}})
    )
    owner.put("/api/schedules/board", json={"intent": "runQA", "every_s": 60})
    owner.post("/api/projects", json={"name": "board"})
    owner.post("/api/pause", json={"intent": "review"})
    owner.put("/api/webhooks/board", json={"url": "https://example.org/hook"})
    owner.post("/api/webhooks/board/test")
    ids = {"task_id": task_id, "job_id": claimed.job.id, "run_id": run_id}
    return {**ids, "part": task_id[-8:], "name": "board"}


#: The operations of a run's own token are tested elsewhere.
READS = [
    each for each in OPERATIONS.values() if each.method == "GET" and each.scope is not Scope.RUN
]


@pytest.mark.parametrize("operation", READS, ids=lambda each: each.name)
def test_reads_answer_what_they_declare(
    owner: httpx2.Client, busy: dict[str, str], operation: Operation
) -> None:
    answer = owner.get(operation.path.format(**busy), params=QUERIES.get(operation.name))
    assert answer.status_code == 200
    assert fits(operation, answer.json())


#: Reads that have something to show in this installation; the others are short of material.
FULL = ("list_tasks", "list_jobs", "list_runs", "inbox", "task_runs", "task_evidence", "subtasks")


@pytest.mark.parametrize("name", FULL)
def test_the_reads_were_not_about_nothing(
    owner: httpx2.Client, busy: dict[str, str], name: str
) -> None:
    assert owner.get(OPERATIONS[name].path.format(**busy)).json()["items"]


@pytest.fixture
def asking(gateway: Installation, owner: httpx2.Client, busy: dict[str, str]) -> dict[str, str]:
    """A task with a question for one verb alone, whatever others did to theirs."""
    task_id = owner.post("/api/tasks", json={"intent": "runQA", "run": True}).json()["id"]
    gateway.ask(task_id, "Go on?")
    return {**busy, "task_id": task_id, "job_id": f"{task_id}-j1"}


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("add", {"source": "api", "intent": "runQA"}),
        ("enqueue", {"taskId": "e", "source": "api", "intent": "runQA", "priority": "P2"}),
        ("submit_task", {"intent": "runQA"}),
        ("submit_tasks", [{"intent": "runQA", "id": "m"}, {"intent": "runQA", "id": "m"}]),
        ("submit_job", {"intent": "runQA"}),
        ("edit_task", {"title": "x"}),
        ("signal_task", {"name": "x"}),
        ("signal_job", {"name": "y"}),
        ("answer_task", {"answer": "yes"}),
        ("create_token", {"name": "shown", "scopes": ["read"], "expires_in_s": 60}),
        ("create_login_code", None),
        ("pause", {"project": "p"}),
        ("resume", {"project": "p"}),
        ("cancel_task", {"reason": "enough"}),
    ],
)
def test_verbs_answer_what_they_declare(
    owner: httpx2.Client, asking: dict[str, str], name: str, body: Any
) -> None:
    operation = OPERATIONS[name]
    content = {**body, "payload": {}} if name == "enqueue" else body
    answer = owner.request(operation.method, operation.path.format(**asking), json=content)
    assert answer.status_code == operation.status, answer.text
    assert fits(operation, answer.json())
