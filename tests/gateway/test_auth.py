"""Who is let in: the first token, expiry and revocation, Host, Origin, cookies, the address."""

import socket
import stat
from pathlib import Path
from typing import Any

import httpx2
import pytest

from detent.engine import Engine
from detent.errors import Misconfigured
from detent.gateway.auth import allowed_hosts, ensure_token
from detent.gateway.server import Server
from detent.operations.context import Core
from detent.operations.registry import Scope
from detent.operations.tokens import digest_of
from detent.settings import Settings
from detent.store.memory import MemoryStore
from tests.gateway.installation import DEADLINE_S, Installation


def core_in(directory: Path, **settings: object) -> Core:
    store = MemoryStore()
    chosen = Settings(store_data_dir=str(directory), gateway_port=0, **settings)  # type: ignore[arg-type]
    return Core(store, Engine(store), chosen)


# ---- the first token -------------------------------------------------------------------------


def test_the_first_start_makes_a_token_that_only_its_owner_reads(tmp_path: Path) -> None:
    core = core_in(tmp_path / "data")
    file = ensure_token(core)
    token = file.read_text().strip()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert len(token) >= 43
    with core.store.read() as view:
        rows = view.rows("tokens")
    assert list(rows) == [digest_of(token)]
    assert token not in str(rows)
    assert "admin" in rows[digest_of(token)]["scopes"]


def test_later_starts_keep_the_token_and_close_the_file(tmp_path: Path) -> None:
    core = core_in(tmp_path)
    file = ensure_token(core)
    token = file.read_text()
    file.chmod(0o644)
    assert ensure_token(core).read_text() == token
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_new_store_takes_the_token_of_the_file_in(tmp_path: Path) -> None:
    token = ensure_token(core_in(tmp_path)).read_text().strip()
    other = core_in(tmp_path)
    ensure_token(other)
    with other.store.read() as view:
        assert list(view.rows("tokens")) == [digest_of(token)]


def test_a_revoked_token_is_not_brought_back_by_a_start(tmp_path: Path) -> None:
    core = core_in(tmp_path)
    token = ensure_token(core).read_text().strip()
    core.engine.transaction(lambda tx: tx.put_rows("tokens", {digest_of(token): None, "other": {}}))
    ensure_token(core)
    with core.store.read() as view:
        assert list(view.rows("tokens")) == ["other"]


def test_a_lost_file_is_made_again(tmp_path: Path) -> None:
    core = core_in(tmp_path)
    file = ensure_token(core)
    old = file.read_text().strip()
    file.unlink()
    new = ensure_token(core).read_text().strip()
    assert new != old
    with core.store.read() as view:
        assert digest_of(new) in view.rows("tokens")


# ---- tokens over HTTP ------------------------------------------------------------------------


def test_a_token_is_made_used_listed_and_revoked(
    gateway: Installation, owner: httpx2.Client
) -> None:
    made = owner.post("/api/tokens", json={"name": "ci", "scopes": ["submit", "read"]}).json()
    ci = gateway.client(made["token"])
    assert ci.get("/status").status_code == 200
    assert ci.post("/api/pause", json={}).json()["scope"] == "operate"
    listed = owner.get("/api/tokens")
    assert made["token"] not in listed.text
    (shown,) = (each for each in listed.json()["items"] if each["name"] == "ci")
    assert (shown["scopes"], shown["project"], shown["expires_at"]) == (
        ["read", "submit"],
        None,
        None,
    )
    again = owner.post("/api/tokens", json={"name": "ci", "scopes": ["read"]})
    assert (again.status_code, again.json()["code"]) == (409, "token_exists")
    assert owner.delete("/api/tokens/ci").json() == {"name": "ci", "revoked": 1}
    assert ci.get("/status").status_code == 401


def test_a_token_expires(gateway: Installation, owner: httpx2.Client) -> None:
    body = {"name": "brief", "scopes": ["read"], "expires_in_s": 3_600}
    made = owner.post("/api/tokens", json=body).json()
    brief = gateway.client(made["token"])
    assert brief.get("/status").status_code == 200
    key = digest_of(made["token"])

    def expire(tx: object) -> None:
        row = tx.rows("tokens")[key]  # type: ignore[attr-defined]
        tx.put_rows("tokens", {key: {**row, "expires_at": row["created_at"]}})  # type: ignore[attr-defined]

    gateway.core.engine.transaction(expire)
    gateway.server.gateway.tokens.forget()
    answer = brief.get("/status")
    assert (answer.status_code, answer.json()["code"]) == (401, "unauthorized")
    assert answer.headers["WWW-Authenticate"].startswith("Bearer")


def test_a_token_made_elsewhere_is_known_immediately(gateway: Installation) -> None:
    gateway.client().get("/status")
    assert gateway.client(gateway.token_for(Scope.READ)).get("/status").status_code == 200


@pytest.mark.parametrize("header", ["", "Bearer", "Basic b3duZXI6eA==", "Token abc", "Bearer-x y"])
def test_an_authorization_that_is_none(gateway: Installation, header: str) -> None:
    anonymous = gateway.client(None)
    answer = anonymous.get("/status", headers={"Authorization": header} if header else {})
    assert answer.status_code == 401


def test_a_token_in_the_url_is_no_token(gateway: Installation) -> None:
    anonymous = gateway.client(None)
    for name in ("token", "access_token", "authorization"):
        assert anonymous.get("/status", params={name: gateway.token}).status_code == 401


# ---- Host and Origin -------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "localhost:1", "127.0.0.1.nip.io"])
@pytest.mark.parametrize("path", ["/status", "/health", "/api/login"])
def test_a_host_that_is_not_ours(gateway: Installation, host: str, path: str) -> None:
    answer = gateway.client().get(path, headers={"Host": host})
    assert (answer.status_code, answer.json()["code"]) == (421, "wrong_host")


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "LocalHost", "[::1]"])
def test_every_name_of_this_machine(gateway: Installation, name: str) -> None:
    headers = {"Host": f"{name}:{gateway.port}"}
    assert gateway.client().get("/status", headers=headers).status_code == 200


def test_no_other_host_is_answered_unless_it_is_named() -> None:
    names = {"127.0.0.1", "localhost", "[::1]"}
    assert allowed_hosts(Settings(), 5680) == {f"{name}:5680" for name in names}
    assert allowed_hosts(Settings(), 80) == names
    own = {"fd00::1": "[fd00::1]:5680", "Tasks.Internal": "tasks.internal:5680"}
    for address, host in own.items():
        assert host in allowed_hosts(Settings(gateway_host=address), 5680)


def test_a_request_without_a_host(gateway: Installation) -> None:
    with socket.create_connection(("127.0.0.1", gateway.port), timeout=DEADLINE_S) as raw:
        raw.sendall(f"GET /health HTTP/1.0\r\nX-Forwarded-Host: {gateway.url[7:]}\r\n\r\n".encode())
        answer = raw.recv(65_536)
    assert b" 421 " in answer.partition(b"\r\n")[0]


def test_further_hosts_are_a_setting(tmp_path: Path) -> None:
    hosts = allowed_hosts(Settings(gateway_hosts=("Tasks.Example.org",)), 5680)
    assert "tasks.example.org" in hosts
    assert "tasks.example.org:5680" not in hosts


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1", "file://"])
def test_a_strangers_page_may_not_act(gateway: Installation, origin: str) -> None:
    before = gateway.head()
    answer = gateway.client().post(
        "/add", json={"source": "api", "intent": "runQA"}, headers={"Origin": origin}
    )
    assert (answer.status_code, answer.json()["code"]) == (403, "wrong_origin")
    assert gateway.head() == before


def test_no_answer_may_be_read_or_framed_by_another_site(owner: httpx2.Client) -> None:
    for path in ("/status", "/health", "/api/tasks/none"):
        headers = owner.get(path, headers={"Origin": "http://evil.example"}).headers
        assert "access-control-allow-origin" not in headers
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"


def test_no_other_origin_gets_cors_headers(owner: httpx2.Client) -> None:
    asked = {"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"}
    for path in ("/api/tasks", "/add", "/api/login"):
        answer = owner.options(path, headers=asked)
        assert answer.status_code == 405
        assert not [name for name in answer.headers if name.startswith("access-control-")]


# ---- the browser's session -------------------------------------------------------------------


def logged_in(gateway: Installation, owner: httpx2.Client) -> tuple[httpx2.Client, str]:
    """A browser with a session, and the code that it used."""
    code = owner.post("/api/login/codes").json()["code"]
    browser = gateway.client(None)
    answer = browser.post("/api/login", json={"code": code}, headers={"Origin": gateway.url})
    assert answer.status_code == 200, answer.text
    return browser, code


def test_a_code_is_exchanged_once_for_a_cookie(gateway: Installation, owner: httpx2.Client) -> None:
    browser, code = logged_in(gateway, owner)
    assert browser.get("/status").status_code == 200
    again = gateway.client(None).post("/api/login", json={"code": code})
    assert (again.status_code, again.json()["code"]) == (401, "unauthorized")


def test_a_code_lives_a_minute(gateway: Installation, owner: httpx2.Client) -> None:
    code = owner.post("/api/login/codes").json()["code"]
    key = digest_of(code)

    def wait(tx: Any) -> int:
        row = tx.rows("tokens")[key]
        tx.put_rows("tokens", {key: {**row, "expires_at": row["created_at"]}})
        return int(row["expires_at"] - row["created_at"])

    assert gateway.core.engine.transaction(wait) == 60_000_000
    assert gateway.client(None).post("/api/login", json={"code": code}).status_code == 401


def test_the_cookie_is_closed_to_scripts_and_other_sites(
    gateway: Installation, owner: httpx2.Client
) -> None:
    code = owner.post("/api/login/codes").json()["code"]
    answer = gateway.client(None).post("/api/login", json={"code": code})
    cookie = answer.headers["set-cookie"].lower()
    assert cookie.startswith("detent=")
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert gateway.token not in cookie


def test_behind_tls_the_cookie_is_bound_to_the_host(
    gateway: Installation, owner: httpx2.Client
) -> None:
    code = owner.post("/api/login/codes").json()["code"]
    origin = {"Origin": f"https://127.0.0.1:{gateway.port}"}
    answer = gateway.client(None).post("/api/login", json={"code": code}, headers=origin)
    cookie = answer.headers["set-cookie"].lower()
    assert cookie.startswith("__host-detent=")
    assert {"secure", "httponly", "samesite=strict", "path=/"} <= set(cookie.split("; "))
    assert "domain" not in cookie


def test_a_session_acts_only_from_our_own_page(gateway: Installation, owner: httpx2.Client) -> None:
    browser, _ = logged_in(gateway, owner)
    body = {"source": "api", "intent": "runQA"}
    before = gateway.head()
    for headers in ({}, {"Origin": "http://evil.example"}, {"Origin": "null"}):
        answer = browser.post("/add", json=body, headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (403, "wrong_origin")
    assert gateway.head() == before
    assert browser.post("/add", json=body, headers={"Origin": gateway.url}).status_code == 201


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_no_unsafe_method_is_served_to_a_session_of_another_page(
    gateway: Installation, owner: httpx2.Client, method: str
) -> None:
    browser, _ = logged_in(gateway, owner)
    paths = {"PUT": "/api/state/x", "PATCH": "/api/tasks/no", "DELETE": "/api/tasks/no"}
    for headers in ({}, {"Origin": "http://evil.example"}):
        answer = browser.request(method, paths.get(method, "/api/tasks"), headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (403, "wrong_origin")


def test_a_code_is_no_token(gateway: Installation, owner: httpx2.Client) -> None:
    """While it can still be exchanged: a used one would be refused for being used."""
    code = owner.post("/api/login/codes").json()["code"]
    assert gateway.client(code).get("/status").status_code == 401
    assert gateway.client(None, Cookie=f"detent={code}").get("/status").status_code == 401
    assert gateway.client(None).post("/api/login", json={"code": code}).status_code == 200


def test_a_session_has_its_makers_rights(gateway: Installation) -> None:
    reader = gateway.client(gateway.token_for(Scope.READ, project="alpha"))
    browser, _ = logged_in(gateway, reader)
    answer = browser.post("/api/pause", json={}, headers={"Origin": gateway.url})
    assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")


def test_logging_out_ends_the_session(gateway: Installation, owner: httpx2.Client) -> None:
    browser, _ = logged_in(gateway, owner)
    session = dict(browser.cookies)
    assert browser.post("/api/logout", headers={"Origin": gateway.url}).status_code == 204
    gone = gateway.client(None)
    gone.cookies.update(session)
    assert gone.get("/status").status_code == 401
    assert owner.post("/api/logout").status_code == 204
    assert owner.get("/status").status_code == 200


def test_revoking_a_token_ends_its_sessions(gateway: Installation, owner: httpx2.Client) -> None:
    made = owner.post("/api/tokens", json={"name": "person", "scopes": ["read"]}).json()
    browser, _ = logged_in(gateway, gateway.client(made["token"]))
    assert owner.delete("/api/tokens/person").json()["revoked"] == 2
    assert browser.get("/status").status_code == 401


# ---- the address -----------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org"])
def test_listening_beyond_this_machine_must_be_meant(tmp_path: Path, host: str) -> None:
    with pytest.raises(Misconfigured, match="other machines") as raised:
        Server(core_in(tmp_path, gateway_host=host)).start()
    assert raised.value.setting == "gateway.public"


def test_listening_everywhere_answers_only_to_named_hosts(tmp_path: Path) -> None:
    core = core_in(
        tmp_path, gateway_host="0.0.0.0", gateway_public=True, gateway_hosts=("tasks.example.org",)
    )
    token = ensure_token(core).read_text().strip()
    server = Server(core)
    url = f"http://127.0.0.1:{server.start()}/status"
    headers = {"Authorization": f"Bearer {token}"}
    try:
        named = httpx2.get(
            url, headers={**headers, "Host": "tasks.example.org"}, timeout=DEADLINE_S
        )
        other = httpx2.get(url, headers={**headers, "Host": "192.0.2.1"}, timeout=DEADLINE_S)
    finally:
        server.stop()
    assert (named.status_code, other.status_code) == (200, 421)
