"""Browser sessions: bound to their token, no bearer tokens, listed, and ended."""

from typing import Any

import httpx2
import pytest

from detent.operations.registry import Scope
from detent.operations.tokens import digest_of
from tests.gateway.installation import Installation, until


def sessions(client: httpx2.Client) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = client.get("/api/sessions").json()["items"]
    return items


def test_a_session_ends_when_its_token_expires(gateway: Installation) -> None:
    token = gateway.token_for(Scope.READ, lifetime_s=3_600)
    browser, session_id, _ = gateway.session_of(token)
    assert browser.get("/status").status_code == 200
    gateway.expire(token)
    assert browser.get("/status").status_code == 401
    assert session_id not in [each["id"] for each in sessions(gateway.client())]


def test_a_session_lasts_no_longer_than_its_token(gateway: Installation) -> None:
    token = gateway.token_for(Scope.READ, lifetime_s=600)
    *_, secret = gateway.session_of(token)
    with gateway.core.store.read() as view:
        rows = view.rows("tokens")
    assert rows[digest_of(secret)]["expires_at"] <= rows[digest_of(token)]["expires_at"]


def test_a_session_ends_when_its_token_is_gone_whatever_removed_it(gateway: Installation) -> None:
    token = gateway.token_for(Scope.READ)
    browser, *_ = gateway.session_of(token)
    gateway.core.engine.transaction(lambda tx: tx.put_rows("tokens", {digest_of(token): None}))
    gateway.server.gateway.tokens.forget()
    assert browser.get("/status").status_code == 401


def test_a_session_has_the_rights_that_its_token_has_now(gateway: Installation) -> None:
    token = gateway.token_for(Scope.READ, Scope.OPERATE)
    browser, *_ = gateway.session_of(token)
    assert browser.get("/api/me").json()["scopes"] == ["operate", "read"]
    key = digest_of(token)

    def narrow(tx: Any) -> None:
        tx.put_rows("tokens", {key: {**tx.rows("tokens")[key], "scopes": ["read"]}})

    gateway.core.engine.transaction(narrow)
    gateway.server.gateway.tokens.forget()
    assert browser.get("/api/me").json()["scopes"] == ["read"]


def test_the_secret_of_a_session_is_no_bearer_token(gateway: Installation) -> None:
    *_, secret = gateway.session_of(gateway.token_for(*Scope))
    assert gateway.client(secret).get("/status").status_code == 401


def test_a_token_is_no_cookie(gateway: Installation) -> None:
    for name in ("detent", "__Host-detent"):
        answer = gateway.client(None, Cookie=f"{name}={gateway.token}").get("/status")
        assert answer.status_code == 401


@pytest.mark.parametrize(
    ("path", "body"),
    [("/api/login/codes", None), ("/api/tokens", {"name": "kept", "scopes": ["read"]})],
)
def test_a_session_makes_neither_sessions_nor_tokens(
    gateway: Installation, path: str, body: object
) -> None:
    browser, *_ = gateway.session_of(gateway.token)
    answer = browser.post(path, json=body, headers={"Origin": gateway.url})
    assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")


def test_the_code_of_a_token_that_was_revoked_opens_nothing(
    gateway: Installation, owner: httpx2.Client
) -> None:
    made = owner.post("/api/tokens", json={"name": "leaving", "scopes": ["read"]}).json()
    code = gateway.client(made["token"]).post("/api/login/codes").json()["code"]
    gateway.expire(made["token"])
    assert gateway.client(None).post("/api/login", json={"code": code}).status_code == 401


def test_an_expired_token_does_not_keep_its_name_through_a_session(
    gateway: Installation, owner: httpx2.Client
) -> None:
    body = {"name": "again", "scopes": ["read"]}
    token = owner.post("/api/tokens", json=body).json()["token"]
    gateway.session_of(token)
    gateway.expire(token)
    assert owner.post("/api/tokens", json=body).status_code == 201


# ---- listing and ending ----------------------------------------------------------------------


def test_sessions_are_listed_without_their_secret_and_ended(
    gateway: Installation, owner: httpx2.Client
) -> None:
    token = gateway.token_for(Scope.READ, project="alpha")
    browser, session_id, secret = gateway.session_of(token)
    listed = owner.get("/api/sessions")
    (shown,) = (each for each in listed.json()["items"] if each["id"] == session_id)
    assert (shown["token"], shown["project"]) == (f"tester-{gateway.names}", "alpha")
    assert secret not in listed.text
    assert digest_of(secret) not in listed.text
    assert owner.delete(f"/api/sessions/{session_id}").json() == {"id": session_id, "ended": True}
    assert browser.get("/status").status_code == 401
    again = owner.delete(f"/api/sessions/{session_id}")
    assert (again.status_code, again.json()["code"]) == (404, "unknown_session")
    assert gateway.client(token).get("/status").status_code == 200


def test_without_admin_one_sees_and_ends_the_sessions_of_the_own_token(
    gateway: Installation,
) -> None:
    mine, theirs = gateway.token_for(Scope.READ), gateway.token_for(Scope.READ)
    own, other = gateway.session_of(mine), gateway.session_of(theirs)
    reader = gateway.client(mine)
    assert [each["id"] for each in sessions(reader)] == [own.id]
    assert [(each["id"], each["current"]) for each in sessions(own.browser)] == [(own.id, True)]
    assert [each["current"] for each in sessions(reader)] == [False]
    assert reader.delete(f"/api/sessions/{other.id}").status_code == 404
    assert other.browser.get("/status").status_code == 200
    assert reader.delete(f"/api/sessions/{own.id}").status_code == 200
    assert own.browser.get("/status").status_code == 401


def test_an_admin_of_one_project_sees_the_sessions_of_that_project(gateway: Installation) -> None:
    ours = gateway.session_of(gateway.token_for(Scope.READ, project="ours"))
    theirs = gateway.session_of(gateway.token_for(Scope.READ, project="theirs"))
    admin = gateway.client(gateway.token_for(Scope.ADMIN, project="ours"))
    seen = [each["id"] for each in sessions(admin)]
    assert ours.id in seen
    assert theirs.id not in seen
    assert admin.delete(f"/api/sessions/{theirs.id}").status_code == 404


def test_ending_a_session_closes_its_open_feed(gateway: Installation, owner: httpx2.Client) -> None:
    browser, session_id, _ = gateway.session_of(gateway.token_for(Scope.READ))
    with browser.stream("GET", "/api/events") as feed:
        assert feed.status_code == 200
        chunks = feed.iter_bytes()
        next(chunks)
        assert owner.delete(f"/api/sessions/{session_id}").status_code == 200
        for _ in chunks:
            pass  # the gateway ends it, or the client's time limit fails this test
    until(lambda: session_id not in [each["id"] for each in sessions(owner)])
