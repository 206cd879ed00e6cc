"""Browser sessions: a token creates a login code, which is exchanged once for a session.

A session is a row of the table `tokens` with its own id and the digest of its token (`token`). It
is valid only as long as that token, it cannot create a code or a token, and its secret is accepted
only in a cookie.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from detent import views
from detent.errors import Forbidden, NotFound, Refused, Unauthorized
from detent.ids import new_id
from detent.operations import schemas
from detent.operations.context import Core
from detent.operations.registry import Caller, Scope, operation
from detent.operations.tokens import (
    CODE,
    LOGIN,
    SECOND_US,
    SESSION,
    Row,
    caller_from,
    digest_of,
    is_valid,
    issue,
    kind_of,
)
from detent.settings import TOKEN_FILE
from detent.store.port import ReadTransaction, WriteTransaction

CODE_LIFETIME_S = 60
SESSION_LIFETIME_S = 12 * 3_600


# ---- logging in ------------------------------------------------------------------------------


@operation(Scope.READ, "POST", "/api/login/codes", status=201)
def create_login_code(core: Core, caller: Caller) -> schemas.LoginCode:
    """Create a login code, which a browser exchanges once for a session within a minute."""
    if caller.run_id is not None:
        raise Forbidden("The token of a run cannot create a session.")
    _no_session(caller)
    key = caller.key or _owner_key(core.settings.data_dir / TOKEN_FILE)

    def write(tx: WriteTransaction) -> tuple[str, int]:
        if not is_valid(tx.rows_for_update("tokens"), key, tx.now()):
            raise Refused(
                "The token that this session would belong to was revoked or has expired.",
                hint="Create a code with a valid token.",
            )
        code = issue(tx, caller, CODE, CODE_LIFETIME_S, token=key)
        return code, tx.now() + CODE_LIFETIME_S * SECOND_US

    code, expires_at = core.engine.transaction(write)
    return {"code": code, "expires_at": views.utc(expires_at)}


def _no_session(caller: Caller) -> None:
    if caller.session:
        raise Forbidden(
            "A session cannot create another session.",
            hint="Create the code with a token: `detent dashboard` does that.",
        )


def _owner_key(file: Path) -> str:
    """The digest of the owner's token, for callers in this process, which have no token."""
    try:
        return digest_of(file.read_text("ascii").strip())
    except (OSError, UnicodeDecodeError):
        raise Refused(
            f"There is no owner token in {file}, and a session needs a token.",
            hint="Start the gateway once to create the token.",
        ) from None


def exchange(core: Core, code: str) -> tuple[str, Row, int]:
    """Exchange a code for a session: its secret, its row and its lifetime in seconds."""

    def write(tx: WriteTransaction) -> tuple[str, Row, int]:
        rows, key, now = tx.rows_for_update("tokens"), digest_of(code), tx.now()
        row = rows.get(key)
        if row is None or kind_of(row) != CODE or not is_valid(rows, key, now):
            raise Unauthorized(
                "The code is unknown, already used, or expired.",
                hint="Get a new code with `detent dashboard`; it is valid for a minute.",
            )
        token = rows[row["token"]]
        tx.put_rows("tokens", {key: None})
        lifetime_s = _lifetime_s(token, now)
        own = {"token": row["token"], "id": new_id()}
        secret = issue(tx, caller_from(token), SESSION, lifetime_s, **own)
        return secret, tx.rows("tokens")[digest_of(secret)], lifetime_s

    return core.engine.transaction(write)


def _lifetime_s(token: Row, now: int) -> int:
    """Twelve hours, or the remaining lifetime of the token if that is shorter."""
    if token.get("expires_at") is None:
        return SESSION_LIFETIME_S
    left_s = (int(token["expires_at"]) - now) // SECOND_US
    return min(SESSION_LIFETIME_S, max(1, left_s))


def log_out(core: Core, key: str) -> None:
    """Delete the session with this digest; a token is kept."""

    def write(tx: WriteTransaction) -> None:
        if tx.rows("tokens").get(key, {}).get("kind") in (SESSION, LOGIN):
            tx.put_rows("tokens", {key: None})

    core.engine.transaction(write)


# ---- listing and ending ----------------------------------------------------------------------


@operation(Scope.READ, "GET", "/api/sessions")
def list_sessions(core: Core, caller: Caller) -> schemas.Sessions:
    """List the valid browser sessions; without `admin`, only those of the caller's token."""
    with core.store.read() as view:
        rows = _visible(view, caller, view.now())
    items = [_to_schema(row, current=key == caller.session) for key, row in rows.items()]
    return {"items": sorted(items, key=lambda row: (row["token"], row["created_at"], row["id"]))}


@operation(Scope.READ, "DELETE", "/api/sessions/{session_id}")
def end_session(core: Core, caller: Caller, *, session_id: str) -> schemas.EndedSession:
    """End a browser session, including its open connections."""

    def write(tx: WriteTransaction) -> bool:
        tx.rows_for_update("tokens")
        found = [
            key for key, row in _visible(tx, caller, tx.now()).items() if row["id"] == session_id
        ]
        tx.put_rows("tokens", dict.fromkeys(found))
        return bool(found)

    if not core.engine.transaction(write):
        raise NotFound(f"There is no session {session_id!r}.", code="unknown_session")
    return {"id": session_id, "ended": True}


def _visible(view: ReadTransaction, caller: Caller, now: int) -> Mapping[str, Row]:
    rows = view.rows("tokens")
    return {
        key: row
        for key, row in rows.items()
        if kind_of(row) in (SESSION, LOGIN) and is_valid(rows, key, now) and _may(caller, row)
    }


def _may(caller: Caller, row: Row) -> bool:
    if Scope.ADMIN in caller.scopes:
        return caller.may_see(row.get("project"))
    return caller.key is not None and caller.key == row["token"]


def _to_schema(row: Row, *, current: bool) -> schemas.Session:
    times: dict[str, Any] = views.shown({name: row[name] for name in ("created_at", "expires_at")})
    return {
        "id": row["id"],
        "token": row["name"],
        "project": row["project"],
        "created_at": times["created_at"],
        "expires_at": times["expires_at"],
        "current": current,
    }
