"""Tokens: who may do what. The store keeps digests only; a token is shown once, when it is made.

A row of the table `tokens` is named by the SHA-256 of 256 random bits. Its `kind` is `token`,
`session` (what a browser's cookie holds), `code` (exchanged once for a session; see `sessions` for
both) or `run` (what one run of an agent holds: see `agents`).
"""

import hashlib
import re
import secrets
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from detent import views
from detent.errors import Forbidden, Invalid, NotFound, Refused
from detent.operations import schemas
from detent.operations.context import Core, known
from detent.operations.registry import Caller, Scope, operation
from detent.store.port import Writing

SECOND_US = 1_000_000
MAX_LIFETIME_S = 10 * 366 * 86_400
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@-]{0,99}")
PREFIX = "detent_"
TOKEN, SESSION, CODE = "token", "session", "code"
#: Kinds whose rows are valid only as long as the token that they came from.
DERIVED = (SESSION, CODE)

Row = Mapping[str, Any]


def digest_of(token: str) -> str:
    """The name under which the store knows a token. It is random, so that it needs no salt."""
    return hashlib.sha256(token.encode()).hexdigest()


def new_token() -> str:
    return PREFIX + secrets.token_urlsafe(32)


def row_for(caller: Caller, kind: str, now: int, lifetime_s: int | None) -> dict[str, Any]:
    """What the store remembers of a token."""
    return {
        "kind": kind,
        "name": caller.name,
        "scopes": sorted(caller.scopes),
        "project": caller.project,
        "created_at": now,
        "expires_at": None if lifetime_s is None else now + lifetime_s * SECOND_US,
        "root_id": caller.root_id,
        "run_id": caller.run_id,
        "fence": caller.fence,
    }


def issue(
    tx: Writing,
    caller: Caller,
    kind: str = TOKEN,
    lifetime_s: int | None = None,
    **more: Any,
) -> str:
    """Make a token for this caller; rows that are not valid any more are deleted on the way."""
    now, known = tx.now(), tx.rows("tokens")
    token = new_token()
    rows: dict[str, Any] = {key: None for key in known if not holds(known, key, now)}
    rows[digest_of(token)] = {**row_for(caller, kind, now, lifetime_s), **more}
    tx.put_rows("tokens", rows)
    return token


def expired(row: Row, now: int) -> bool:
    return row.get("expires_at") is not None and row["expires_at"] <= now


def kind_of(row: Row) -> str:
    return str(row.get("kind", TOKEN))


def holds(rows: Mapping[str, Row], key: str, now: int) -> bool:
    """Whether a row is valid now. A session or a code is, only while its token is valid."""
    row = rows.get(key)
    if row is None or expired(row, now):
        return False
    if kind_of(row) not in DERIVED:
        return True
    token = rows.get(str(row.get("token")))
    return token is not None and kind_of(token) == TOKEN and not expired(token, now)


# ---- for operators ---------------------------------------------------------------------------


@operation(Scope.ADMIN, "POST", "/api/tokens", status=201)
def create_token(
    core: Core,
    caller: Caller,
    *,
    name: str,
    scopes: Sequence[str],
    project: str | None = None,
    expires_in_s: int | None = None,
) -> schemas.NewToken:
    """Make a token with these scopes, for one project or for all; it is shown this once."""
    if caller.session:
        raise Forbidden(
            "A browser's session cannot create a token, which would outlive it.",
            hint="Create it on the command line (`detent tokens create`), or with a token.",
        )
    new = Caller(_name(name), _scopes(scopes), _project(caller, project))
    if expires_in_s is not None and not 1 <= expires_in_s <= MAX_LIFETIME_S:
        raise Invalid(
            f"expires_in_s must be from 1 to {MAX_LIFETIME_S}.",
            field="expires_in_s",
            given=expires_in_s,
        )

    def write(tx: Writing) -> tuple[str, Row]:
        known, now = tx.changing("tokens"), tx.now()
        if any(row["name"] == name and holds(known, key, now) for key, row in known.items()):
            raise Refused(f"There is a token {name!r} already.", code="token_exists")
        token = issue(tx, new, lifetime_s=expires_in_s)
        return token, tx.rows("tokens")[digest_of(token)]

    token, row = core.engine.transaction(write)
    shown = views.shown(row)
    return {
        "token": token,
        "name": name,
        "scopes": shown["scopes"],
        "project": shown["project"],
        "expires_at": shown["expires_at"],
    }


@operation(Scope.ADMIN, "GET", "/api/tokens")
def list_tokens(core: Core, caller: Caller) -> schemas.Tokens:
    """Every token that is valid now, without the secret."""
    with core.store.read() as view:
        rows, now = view.rows("tokens").values(), view.now()
    mine = [row for row in _tokens(rows) if sees(caller, row) and not expired(row, now)]
    mine.sort(key=lambda row: str(row["name"]))
    return {"items": [_shown(row) for row in mine]}


@operation(Scope.ADMIN, "DELETE", "/api/tokens/{name}")
def revoke_token(core: Core, caller: Caller, *, name: str) -> schemas.Revoked:
    """Make a token and the sessions that came from it worthless, also on open connections."""

    def write(tx: Writing) -> int:
        gone = _revoked(tx.changing("tokens"), caller, name)
        tx.put_rows("tokens", dict.fromkeys(gone))
        return len(gone)

    revoked = core.engine.transaction(write)
    if not revoked:
        raise NotFound(f"There is no token {name!r}.", code="unknown_token")
    return {"name": name, "revoked": revoked}


def _revoked(rows: Mapping[str, Row], caller: Caller, name: str) -> list[str]:
    """The rows of a token, of its sessions and of its codes."""
    return [key for key, row in rows.items() if row["name"] == name and sees(caller, row)]


def _tokens(rows: Iterable[Row]) -> Iterable[Row]:
    return (row for row in rows if kind_of(row) == TOKEN)


def sees(caller: Caller, row: Row) -> bool:
    return caller.project in (None, row.get("project"))


def _shown(row: Row) -> schemas.Token:
    kept = {name: row.get(name) for name in schemas.Token.__annotations__}
    return cast(schemas.Token, views.shown(kept))


def _name(given: str) -> str:
    if NAME.fullmatch(given):
        return given
    form = "1 to 100 of letters, digits, . _ : @ -"
    raise Invalid(f"name must be {form}.", field="name", given=given, allowed=(form,))


def _scopes(given: Sequence[str]) -> frozenset[Scope]:
    names = tuple(scope.value for scope in Scope)
    if not given:
        raise Invalid("scopes must name at least one.", field="scopes", allowed=names)
    return frozenset(Scope(known(each, names, "scopes")) for each in given)


def _project(caller: Caller, given: str | None) -> str | None:
    """Nobody makes a token that reaches further than the own one."""
    if caller.project is None:
        return given
    if given not in (None, caller.project):
        raise Forbidden(f"{caller.name} may make tokens for project {caller.project!r} alone")
    return caller.project


# ---- for everybody -------------------------------------------------------------------------


@operation(Scope.READ, "GET", "/api/me")
def show_me(core: Core, caller: Caller) -> schemas.Me:
    """Who the caller is to the server, and what it may do."""
    scopes = sorted(scope.value for scope in caller.scopes)
    return {"name": caller.name, "scopes": scopes, "project": caller.project}


def caller_from(row: Row, key: str | None = None, *, session: bool = False) -> Caller:
    """Who holds the token, by the server's own record; a scope unknown to us opens nothing."""
    known_scopes = {scope.value for scope in Scope}
    return Caller(
        row["name"],
        frozenset(Scope(each) for each in row["scopes"] if each in known_scopes),
        row.get("project"),
        row.get("root_id"),
        row.get("run_id"),
        row.get("fence"),
        key,
        session,
    )
