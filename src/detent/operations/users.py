"""People who sign in through a provider, and their sessions.

A person is a row of the table `tokens` with the kind `user`; its key is no digest of a secret. The
row has what the provider reported: the name and the groups. Roles follow from these and from the
settings of the gateway. Sessions and logins of the command line belong to the row, as sessions
belong to a token.
"""

import re
import secrets
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple, cast

from detent import views
from detent.errors import Forbidden, Invalid, NotFound, Unauthorized
from detent.ids import new_id
from detent.operations import schemas
from detent.operations.context import Core
from detent.operations.registry import Caller, Scope, operation
from detent.operations.roles import Grant, granted, grants_from, projects_of, scopes_in
from detent.operations.tokens import (
    CLI_CODE,
    LOGIN,
    SESSION,
    TOKEN,
    USER,
    Row,
    digest_of,
    is_valid,
    issue,
    kind_of,
    show_me,
)
from detent.pkce import challenge_of
from detent.settings import Settings
from detent.store.port import WriteTransaction

HOUR_S, CODE_LIFETIME_S = 3_600, 60
#: Names of people contain no colon: `worker:…` and `run:…` are names of other actors.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,99}")


class Identity(NamedTuple):
    """A person as the provider has identified them."""

    issuer: str
    subject: str
    name: str
    groups: tuple[str, ...]


def grants_of(settings: Settings, row: Row) -> list[Grant]:
    """The roles that a person has by the settings."""
    return granted(grants_from(settings.oidc_roles), str(row["name"]), row.get("groups") or ())


def person_from(settings: Settings, user: Row, session: Row, key: str) -> Caller:
    """The caller of a session of a person: what their roles give in the session's project."""
    applying = grants_of(settings, user)
    project = session.get("project")
    allowed = projects_of(applying)
    scopes = scopes_in(applying, project) if project in allowed else frozenset[Scope]()
    return Caller(
        str(user["name"]),
        scopes,
        project,
        key=str(session["token"]),
        session=key,
        projects=tuple(allowed),
    )


# ---- signing in ------------------------------------------------------------------------------


def sign_in(core: Core, who: Identity) -> tuple[str, int]:
    """Record a person and create a browser session: its secret and its lifetime in seconds."""
    lifetime_s = core.settings.oidc_session_hours * HOUR_S
    return _enter(core, who, SESSION, lifetime_s), lifetime_s


def offer_login(core: Core, who: Identity, challenge: str) -> str:
    """Record a person and create a code, which their command line exchanges once for a login."""
    return _enter(core, who, CLI_CODE, CODE_LIFETIME_S, challenge=challenge)


def _enter(core: Core, who: Identity, kind: str, lifetime_s: int, **more: Any) -> str:
    """Record a person who has a role, and create a credential of this kind."""
    if not NAME.fullmatch(who.name):
        raise Forbidden(
            f"The provider reported the name {who.name[:100]!r}, which cannot be used.",
            hint="Set oidc.name_claim to a claim with an e-mail address or a user name.",
        )
    allowed = projects_of(granted(grants_from(core.settings.oidc_roles), who.name, who.groups))
    if not allowed:
        raise Forbidden(f"{who.name} has no role here.", code="no_role")

    def write(tx: WriteTransaction) -> str:
        key, row = _user(tx, who)
        tx.put_rows("tokens", {key: row})
        caller = Caller(who.name, frozenset(), allowed[0])
        return issue(tx, caller, kind, lifetime_s, token=key, id=new_id(), **more)

    return core.engine.transaction(write)


def redeem_login(core: Core, code: str, verifier: str) -> tuple[str, Row]:
    """Exchange the code of a login for its token, with the verifier of its challenge (PKCE)."""
    lifetime_s = core.settings.oidc_session_hours * HOUR_S

    def write(tx: WriteTransaction) -> tuple[str, Row]:
        rows, key = tx.rows_for_update("tokens"), digest_of(code)
        row = rows.get(key)
        fits = (
            row is not None
            and kind_of(row) == CLI_CODE
            and is_valid(rows, key, tx.now())
            and secrets.compare_digest(challenge_of(verifier), str(row["challenge"]))
        )
        if row is None or not fits:
            raise Unauthorized(
                "The code is unknown, already used, or expired.",
                hint="Sign in again with `detent login`.",
            )
        tx.put_rows("tokens", {key: None})
        caller = Caller(str(row["name"]), frozenset(), row["project"])
        token = issue(tx, caller, LOGIN, lifetime_s, token=row["token"], id=new_id())
        return token, tx.rows("tokens")[digest_of(token)]

    return core.engine.transaction(write)


def _user(tx: WriteTransaction, who: Identity) -> tuple[str, dict[str, Any]]:
    """The row of a person with what the provider reports now; new at the first sign-in."""
    rows, now = tx.rows_for_update("tokens"), tx.now()
    same = [key for key, row in rows.items() if _is(row, who)]
    key = same[0] if same else f"user:{new_id()}"
    taken = (
        other != key
        and row["name"] == who.name
        and kind_of(row) in (TOKEN, USER)
        and is_valid(rows, other, now)
        for other, row in rows.items()
    )
    if any(taken):
        raise Forbidden(
            f"The name {who.name} belongs to a token or to another person.",
            hint="An administrator can remove it: `detent users remove` or `detent tokens revoke`.",
        )
    before = rows.get(key, {})
    return key, {
        "kind": USER,
        "name": who.name,
        "scopes": [],
        "project": None,
        "created_at": before.get("created_at", now),
        "expires_at": None,
        "issuer": who.issuer,
        "subject": who.subject,
        "groups": sorted(who.groups),
        "signed_in_at": now,
    }


def _is(row: Row, who: Identity) -> bool:
    return kind_of(row) == USER and (row["issuer"], row["subject"]) == (who.issuer, who.subject)


@operation(Scope.READ, "POST", "/api/me/project")
def switch_project(core: Core, caller: Caller, *, project: str | None = None) -> schemas.Me:
    """Continue the session of a person in another project; without one, in all projects."""
    if project == caller.project:
        return show_me(core, caller)
    if caller.session is None or not caller.projects:
        raise Invalid(
            "Only the session of a person who signed in through the provider has several projects.",
            field="project",
            given=project,
            hint="A token has one project, or all of them, for its whole lifetime.",
        )
    if project not in caller.projects:
        raise Forbidden(f"{caller.name} has no role in project {project!r}.", code="no_role")

    def write(tx: WriteTransaction) -> Caller:
        rows = tx.rows_for_update("tokens")
        key = str(caller.session)
        if not is_valid(rows, key, tx.now()):
            raise Unauthorized("The session has ended.")
        row = {**rows[key], "project": project}
        tx.put_rows("tokens", {key: row})
        return person_from(core.settings, rows[row["token"]], row, key)

    return show_me(core, core.engine.transaction(write))


# ---- for operators ---------------------------------------------------------------------------


@operation(Scope.ADMIN, "GET", "/api/users")
def list_users(core: Core, caller: Caller) -> schemas.Users:
    """List the people who have signed in, with their roles by the settings of this gateway."""
    with core.store.read() as view:
        rows, now = view.rows("tokens"), view.now()
    users = [
        _to_schema(core.settings, caller, key, row, rows, now)
        for key, row in rows.items()
        if kind_of(row) == USER and _may_see(core.settings, caller, row)
    ]
    return {"items": sorted(users, key=lambda row: row["name"])}


@operation(Scope.ADMIN, "DELETE", "/api/users/{name}")
def remove_user(core: Core, caller: Caller, *, name: str) -> schemas.RemovedUser:
    """Remove a person and end their sessions. With a role they can sign in again."""

    def write(tx: WriteTransaction) -> int | None:
        rows = tx.rows_for_update("tokens")
        found = [
            key
            for key, row in rows.items()
            if kind_of(row) == USER and row["name"] == name and _may_see(core.settings, caller, row)
        ]
        if not found:
            return None
        if any(set(_projects(core.settings, rows[key])) - {caller.project} for key in found):
            _require_all_projects(caller, name)
        theirs = _sessions(rows, found)
        tx.put_rows("tokens", dict.fromkeys([*found, *theirs]))
        return len(theirs)

    ended = core.engine.transaction(write)
    if ended is None:
        raise NotFound(f"There is no user {name!r}.", code="unknown_user")
    return {"name": name, "ended_sessions": ended}


def _sessions(rows: Mapping[str, Row], users: Collection[str]) -> list[str]:
    return [key for key, row in rows.items() if row.get("token") in users]


def _require_all_projects(caller: Caller, name: str) -> None:
    if caller.project is not None:
        raise Forbidden(
            f"{name} has roles outside project {caller.project!r} too.",
            hint="An administrator of all projects can remove them.",
        )


def _projects(settings: Settings, row: Row) -> list[str | None]:
    return projects_of(grants_of(settings, row))


def _may_see(settings: Settings, caller: Caller, row: Row) -> bool:
    return caller.project is None or caller.project in _projects(settings, row)


def _to_schema(
    settings: Settings, caller: Caller, key: str, row: Row, rows: Mapping[str, Row], now: int
) -> schemas.User:
    times = views.shown({name: row[name] for name in ("created_at", "signed_in_at")})
    valid = [each for each in _sessions(rows, [key]) if is_valid(rows, each, now)]
    found = {
        "name": row["name"],
        "groups": list(row["groups"]),
        "roles": [
            each.text
            for each in grants_of(settings, row)
            if caller.project is None or each.project in (None, caller.project)
        ],
        "sessions": len(valid),
        **times,
    }
    return cast(schemas.User, found)
