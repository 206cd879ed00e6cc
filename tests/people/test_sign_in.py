"""People who sign in through a real OpenID Connect provider, over HTTP and on the command line."""

import itertools
import threading
from collections.abc import Callable
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from click.testing import CliRunner, Result

from detent.cli import browser_login, contexts_file
from detent.cli.main import cli
from detent.errors import Misconfigured
from detent.gateway.identity_provider import IdentityProvider, check_settings
from detent.kernel import commands as c
from detent.operations import users
from detent.operations.users import Identity
from detent.pkce import challenge_of
from detent.settings import Settings
from tests.gateway.installation import Installation, installed, until
from tests.gateway.readers import messages, socket_to, submit, until_closed
from tests.people.provider import People, oidc_settings, sign_in
from tests.ports import free_port

DIFF = "diff --git a/a.txt b/a.txt\n--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-a\n+b\n"
BEGIN, CALLBACK = "/api/login/oidc", "/api/login/oidc/callback"


def me(browser: httpx2.Client) -> dict[str, Any]:
    found: dict[str, Any] = browser.get("/api/me").json()
    return found


def post(browser: httpx2.Client, path: str, **body: Any) -> httpx2.Response:
    origin = str(browser.base_url).rstrip("/")
    return browser.post(path, json=body, headers={"Origin": origin})


def submitted(gateway: Installation, project: str) -> str:
    made = gateway.client().post(
        "/api/tasks", json={"intent": "runQA", "project": project, "run": True}
    )
    return str(made.json()["id"])


def test_a_person_with_a_role_gets_a_session(signed: People) -> None:
    browser, end = sign_in(signed.gateway, "ada")
    assert end == f"{signed.gateway.url}/"
    found = me(browser)
    assert (found["name"], found["project"], found["projects"]) == ("ada@example.com", None, [None])
    assert "admin" in found["scopes"]
    cookie = next(each for each in browser.cookies.jar if each.name == "detent")
    assert cookie.has_nonstandard_attr("HttpOnly")
    assert cookie.get_nonstandard_attr("SameSite") == "strict"


def test_the_provider_gets_pkce_state_and_nonce(signed: People) -> None:
    begun = signed.gateway.client(None).get(BEGIN)
    query = parse_qs(urlsplit(begun.headers["location"]).query)
    assert query["code_challenge_method"] == ["S256"]
    assert query["redirect_uri"] == [signed.gateway.url + CALLBACK]
    again = signed.gateway.client(None).get(BEGIN)
    other = parse_qs(urlsplit(again.headers["location"]).query)
    for name in ("state", "nonce", "code_challenge"):
        assert len(query[name][0]) >= 43
        assert query[name] != other[name]
    header = begun.headers["set-cookie"]
    assert header.startswith("detent-sign-in=")
    assert "HttpOnly" in header
    assert "SameSite=lax" in header


@pytest.mark.parametrize("login", ["otto", "eve", "mel", "owner"])
def test_without_a_role_or_an_own_name_there_is_no_session(signed: People, login: str) -> None:
    browser, end = sign_in(signed.gateway, login)
    reason = "no-role" if login == "otto" else "failed"
    assert end == f"{signed.gateway.url}/#sign-in={reason}"
    assert browser.get("/api/me").status_code == 401


# ---- attempts that do not fit ----------------------------------------------------------------


def test_a_response_of_the_provider_counts_only_in_the_browser_that_began(signed: People) -> None:
    victim = signed.gateway.client(None)
    answer = victim.get(f"{CALLBACK}?code=x&state=y")
    assert answer.headers["location"].endswith("/#sign-in=failed")
    victim.get(BEGIN)
    answer = victim.get(f"{CALLBACK}?code=x&state=of-the-attacker")
    assert answer.headers["location"].endswith("/#sign-in=failed")
    assert victim.get("/api/me").status_code == 401


@pytest.mark.parametrize("broken", ["code", "nonce", "verifier"])
def test_a_changed_attempt_is_refused(
    signed: People, broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    identify = IdentityProvider.identify

    async def changed(self: IdentityProvider, code: str, attempt: Any, uri: str) -> Any:
        if broken == "code":
            return await identify(self, "another", attempt, uri)
        return await identify(self, code, attempt._replace(**{broken: "x" * 43}), uri)

    monkeypatch.setattr(IdentityProvider, "identify", changed)
    browser, end = sign_in(signed.gateway, "ada")
    assert "#sign-in=" in end
    assert browser.get("/api/me").status_code == 401


def test_a_person_who_declines_at_the_provider_is_not_signed_in(signed: People) -> None:
    browser = signed.gateway.client(None)
    begun = browser.get(BEGIN)
    state = parse_qs(urlsplit(begun.headers["location"]).query)["state"][0]
    answer = browser.get(f"{CALLBACK}?error=access_denied&state={state}")
    assert answer.headers["location"].endswith("/#sign-in=failed")


# ---- roles -----------------------------------------------------------------------------------


def test_a_role_counts_in_its_project_alone(signed: People) -> None:
    gateway = signed.gateway
    payment, order = submitted(gateway, "payments"), submitted(gateway, "shop")
    foreign = submitted(gateway, "secret")
    rita, _ = sign_in(gateway, "rita")
    assert (me(rita)["project"], me(rita)["projects"]) == ("payments", ["payments", "shop"])
    assert me(rita)["scopes"] == ["read", "review", "submit"]
    assert [each["id"] for each in rita.get("/api/tasks").json()["items"]] == [payment]
    for hidden in (order, foreign):
        assert rita.get(f"/api/tasks/{hidden}").json()["code"] == "unknown_task"
    assert post(rita, f"/api/tasks/{payment}/cancel", reason="x").json()["scope"] == "operate"
    assert rita.get("/api/users").status_code == 403

    refused = post(rita, "/api/me/project", project="secret")
    assert (refused.status_code, refused.json()["code"]) == (403, "no_role")
    assert post(rita, "/api/me/project").json()["code"] == "no_role"
    switched = post(rita, "/api/me/project", project="shop").json()
    assert (switched["project"], switched["scopes"]) == ("shop", ["read"])
    assert me(rita)["scopes"] == ["read"]
    assert rita.get(f"/api/tasks/{order}").status_code == 200
    assert rita.get(f"/api/tasks/{payment}").status_code == 404
    assert post(rita, "/api/tasks", intent="runQA").status_code == 403


def test_a_verdict_an_answer_and_a_comment_carry_the_person(signed: People) -> None:
    gateway = signed.gateway
    done = submitted(gateway, "payments")
    gateway.complete(done)
    asked = submitted(gateway, "payments")
    gateway.ask(asked, "Which?")
    blob = gateway.core.store.blobs.put(BytesIO(DIFF.encode()))
    written = submitted(gateway, "payments")
    claimed = gateway.claim(written)
    run_id = str(claimed.job.run_id)
    gateway.report(c.AddEvidence(claimed.grant, run_id, "changes.diff", "unknown", *blob))
    gateway.report(c.CompleteRun(claimed.grant, run_id, None, 0))
    rita, _ = sign_in(gateway, "rita")
    diff = rita.get(f"/api/tasks/{written}/review").json()["diff"]["sha256"]
    where = {"file": "a.txt", "side": "after", "start": 1, "end": 1, "diff": diff}
    added = post(rita, f"/api/tasks/{written}/comments", text="Why?", **where)
    assert added.status_code in (200, 201), added.text
    assert post(rita, f"/api/tasks/{done}/accept", comment="good").status_code == 200
    assert post(rita, f"/api/tasks/{asked}/answer", answer="this").status_code == 200
    with gateway.core.store.read() as view:
        events = [e for each in (done, asked, written) for e in view.events(0, 100, stream=each)]
    actors = {each.name: each.actor for each in events}
    assert actors["task_accepted"] == "rita@example.com"
    assert actors["task_answered"] == "rita@example.com"
    assert actors["comment_added"] == "rita@example.com"


def test_a_token_has_no_other_project(signed: People) -> None:
    refused = signed.gateway.client().post("/api/me/project", json={"project": "shop"})
    assert (refused.status_code, refused.json()["field"]) == (422, "project")
    assert me(signed.gateway.client())["projects"] == []


def test_a_lost_role_ends_the_open_feeds_of_its_project(tmp_path: Path) -> None:
    with installed(tmp_path, oidc_roles=("admins=admin", "guests=viewer:shop")) as gateway:
        ada = Identity("https://sso.example", "1", "ada@example.com", ("admins", "guests"))
        secret, _ = users.sign_in(gateway.core, ada)
        cookie = {"Cookie": f"detent={secret}"}
        signed_in = partial(socket_to, gateway, additional_headers=cookie, origin=gateway.url)
        with (
            signed_in() as everything,
            signed_in("?project=shop") as shop,
        ):
            users.sign_in(gateway.core, ada._replace(groups=("guests",)))
            until(lambda: len(gateway.hub.readers) == 1)
            until_closed(everything)
            assert everything.close_code == 4401
            submit(gateway.client(), project="shop")
            names = [each.get("name") for each in itertools.islice(messages(shop), 2)]
            assert names == [None, "task_created"]


# ---- users and the end of sessions -----------------------------------------------------------


def test_people_are_listed_and_removed(signed: People) -> None:
    vic, _ = sign_in(signed.gateway, "vic")
    owner = signed.gateway.client()
    listed = {each["name"]: each for each in owner.get("/api/users").json()["items"]}
    assert listed["vic@example.com"]["roles"] == ["viewer:shop"]
    assert listed["vic@example.com"]["groups"] == ["guests"]
    assert listed["vic@example.com"]["sessions"] == 1
    assert owner.get("/api/sessions").text.count("vic@example.com") == 1
    assert "vic@example.com" not in owner.get("/api/tokens").text
    removed = owner.delete("/api/users/vic@example.com").json()
    assert removed == {"name": "vic@example.com", "ended_sessions": 1}
    assert vic.get("/api/me").status_code == 401
    assert owner.delete("/api/users/vic@example.com").json()["code"] == "unknown_user"


def test_a_token_does_not_take_the_name_of_a_person_nor_revoke_one(signed: People) -> None:
    browser, _ = sign_in(signed.gateway, "ada")
    owner = signed.gateway.client()
    taken = owner.post("/api/tokens", json={"name": "ada@example.com", "scopes": ["read"]})
    assert taken.json()["code"] == "token_exists"
    assert owner.delete("/api/tokens/ada@example.com").json()["code"] == "unknown_token"
    assert browser.get("/api/me").status_code == 200


def test_signing_out_ends_the_session(signed: People) -> None:
    browser, _ = sign_in(signed.gateway, "ada")
    assert post(browser, "/api/logout").status_code == 204
    assert browser.get("/api/me").status_code == 401


def test_the_session_of_a_person_creates_neither_sessions_nor_tokens(signed: People) -> None:
    browser, _ = sign_in(signed.gateway, "ada")
    made = post(browser, "/api/tokens", name="x", scopes=["read"])
    assert made.status_code == 403
    assert post(browser, "/api/login/codes").status_code == 403


# ---- the command line ------------------------------------------------------------------------


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("DETENT_CONTEXT", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: str, code: int = 0) -> Result:
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == code, result.output
    return result


def mcp_text(client: httpx2.Client, tool: str, **arguments: Any) -> str:
    """The response to the call of a tool."""
    params = {"name": tool, "arguments": arguments}
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    answer = client.post("/mcp", json=call)
    assert answer.status_code == 200, answer.text
    return str(answer.text)


def as_person(gateway: Installation, login: str) -> Callable[[str], None]:
    """Opens a link as the person would in a browser, up to the command line."""

    def visit(link: str) -> None:
        _, end = sign_in(gateway, login, link.removeprefix(gateway.url))
        httpx2.get(end.replace("state=", "state=wrong"), timeout=90)  # is ignored
        httpx2.get(end, timeout=90)

    def show(link: str) -> None:
        threading.Thread(target=visit, args=(link,)).start()

    return show


def test_the_command_line_signs_in_through_the_browser(
    signed: People, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = signed.gateway.url
    monkeypatch.setattr("detent.cli.login._show", as_person(signed.gateway, "rita"))
    printed = run("login", url, "--name", "work", "--project", "payments").stdout
    assert f"Signed in to {url}, as rita@example.com in project payments" in printed
    task = submitted(signed.gateway, "payments")
    foreign = submitted(signed.gateway, "secret")
    assert task in run("show", task).stdout
    run("show", foreign, code=3)
    assert "does not have the scope operate" in run("cancel", task, code=4).output
    assert "token: rita@example.com, scopes read, review, submit, payments" in run("doctor").stdout
    token = contexts_file.read().contexts["work"].token
    mcp = signed.gateway.client(token, Accept="application/json, text/event-stream")
    assert task in mcp_text(mcp, "show_task", task_id=task)
    assert "unknown_task" in mcp_text(mcp, "show_task", task_id=foreign)
    assert "needs the scope operate" in mcp_text(mcp, "cancel_task", task_id=task)
    assert run("logout").stdout == f"Signed out of {url}.\n"
    assert contexts_file.read().contexts == {}
    assert signed.gateway.client(token).get("/api/me").status_code == 401


def test_a_code_of_the_command_line_needs_its_verifier_and_works_once(signed: People) -> None:
    client = signed.gateway.client(None)
    challenge, state = challenge_of("v" * 60), "s" * 43
    begin = f"{BEGIN}?port=40000&state={state}&challenge={challenge}"
    _, end = sign_in(signed.gateway, "ada", begin)
    query = parse_qs(urlsplit(end).query)
    assert end.startswith("http://127.0.0.1:40000/?code=")
    assert query["state"] == [state]
    body = {"code": query["code"][0], "verifier": "v" * 60}
    wrong = client.post("/api/login/cli", json={**body, "verifier": "w" * 60})
    assert wrong.status_code == 401
    assert signed.gateway.client(body["code"]).get("/api/me").status_code == 401
    assert client.post("/api/login/cli", json=body).json()["name"] == "ada@example.com"
    assert client.post("/api/login/cli", json=body).status_code == 401


@pytest.mark.parametrize(
    "query",
    [
        "port=80&state={s}&challenge={s}",
        "port=x&state={s}&challenge={s}",
        "port=40000&state={s}",
        "port=40000&state=a%0Db&challenge={s}",
    ],
)
def test_a_command_line_is_on_loopback_with_its_own_state(signed: People, query: str) -> None:
    answer = signed.gateway.client(None).get(f"{BEGIN}?{query.format(s='s' * 43)}")
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid")


# ---- without a provider, and with one that is wrong ------------------------------------------


def test_a_gateway_without_a_provider_offers_none(tmp_path: Path, home: Path) -> None:
    with installed(tmp_path / "plain") as plain:
        assert plain.client(None).get("/api/login/methods").json() == {"oidc": None}
        assert plain.client(None).get(BEGIN).status_code == 404
        assert browser_login.offered_by(plain.url, None) is None


def test_a_provider_that_does_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DETENT_TEST_OIDC_SECRET", "x")
    settings = oidc_settings(f"http://127.0.0.1:{free_port()}")
    with installed(tmp_path, **settings) as gateway:
        answer = gateway.client(None).get(BEGIN)
        assert answer.headers["location"] == f"{gateway.url}/#sign-in=unavailable"
        assert gateway.client().get("/api/me").status_code == 200


def test_an_issuer_that_calls_itself_otherwise(
    signed: People, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DETENT_TEST_OIDC_SECRET", "x")
    other = signed.issuer.replace("127.0.0.1", "localhost")
    with installed(tmp_path, **oidc_settings(other)) as gateway:
        answer = gateway.client(None).get(BEGIN)
        assert answer.headers["location"] == f"{gateway.url}/#sign-in=misconfigured"


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"oidc_issuer": "http://sso.example.com"}, "must begin with https://"),
        ({"oidc_url": "http://detent.example.com"}, "must begin with https://"),
        ({"oidc_client_id": ""}, "oidc.client_id is missing"),
        ({"oidc_client_secret": "env:NOT_SET_ANYWHERE"}, "is not set"),
        ({"oidc_roles": ("admins=king",)}, "with one of the roles viewer, operator"),
        ({"oidc_roles": ("admins",)}, "must be GROUP=ROLE"),
    ],
)
def test_settings_with_which_no_person_could_sign_in(changed: dict[str, Any], says: str) -> None:
    right: dict[str, Any] = {"oidc_issuer": "https://sso.example.com", "oidc_client_id": "detent"}
    check_settings(Settings(**right))
    with pytest.raises(Misconfigured, match=says):
        check_settings(Settings(**{**right, **changed}))


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("detent.gateway.identity_provider.find_spec", lambda _: None)
    right: dict[str, Any] = {"oidc_issuer": "https://sso.example.com", "oidc_client_id": "detent"}
    with pytest.raises(Misconfigured, match="joserfc is missing") as refused:
        check_settings(Settings(**right))
    assert "detent[oidc]" in refused.value.hint
