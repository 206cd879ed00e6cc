"""Every kind of credential in every place of a request, against a real gateway on loopback.

A table by hand says which of the pairs are accepted. All others must be refused, so that nothing
is accepted because no test tried it.
"""

import http.client
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from detent.engine import Engine
from detent.gateway.server import Server
from detent.operations.context import Core
from detent.operations.registry import OWNER, Caller, Scope, call
from detent.operations.sessions import exchange
from detent.operations.tokens import digest_of, issue
from detent.settings import Settings
from detent.store.port import WriteTransaction
from detent.store.store_url import open_store

DEADLINE_S = 60.0
REFUSED = (401, 403)


class Gateway:
    """A gateway with a store of its own, and its credentials by kind."""

    def __init__(self, core: Core, port: int) -> None:
        self.core, self.port = core, port
        self.count = 0

    def status(self, method: str, path: str, body: Any = None, **headers: str) -> int:
        """The status of one request, on a connection of its own."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE_S)
        given = {"Origin": f"http://127.0.0.1:{self.port}", **headers}
        if body is not None:
            given["Content-Type"] = "application/json"
        try:
            connection.request(method, path, None if body is None else json.dumps(body), given)
            return connection.getresponse().status
        finally:
            connection.close()

    def token(self, lifetime_s: int | None = None) -> str:
        self.count += 1
        caller = Caller(f"holder-{self.count}", frozenset(Scope))
        return self.core.engine.transaction(lambda tx: issue(tx, caller, lifetime_s=lifetime_s))

    def code(self, token: str) -> str:
        caller = Caller(self.name(token), frozenset(Scope), key=digest_of(token))
        return str(call("create_login_code", self.core, caller)["code"])

    def session(self, token: str) -> str:
        return exchange(self.core, self.code(token))[0]

    def name(self, token: str) -> str:
        with self.core.store.read() as view:
            return str(view.rows("tokens")[digest_of(token)]["name"])

    def revoke(self, token: str) -> None:
        call("revoke_token", self.core, OWNER, name=self.name(token))

    def expire(self, token: str) -> None:
        key = digest_of(token)

        def write(tx: WriteTransaction) -> None:
            row = tx.rows("tokens")[key]
            tx.put_rows("tokens", {key: {**row, "expires_at": row["created_at"]}})

        self.core.engine.transaction(write)


# ---- what is presented -----------------------------------------------------------------------


def _used_code(at: Gateway) -> str:
    code = at.code(at.token())
    exchange(at.core, code)
    return code


def _after(ended: Callable[[Gateway, str], None], made: Callable[[Gateway, str], str]) -> Any:
    """A credential of a token, after something has happened to the token."""

    def make(at: Gateway) -> str:
        token = at.token()
        credential = made(at, token)
        ended(at, token)
        return credential

    return make


def _itself(_: Gateway, token: str) -> str:
    return token


CREDENTIALS: Mapping[str, Callable[[Gateway], str]] = {
    "a token": Gateway.token,
    "an expired token": _after(Gateway.expire, _itself),
    "a revoked token": _after(Gateway.revoke, _itself),
    "a login code": lambda at: at.code(at.token()),
    "a used login code": _used_code,
    "the login code of an expired token": _after(Gateway.expire, Gateway.code),
    "the login code of a revoked token": _after(Gateway.revoke, Gateway.code),
    "a session": lambda at: at.session(at.token()),
    "the session of an expired token": _after(Gateway.expire, Gateway.session),
    "the session of a revoked token": _after(Gateway.revoke, Gateway.session),
}


def _bearer(secret: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {secret}"}


def _cookie(secret: str) -> dict[str, str]:
    return {"Cookie": f"detent={secret}"}


#: The places of a request, and what is asked there.
PLACES: Mapping[str, Callable[[Gateway, str], int]] = {
    "as a bearer token": lambda at, secret: at.status("GET", "/api/me", **_bearer(secret)),
    "in the cookie": lambda at, secret: at.status("GET", "/api/me", **_cookie(secret)),
    "in the cookie of https": lambda at, secret: at.status(
        "GET", "/api/me", Cookie=f"__Host-detent={secret}"
    ),
    "in the address": lambda at, secret: at.status("GET", f"/api/me?token={secret}"),
    "as a bearer token, for a login code": lambda at, secret: at.status(
        "POST", "/api/login/codes", **_bearer(secret)
    ),
    "in the cookie, for a login code": lambda at, secret: at.status(
        "POST", "/api/login/codes", **_cookie(secret)
    ),
    "as a bearer token, for a token": lambda at, secret: at.status(
        "POST", "/api/tokens", {"name": f"made-{at.count}", "scopes": ["read"]}, **_bearer(secret)
    ),
    "in the cookie, for a token": lambda at, secret: at.status(
        "POST", "/api/tokens", {"name": f"made-{at.count}", "scopes": ["read"]}, **_cookie(secret)
    ),
    "to log in": lambda at, secret: at.status("POST", "/api/login", {"code": secret}),
}
ACCEPTED = {
    ("a token", "as a bearer token"),
    ("a token", "as a bearer token, for a login code"),
    ("a token", "as a bearer token, for a token"),
    ("a session", "in the cookie"),
    ("a session", "in the cookie of https"),
    ("a login code", "to log in"),
}


# ---- the check -------------------------------------------------------------------------------


def run(where: Path) -> list[str]:
    """Present everything everywhere; every pair that is not answered as the table says."""
    with _gateway(where) as at:
        return list(_wrong(at))


def _wrong(at: Gateway) -> Iterator[str]:
    for credential, make in CREDENTIALS.items():
        for place, present in PLACES.items():
            status = present(at, make(at))
            wanted = (credential, place) in ACCEPTED
            if wanted != (200 <= status < 300) or (not wanted and status not in REFUSED):
                verb = "accepted" if wanted else "refused"
                yield f"credentials: {credential} {place} must be {verb}, and got {status}"


@contextmanager
def _gateway(where: Path) -> Iterator[Gateway]:
    settings = Settings(store_data_dir=str(where), gateway_port=0)
    store = open_store(settings.url)
    core = Core(store, Engine(store), settings)
    server = Server(core)
    try:
        yield Gateway(core, server.start())
    finally:
        server.stop()
        store.close()
