"""Every route × method × role, against the table of scopes in `scopes.py`."""

from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from detent.errors import Broken
from detent.gateway import application as app_module
from detent.gateway.application import make_app
from detent.gateway.operation_routes import ScopedRoute, ScopedWebSocket, check_scopes_declared
from detent.operations.registry import Scope
from detent.operations.tokens import digest_of
from tests.gateway.installation import Installation
from tests.gateway.scopes import ANY, CODE, OPEN, PROVIDER, SCOPES, SIGNED

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS")
PATHS = sorted({path for _, path in SCOPES})
#: Only the two literal paths are open.
NO_TOKEN = (OPEN, CODE, PROVIDER, SIGNED)
PUBLIC = [path for (_, path), scope in SCOPES.items() if scope in NO_TOKEN]
NEARLY_OPEN = ("/health/", "/healthz", "/HEALTH", "/health/x", "/ready/", "/readyz")
STRANGERS = ("none", "wrong", "expired")
ROLES = (*STRANGERS, *(scope.value for scope in Scope))


@pytest.fixture(scope="module")
def clients(gateway: Installation) -> dict[str, httpx2.Client]:
    """A client for each role."""
    held: dict[str, str | None] = {scope.value: gateway.token_for(scope) for scope in Scope}
    expired = gateway.token_for(*Scope, lifetime_s=-1)
    held |= {"none": None, "wrong": "detent_" + "x" * 43, "expired": expired}
    return {role: gateway.client(token) for role, token in held.items()}


def expected(role: str, method: str, path: str) -> set[int] | None:
    """The statuses that a role must get; None where it is let through to the operation."""
    scope = SCOPES.get((method, path))
    if scope == OPEN:
        return {200}
    if scope == PROVIDER:
        return {404}
    if scope == CODE:
        return {422}
    if scope == SIGNED:
        return {404}  # no secret is set
    if role in STRANGERS and path not in PUBLIC:
        return {401}
    if scope is None:
        return {405}
    return None if scope == ANY or role in (scope, "admin") else {403}


def ask(client: httpx2.Client, method: str, path: str) -> httpx2.Response:
    """A request that is let through or not, and does nothing if it is."""
    plain = path.replace("{file:path}", "a/b.txt").replace("{name}", "unknown")
    ids = (
        "task_id",
        "job_id",
        "run_id",
        "session_id",
        "intake_id",
        "part",
        "comment_id",
        "draft_id",
    )
    url = plain.format(**dict.fromkeys(ids, "no"))
    query = "?follow=false" if path == "/api/events" else ""
    if method in ("POST", "PUT", "PATCH"):
        return client.request(method, url, json={"no_such_field": 1})
    return client.request(method, url + query)


def cells() -> Iterator[tuple[str, str]]:
    for path in PATHS:
        for method in METHODS:
            yield method, path


@pytest.mark.parametrize("role", ROLES)
def test_every_route_and_method(
    gateway: Installation, clients: dict[str, httpx2.Client], role: str
) -> None:
    before = gateway.head()
    wrong = []
    for method, path in cells():
        status = ask(clients[role], method, path).status_code
        wanted = expected(role, method, path)
        let_through = status not in (401, 403, 405) and status < 500
        if not (let_through if wanted is None else status in wanted):
            wrong.append(f"{method} {path} as {role}: {status}, not {wanted or 'let through'}")
    assert wrong == []
    assert gateway.head() == before


def test_the_table_has_every_route(gateway: Installation) -> None:
    _, made = make_app(gateway.core, ["127.0.0.1"])
    made.dispatcher.close()
    http = {
        (route.method, route.path): route.needs.value if route.needs else None
        for route in made.routes
        if isinstance(route, ScopedRoute)
    }
    none = (OPEN, CODE, ANY, PROVIDER, SIGNED)
    typed = {key: None if scope in none else scope for key, scope in SCOPES.items()}
    assert http == typed
    sockets = {
        route.path: route.needs for route in made.routes if isinstance(route, ScopedWebSocket)
    }
    assert sockets == {"/api/feed": Scope.READ}


def test_a_route_without_a_scope_keeps_the_gateway_from_starting(gateway: Installation) -> None:
    async def handler(*_: object) -> None:
        raise AssertionError

    from starlette.routing import Route

    with pytest.raises(Broken, match="/secret declares no scope"):
        check_scopes_declared([Route("/secret", handler)])
    undeclared = ScopedRoute("GET", "/secret", handler, None)  # type: ignore[arg-type]
    with pytest.raises(Broken, match="/secret may not be open"):
        check_scopes_declared([undeclared])


def test_the_gateway_itself_checks_what_its_routes_declare(
    gateway: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    from starlette.routing import Route

    made = app_module._routes

    def one_more(*parts: Any) -> list[Any]:
        return [*made(*parts), Route("/secret", lambda _: None)]

    monkeypatch.setattr(app_module, "_routes", one_more)
    with pytest.raises(Broken, match="/secret declares no scope"):
        make_app(gateway.core, ["127.0.0.1"])


def test_an_unknown_path_tells_strangers_nothing(
    gateway: Installation, clients: dict[str, httpx2.Client]
) -> None:
    for path in ("/api", "/api/nothing", "/docs", "/api/tasks/", *NEARLY_OPEN):
        assert clients["none"].get(path).status_code == 401
        assert clients["run"].get(path).json()["code"] == "not_found"


# ---- what a request says of itself -----------------------------------------------------------

CLAIMS: list[dict[str, Any]] = [
    {"scopes": ["admin"]},
    {"actor": "owner"},
    {"created_by": "owner"},
    {"at": 0},
    {"created_at": 0},
]


def test_rights_are_what_the_servers_record_of_the_token_says(gateway: Installation) -> None:
    token = gateway.token_for(Scope.READ)
    key = digest_of(token)
    claims = {
        "X-Scopes": "admin",
        "X-Role": "admin",
        "X-Forwarded-User": "owner",
        "X-User": "owner",
    }
    reader = gateway.client(token, **claims)
    assert reader.get("/api/me").json()["scopes"] == ["read"]
    for query in ("", "?scopes=admin", "?scope=operate"):
        assert reader.post(f"/api/pause{query}", json={}).status_code == 403

    def write(scopes: list[str]) -> None:
        def change(tx: Any) -> None:
            tx.put_rows("tokens", {key: {**tx.rows("tokens")[key], "scopes": scopes}})

        gateway.core.engine.transaction(change)
        gateway.server.gateway.tokens.forget()

    write(["read", "submit", "unheard-of"])
    assert reader.get("/api/me").json()["scopes"] == ["read", "submit"]
    write(["submit"])
    assert reader.get("/api/me").status_code == 403


@pytest.mark.parametrize("claim", CLAIMS, ids=str)
def test_no_request_sets_its_actor_or_its_time(
    gateway: Installation, owner: httpx2.Client, claim: dict[str, Any]
) -> None:
    before = gateway.head()
    answer = owner.post("/api/tasks", json={"intent": "runQA", **claim})
    assert (answer.status_code, answer.json()["field"]) == (422, next(iter(claim)))
    assert gateway.head() == before


def test_every_route_with_a_body_takes_one_media_type(
    gateway: Installation, owner: httpx2.Client
) -> None:
    """Of a run that is not there no file is read: see the tests of evidence."""
    before = gateway.head()
    others = {"/api/bulk/lines": "application/json"}
    for method, path in SCOPES:
        if method in ("POST", "PUT", "PATCH") and "{file" not in path and path != "/api/logout":
            ids = ("task_id", "job_id", "run_id", "comment_id", "draft_id", "part")
            url = path.format(**dict.fromkeys(ids, "no"), name="unknown")
            for given in (others.get(path, "application/x-ndjson"), "text/plain", ""):
                answer = owner.request(method, url, content=b"{}", headers={"Content-Type": given})
                found = (answer.status_code, answer.json()["code"])
                assert found == (415, "wrong_media_type"), (method, path, given)
    assert gateway.head() == before


# ---- an agent's own work ---------------------------------------------------------------------


def test_an_agent_never_judges_its_own_work(gateway: Installation, owner: httpx2.Client) -> None:
    task_id = owner.post("/api/tasks", json={"intent": "runQA", "run": True}).json()["id"]
    gateway.complete(task_id)
    agent = gateway.client(gateway.token_for(Scope.REVIEW, root_id=task_id))
    before = gateway.head()
    for verb in ("accept", "reject"):
        answer = agent.post(f"/api/tasks/{task_id}/{verb}")
        assert (answer.status_code, answer.json()["code"]) == (403, "own_work")
    assert gateway.head() == before
