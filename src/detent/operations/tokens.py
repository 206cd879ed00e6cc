"""Access tokens. The store has only their digests; a token is shown once, when it is created.

The key of a row of the table `tokens` is the SHA-256 of 256 random bits. Its `kind` is `token`,
`session` (a browser's cookie), `code` (exchanged once for a session; see `sessions` for both),
`run` (the token of one run of an agent; see `run_tokens`), or one of the kinds of `users`.
"""

import hashlib
import re
import secrets
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, cast

from detent import views
from detent.errors import Forbidden, Invalid, NotFound, Refused
from detent.operations import schemas
from detent.operations.context import Core, check_choice
from detent.operations.registry import Caller, Scope, operation
from detent.settings import Settings
from detent.store.port import WriteTransaction

SECOND_US = 1_000_000
MAX_LIFETIME_S = 10 * 366 * 86_400
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@-]{0,99}")
PREFIX = "detent_"
TOKEN, SESSION, CODE = "token", "session", "code"
#: A person; a login of a person's command line; the code that is exchanged for one (see `users`).
USER, LOGIN, CLI_CODE = "user", "login", "cli_code"
#: Kinds whose rows are valid only as long as the token or person that they belong to.
DERIVED = (SESSION, CODE, LOGIN, CLI_CODE)

Row = Mapping[str, Any]


def digest_of(token: str) -> str:
    """The key of a token's row. The token is random, so the digest needs no salt."""
    return hashlib.sha256(token.encode()).hexdigest()


def new_token() -> str:
    return PREFIX + secrets.token_urlsafe(32)


def row_for(caller: Caller, kind: str, now: int, lifetime_s: int | None) -> dict[str, Any]:
    """The row of a token."""
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
    tx: WriteTransaction,
    caller: Caller,
    kind: str = TOKEN,
    lifetime_s: int | None = None,
    **more: Any,
) -> str:
    """Create a token for a caller, and delete the rows that are no longer valid."""
    now, known = tx.now(), tx.rows("tokens")
    token = new_token()
    rows: dict[str, Any] = {key: None for key in known if not is_valid(known, key, now)}
    rows[digest_of(token)] = {**row_for(caller, kind, now, lifetime_s), **more}
    tx.put_rows("tokens", rows)
    return token


def expired(row: Row, now: int) -> bool:
    return row.get("expires_at") is not None and row["expires_at"] <= now


def kind_of(row: Row) -> str:
    return str(row.get("kind", TOKEN))


def is_valid(rows: Mapping[str, Row], key: str, now: int) -> bool:
    """Whether a row is valid now. A session or a code is valid only while its token is."""
    row = rows.get(key)
    if row is None or expired(row, now):
        return False
    if kind_of(row) not in DERIVED:
        return True
    token = rows.get(str(row.get("token")))
    return token is not None and kind_of(token) in (TOKEN, USER) and not expired(token, now)


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
    """Create a token with scopes, for one project or for all. The response is the only copy."""
    if caller.session:
        raise Forbidden(
            "A browser session cannot create a token, because the token would outlive the session.",
            hint="Create it on the command line (`detent tokens create`), or with a token.",
        )
    new = Caller(_name(name), _scopes(scopes), _project(caller, project))
    _require_free_for_people(core.settings, caller, name)
    if expires_in_s is not None and not 1 <= expires_in_s <= MAX_LIFETIME_S:
        raise Invalid(
            f"expires_in_s must be from 1 to {MAX_LIFETIME_S}, not {expires_in_s}.",
            field="expires_in_s",
            given=expires_in_s,
        )

    def write(tx: WriteTransaction) -> tuple[str, Row]:
        known, now = tx.rows_for_update("tokens"), tx.now()
        if any(row["name"] == name and is_valid(known, key, now) for key, row in known.items()):
            raise Refused(
                f"A token with the name {name!r} already exists.",
                code="token_exists",
                hint="Choose another name, or revoke it first.",
            )
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
    """List the valid tokens, without their secrets."""
    with core.store.read() as view:
        rows, now = view.rows("tokens").values(), view.now()
    mine = [
        row for row in _tokens(rows) if caller.may_see(row.get("project")) and not expired(row, now)
    ]
    mine.sort(key=lambda row: str(row["name"]))
    return {"items": [_to_schema(row) for row in mine]}


@operation(Scope.ADMIN, "DELETE", "/api/tokens/{name}")
def revoke_token(core: Core, caller: Caller, *, name: str) -> schemas.Revoked:
    """Revoke a token and its sessions, including their open connections."""

    def write(tx: WriteTransaction) -> int:
        gone = _revoked(tx.rows_for_update("tokens"), caller, name)
        tx.put_rows("tokens", dict.fromkeys(gone))
        return len(gone)

    revoked = core.engine.transaction(write)
    if not revoked:
        raise NotFound(f"There is no token {name!r}.", code="unknown_token")
    return {"name": name, "revoked": revoked}


def _revoked(rows: Mapping[str, Row], caller: Caller, name: str) -> list[str]:
    """The keys of the rows of a token, its sessions and its codes."""
    return [
        key
        for key, row in rows.items()
        if row["name"] == name
        and caller.may_see(row.get("project"))
        and not _of_a_person(row, rows)
    ]


def _of_a_person(row: Row, rows: Mapping[str, Row]) -> bool:
    return USER in (kind_of(row), kind_of(rows.get(str(row.get("token")), {})))


def _tokens(rows: Iterable[Row]) -> Iterable[Row]:
    return (row for row in rows if kind_of(row) == TOKEN)


def _to_schema(row: Row) -> schemas.Token:
    kept = {name: row.get(name) for name in schemas.Token.__annotations__}
    return cast(schemas.Token, views.shown(kept))


def _name(given: str) -> str:
    if NAME.fullmatch(given):
        return given
    form = "1 to 100 of letters, digits, . _ : @ -"
    raise Invalid(
        f"name must be {form}, not {given[:100]!r}.", field="name", given=given, allowed=(form,)
    )


def _require_free_for_people(settings: Settings, caller: Caller, name: str) -> None:
    """Keep the administrator of one project from taking the name of a person of any project.

    A person cannot sign in while a token has their name. Names of people contain no colon.
    """
    if caller.project is None or not settings.oidc_issuer or ":" in name:
        return
    if "@" in name or settings.oidc_name_claim != "email":
        raise Forbidden(
            f"{name!r} may be the name of a person who signs in through the provider.",
            hint=f"Use a name with a colon, such as {caller.project}:ci. An administrator of all "
            "projects may use any name.",
        )


def check_person(given: str, field: str) -> None:
    """Check the name of a person, which is that of their token."""
    if not NAME.fullmatch(given):
        raise Invalid(
            f"{field} must be a name of letters, digits and . _ : @ - without spaces, at most 100 "
            f"characters, not {given!r:.80}.",
            field=field,
            given=given,
            hint="Use the name of the person's token, which `detent tokens` lists.",
        )


def _scopes(given: Sequence[str]) -> frozenset[Scope]:
    names = tuple(scope.value for scope in Scope)
    if not given:
        raise Invalid(
            f"scopes must have at least one of {', '.join(names)}.", field="scopes", allowed=names
        )
    return frozenset(Scope(check_choice(each, names, "scopes")) for each in given)


def _project(caller: Caller, given: str | None) -> str | None:
    """The project of the new token: that of the caller, if the caller is limited to one."""
    if caller.project is None:
        return given
    if given not in (None, caller.project):
        raise Forbidden(f"{caller.name} may create tokens only for project {caller.project!r}.")
    return caller.project


# ---- the caller ------------------------------------------------------------------------------


@operation(Scope.READ, "GET", "/api/me")
def show_me(core: Core, caller: Caller) -> schemas.Me:
    """Show the caller's name, scopes and projects, and the version of the gateway."""
    scopes = sorted(scope.value for scope in caller.scopes)
    mine = {"name": caller.name, "scopes": scopes, "project": caller.project}
    return cast(schemas.Me, {**mine, "projects": list(caller.projects), "version": release()})


@cache
def release() -> str:
    """The installed version of detent."""
    from importlib.metadata import version  # imported late: commands start fast

    return version("detent")


def caller_from(row: Row, key: str | None = None, *, session: str | None = None) -> Caller:
    """The caller of a token's row; unknown scopes are ignored."""
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
