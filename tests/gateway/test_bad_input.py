"""What is wrong with a request: each flaw has its documented answer, and nothing is stored."""

import socket
from typing import Any

import httpx2
import pytest

from detent.error_codes import CODES
from detent.errors import Invalid
from detent.gateway import strict_json
from detent.gateway.problems import EXPLAINED
from tests.gateway.installation import DEADLINE_S, Installation

TASK = b'{"intent": "runQA"}'
JSON = {"Content-Type": "application/json"}


def deep(levels: int) -> bytes:
    return b'{"intent": "runQA", "payload": ' + b"[" * levels + b"]" * levels + b"}"


def refused(
    gateway: Installation, answer: httpx2.Response, before: int, status: int, code: str
) -> Any:
    """The problem of an answer, which must be whole; nothing was stored."""
    problem = answer.json()
    assert (answer.status_code, problem["code"]) == (status, code), answer.text
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert problem["type"] == EXPLAINED + code
    assert (problem["title"], problem["status"]) == (CODES[code].meaning, status)
    assert problem["request_id"] == answer.headers["X-Request-Id"]
    assert problem["detail"]
    assert problem["hint"]
    assert "Traceback" not in answer.text
    assert gateway.head() == before
    return problem


# ---- bodies ----------------------------------------------------------------------------------

UNREADABLE = {
    "nothing": b"",
    "cut": b'{"intent": "runQA"',
    "no JSON": b"intent=runQA",
    "two documents": TASK + TASK,
    "trailing comma": b'{"intent": "runQA",}',
    "single quotes": b"{'intent': 'runQA'}",
    "NaN": b'{"intent": "runQA", "payload": NaN}',
    "Infinity": b'{"intent": "runQA", "payload": [-Infinity]}',
    "number beyond floats": b'{"intent": "runQA", "payload": 1e400}',
    "number of 101 digits": b'{"intent": "runQA", "payload": -' + b"1" * 101 + b"}",
    "number of 5000 digits": b'{"intent": "runQA", "payload": ' + b"9" * 5000 + b"}",
    "the same key twice": b'{"intent": "runQA", "intent": "review"}',
    "the same key twice below": b'{"intent": "runQA", "payload": {"a": 1, "a": 1}}',
    "not UTF-8": b'{"intent": "run\xffQA"}',
    "UTF-16": '{"intent": "runQA"}'.encode("utf-16"),
    "byte order mark": b"\xef\xbb\xbf" + TASK,
    "control character": b'{"intent": "run\x01QA"}',
}


@pytest.mark.parametrize("flaw", UNREADABLE)
def test_a_body_that_is_no_strict_json(
    gateway: Installation, owner: httpx2.Client, flaw: str
) -> None:
    before = gateway.head()
    answer = owner.post("/api/tasks", content=UNREADABLE[flaw], headers=JSON)
    refused(gateway, answer, before, 400, "unreadable")


def test_a_repeated_key_among_many_is_found_in_linear_time() -> None:
    """The search for the repeated key took hours for a body of the allowed size."""
    keys = b",".join(b'"%d": 1' % number for number in range(200_000))
    with pytest.raises(Invalid, match="the key '199999' is repeated in one object"):
        strict_json.decode(b'{%s, "199999": 1}' % keys, strict_json.Limits())


def test_a_login_takes_no_large_body(gateway: Installation) -> None:
    """Its sender is not known yet."""
    for path in ("/api/login", "/api/login/cli"):
        body = {"code": "x" * 20_000}
        answer = httpx2.post(gateway.url + path, json=body, timeout=DEADLINE_S)
        assert (answer.status_code, answer.json()["code"]) == (413, "too_large")


INVALID: dict[str, tuple[bytes, str]] = {
    "a list": (b"[]", "body"),
    "a text": (b'"runQA"', "body"),
    "null": (b"null", "body"),
    "no intent": (b"{}", "intent"),
    "null intent": (b'{"intent": null}', "intent"),
    "unknown field": (b'{"intent": "runQA", "colour": "red"}', "colour"),
    "number as text": (b'{"intent": 5}', "intent"),
    "text as bool": (b'{"intent": "runQA", "run": "true"}', "run"),
    "text as list": (b'{"intent": "runQA", "tags": "a"}', "tags"),
    "empty tag": (b'{"intent": "runQA", "tags": [""]}', "tags[0]"),
    "null payload": (b'{"intent": "runQA", "payload": null}', "payload"),
    "budget as text": (b'{"intent": "runQA", "max_budget_usd": "5"}', "max_budget_usd"),
    "time without zone": (b'{"intent": "runQA", "not_before": "2030-01-01"}', "not_before"),
    "too many tags": (b'{"intent": "runQA", "tags": [' + b'"a",' * 50 + b'"b"]}', "tags"),
    "title too long": (b'{"intent": "runQA", "title": "' + b"x" * 501 + b'"}', "title"),
    "own id malformed": (b'{"intent": "runQA", "id": "a b"}', "id"),
    "own id like a job's": (b'{"intent": "runQA", "id": "a-j1"}', "id"),
    "unknown source": (b'{"intent": "runQA", "source": "fax"}', "source"),
    "unknown priority": (b'{"intent": "runQA", "priority": "P9"}', "priority"),
    "unknown lifecycle": (b'{"intent": "runQA", "lifecycle": "job"}', "lifecycle"),
    "unknown option": (b'{"intent": "runQA", "options": {"shell": "rm"}}', "options.shell"),
    "unknown dependency": (b'{"intent": "runQA", "depends_on": ["none"]}', "depends_on"),
    "half a character": (b'{"intent": "runQA", "title": "\\ud800"}', "body"),
    "NUL": (b'{"intent": "runQA", "title": "a\\u0000b"}', "body"),
    "NUL in a key": (b'{"intent": "runQA", "payload": {"a\\u0000": 1}}', "body"),
}


@pytest.mark.parametrize("flaw", INVALID)
def test_a_field_that_is_wrong_is_named(
    gateway: Installation, owner: httpx2.Client, flaw: str
) -> None:
    content, field = INVALID[flaw]
    before = gateway.head()
    answer = owner.post("/api/tasks", content=content, headers=JSON)
    problem = refused(gateway, answer, before, 422, "invalid")
    assert problem["field"] == field


def test_an_unknown_intent_lists_the_known_ones(
    gateway: Installation, owner: httpx2.Client
) -> None:
    before = gateway.head()
    answer = owner.post("/add", json={"source": "api", "intent": "fly"})
    problem = refused(gateway, answer, before, 422, "unknown_intent")
    assert (problem["given"], problem["allowed"]) == ("fly", ["review", "runQA"])


def test_a_large_number_comes_back_as_it_was(owner: httpx2.Client) -> None:
    body = b'{"intent": "runQA", "payload": [9223372036854775808, -' + b"7" * 100 + b"]}"
    task_id = owner.post("/api/tasks", content=body, headers=JSON).json()["id"]
    assert owner.get(f"/api/tasks/{task_id}").json()["payload"] == [2**63, -int("7" * 100)]


def test_an_unknown_field_lists_the_known_ones(gateway: Installation, owner: httpx2.Client) -> None:
    answer = owner.post("/add", json={"source": "api", "intent": "runQA", "colour": "red"})
    assert set(answer.json()["allowed"]) == {
        "source",
        "intent",
        "priority",
        "payload",
        "not_before",
        "idempotency_key",
    }


def test_missing_fields_are_all_named(gateway: Installation, owner: httpx2.Client) -> None:
    before = gateway.head()
    problem = refused(gateway, owner.post("/enqueue", json={}), before, 422, "invalid")
    assert set(problem["missing"]) == {"taskId", "source", "intent", "priority", "payload"}
    problem = refused(gateway, owner.post("/api/tokens", json={}), before, 422, "invalid")
    assert problem["missing"] == ["name", "scopes"]


def test_what_was_given_is_shown_back_shortened(owner: httpx2.Client) -> None:
    answer = owner.post("/api/tasks", json={"intent": "runQA", "tags": "x" * 5_000})
    assert len(answer.json()["given"]) < 300


def test_an_edit_is_checked_like_a_submission(gateway: Installation, owner: httpx2.Client) -> None:
    task_id = owner.post("/api/tasks", json={"intent": "runQA"}).json()["id"]
    before = gateway.head()
    for body, field in (
        ({"tags": [""]}, "tags"),
        ({"title": "x" * 501}, "title"),
        ({"priority": "P9"}, "priority"),
        ({"options": {"shell": "rm"}}, "options.shell"),
        ({"max_budget_usd": -1}, "max_budget_usd"),
        ({"state": "done"}, "state"),
        ({}, "body"),
    ):
        answer = owner.patch(f"/api/tasks/{task_id}", json=body)
        assert refused(gateway, answer, before, 422, "invalid")["field"] == field


# ---- limits ----------------------------------------------------------------------------------


@pytest.mark.parametrize("levels", [64, 500, 100_000])
def test_a_body_that_is_too_deep(gateway: Installation, owner: httpx2.Client, levels: int) -> None:
    before = gateway.head()
    answer = owner.post("/api/tasks", content=deep(levels), headers=JSON)
    problem = refused(gateway, answer, before, 413, "too_large")
    assert problem["limit"] == 64


def test_a_body_as_deep_as_allowed(owner: httpx2.Client) -> None:
    assert owner.post("/api/tasks", content=deep(63), headers=JSON).status_code == 201


def test_a_text_that_is_too_long(gateway: Installation, owner: httpx2.Client) -> None:
    before = gateway.head()
    body = b'{"intent": "runQA", "payload": "' + b"x" * 1_048_577 + b'"}'
    answer = owner.post("/api/tasks", content=body, headers=JSON)
    assert refused(gateway, answer, before, 413, "too_large")["limit"] == 1_048_576


def test_a_text_as_long_as_allowed(owner: httpx2.Client) -> None:
    body = b'{"intent": "runQA", "payload": "' + b"x" * 1_048_576 + b'"}'
    assert owner.post("/api/tasks", content=body, headers=JSON).status_code == 201


def test_a_body_that_declares_too_much_is_not_read(
    gateway: Installation, owner: httpx2.Client
) -> None:
    """Only the headers are sent: the answer does not wait for the rest."""
    before = gateway.head()
    head = (
        f"POST /api/tasks HTTP/1.1\r\nHost: 127.0.0.1:{gateway.port}\r\n"
        f"Authorization: Bearer {gateway.token}\r\nContent-Type: application/json\r\n"
        "Content-Length: 10485761\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", gateway.port), timeout=DEADLINE_S) as raw:
        raw.sendall(head.encode())
        answer = raw.recv(65_536)
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert gateway.head() == before


def test_a_body_without_a_length_is_cut_off_at_the_limit(
    gateway: Installation, owner: httpx2.Client
) -> None:
    before = gateway.head()
    piece = b" " * 1_048_576
    answer = owner.post("/api/tasks", content=(piece for _ in range(11)), headers=JSON)
    refused(gateway, answer, before, 413, "too_large")


# ---- media types -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "media_type",
    [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/json; charset=latin-1",
        "application/x-ndjson",
        "application/merge-patch+json",
        "",
    ],
)
def test_another_media_type(gateway: Installation, owner: httpx2.Client, media_type: str) -> None:
    before = gateway.head()
    answer = owner.post("/api/tasks", content=TASK, headers={"Content-Type": media_type})
    problem = refused(gateway, answer, before, 415, "wrong_media_type")
    assert problem["allowed"] == ["application/json"]


@pytest.mark.parametrize("media_type", ["application/json; charset=utf-8", "Application/JSON"])
def test_the_same_media_type_in_other_words(owner: httpx2.Client, media_type: str) -> None:
    answer = owner.post("/api/tasks", content=TASK, headers={"Content-Type": media_type})
    assert answer.status_code == 201


def test_a_compressed_body(gateway: Installation, owner: httpx2.Client) -> None:
    before = gateway.head()
    answer = owner.post("/api/tasks", content=TASK, headers={**JSON, "Content-Encoding": "gzip"})
    refused(gateway, answer, before, 415, "wrong_media_type")


# ---- queries, ids, cursors -------------------------------------------------------------------

QUERIES = {
    "colour=red": "colour",
    "limit=0": "limit",
    "limit=1001": "limit",
    "limit=many": "limit",
    "limit=5&limit=6": "limit",
    "state=asleep": "state",
    "sort=colour": "sort",
    "priority=P7": "priority",
    "lifecycle=job": "lifecycle",
    "active=perhaps": "active",
    "cursor=abc": "cursor",
    "cursor=%00": "cursor",
    "intent=a%00b": "intent",
}


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_that_is_wrong(gateway: Installation, owner: httpx2.Client, query: str) -> None:
    answer = owner.get(f"/api/tasks?{query}")
    problem = answer.json()
    assert (answer.status_code, problem["field"]) == (422, QUERIES[query]), answer.text
    assert problem["detail"].startswith(QUERIES[query]), "the message names the field"
    assert "Input should" not in problem["detail"]


def test_a_cursor_of_another_list_or_sort(owner: httpx2.Client) -> None:
    for _ in range(3):
        owner.post("/api/tasks", json={"intent": "runQA"})
    cursor = owner.get("/api/tasks?limit=1").json()["cursor"]
    assert owner.get("/api/tasks", params={"cursor": cursor}).status_code == 200
    for path, sort in (("tasks", "state_at"), ("jobs", "-created_at"), ("runs", "-queued_at")):
        answer = owner.get(f"/api/{path}", params={"cursor": cursor, "sort": sort})
        assert (answer.status_code, answer.json()["field"]) == (422, "cursor"), path


def test_a_query_beside_a_body(gateway: Installation, owner: httpx2.Client) -> None:
    before = gateway.head()
    answer = owner.post("/api/tasks?run=true", content=TASK, headers=JSON)
    assert refused(gateway, answer, before, 422, "invalid")["field"] == "run"


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/api/tasks/none", "unknown_task"),
        ("/api/tasks/%2e%2e%2fetc", "not_found"),
        ("/api/tasks/none/why", "unknown_task"),
        ("/api/jobs/none", "unknown_job"),
        ("/api/runs/none", "unknown_run"),
        ("/api/runs/..%2f..%2fetc/output", "not_found"),
        ("/api/lifecycles/none", "unknown_lifecycle"),
        ("/api/nothing", "not_found"),
    ],
)
def test_an_unknown_id(gateway: Installation, owner: httpx2.Client, path: str, code: str) -> None:
    refused(gateway, owner.get(path), gateway.head(), 404, code)


def test_an_id_that_no_store_could_hold(gateway: Installation, owner: httpx2.Client) -> None:
    answer = owner.get("/api/tasks/a%00b")
    assert refused(gateway, answer, gateway.head(), 422, "invalid")["field"] == "task_id"


@pytest.mark.parametrize(
    ("method", "path", "field"),
    [
        ("GET", "/api/tasks/" + "x" * 201, "task_id"),
        ("POST", "/api/jobs/" + "x" * 201 + "/retry", "job_id"),
        ("DELETE", "/api/tokens/" + "x" * 201, "name"),
        ("PUT", "/api/webhooks/%C2%84", "name"),
    ],
)
def test_an_id_beyond_its_bounds(
    gateway: Installation, owner: httpx2.Client, method: str, path: str, field: str
) -> None:
    body = {"url": "https://example.org/"} if method == "PUT" else None
    answer = owner.request(method, path, json=body)
    assert refused(gateway, answer, gateway.head(), 422, "invalid")["field"] == field


def test_an_unknown_token_to_revoke(gateway: Installation, owner: httpx2.Client) -> None:
    refused(gateway, owner.delete("/api/tokens/unknown"), gateway.head(), 404, "unknown_token")


def test_a_method_that_the_path_does_not_take(gateway: Installation, owner: httpx2.Client) -> None:
    answer = owner.put("/api/tasks/none")
    problem = refused(gateway, answer, gateway.head(), 405, "method_not_allowed")
    assert answer.headers["Allow"] == "DELETE, GET, PATCH"
    assert problem["allowed"] == ["DELETE", "GET", "PATCH"]


def test_an_error_of_our_own_shows_no_traceback(
    gateway: Installation, owner: httpx2.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a secret of the program")

    monkeypatch.setattr("detent.gateway.operation_dispatcher.call", broken)
    answer = owner.get("/status")
    refused(gateway, answer, gateway.head(), 500, "internal")
    assert "secret" not in answer.text
    assert "ZeroDivision" not in answer.text


# ---- tokens ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"name": "x"}, "scopes"),
        ({"name": "x", "scopes": []}, "scopes"),
        ({"name": "x", "scopes": ["root"]}, "scopes"),
        ({"name": "", "scopes": ["read"]}, "name"),
        ({"name": "a b", "scopes": ["read"]}, "name"),
        ({"name": "x", "scopes": ["read"], "expires_in_s": 0}, "expires_in_s"),
        ({"name": "x", "scopes": ["read"], "expires_in_s": 1.5}, "expires_in_s"),
    ],
)
def test_a_token_that_cannot_be_made(
    gateway: Installation, owner: httpx2.Client, body: dict[str, object], field: str
) -> None:
    before = owner.get("/api/tokens").json()
    answer = owner.post("/api/tokens", json=body)
    assert refused(gateway, answer, gateway.head(), 422, "invalid")["field"] == field
    assert owner.get("/api/tokens").json() == before
