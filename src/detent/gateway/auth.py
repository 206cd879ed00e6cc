"""Authentication: tokens, the first token, cookies, and the headers Host and Origin.

The scopes of a token come from its row in the store. Uses the table `tokens` and the file
`<data_dir>/token`.
"""

import asyncio
import ipaddress
import logging
import os
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import anyio.to_thread

from detent import private_files
from detent.errors import Forbidden, Misconfigured, Unauthorized
from detent.operations.context import Core
from detent.operations.registry import OWNER, Caller
from detent.operations.run_tokens import RUN
from detent.operations.tokens import (
    LOGIN,
    SESSION,
    TOKEN,
    USER,
    caller_from,
    digest_of,
    is_valid,
    kind_of,
    new_token,
    row_for,
)
from detent.operations.users import person_from
from detent.settings import TOKEN_FILE, Settings
from detent.store.port import Store, WriteTransaction

log = logging.getLogger("detent.gateway")

#: A token that another process revokes is refused after at most this time.
FRESH_S = 1.0
COOKIE = "detent"
SECURE_COOKIE = "__Host-detent"
SAFE_METHODS = ("GET", "HEAD", "OPTIONS")


class Principal(NamedTuple):
    """A caller, and the digest of the token or session that it presented."""

    caller: Caller
    key: str


class Tokens:
    """A cache of the table of tokens, valid for a second; an unknown token refreshes it."""

    def __init__(self, store: Store, settings: Settings | None = None) -> None:
        self._store = store
        self._settings = settings or Settings()
        self._rows: Mapping[str, Any] = {}
        #: The principals that were found since the table was read.
        self._principals: dict[Credentials, Principal] = {}
        self._now = 0
        #: When the last read of the table began.
        self._read_at = float("-inf")
        self._reading: asyncio.Future[None] | None = None

    async def find(self, given: "Credentials") -> Principal:
        """The principal with these credentials; refused if they are not valid."""
        arrived = time.monotonic()
        fresh = arrived - self._read_at < FRESH_S
        if fresh and given in self._principals:
            return self._principals[given]
        key = digest_of(given.token)
        if key not in self._rows or not fresh:
            await self._read_since(arrived)
        if not self.valid(key) or kind_of(self._rows[key]) not in accepted(given.cookie):
            raise Unauthorized("The token is unknown, expired or revoked.")
        found = self._principals[given] = Principal(self._caller(key), key)
        return found

    async def _read_since(self, moment: float) -> None:
        """Read the table unless a read has begun since then; requests that wait share a read.

        All of them continue together. With a lock they would continue one by one, each in a turn
        of the event loop, behind the requests that arrive meanwhile.
        """
        while self._read_at < moment:
            if self._reading is None or self._reading.done():
                self._reading = asyncio.ensure_future(anyio.to_thread.run_sync(self.read))
            await asyncio.shield(self._reading)

    def _caller(self, key: str) -> Caller:
        """The caller of a token. A session has the scopes that its token or person has now."""
        row = self._rows[key]
        if kind_of(row) not in (SESSION, LOGIN):
            return caller_from(row, key)
        owner = self._rows[row["token"]]
        if kind_of(owner) == USER:
            return person_from(self._settings, owner, row, key)
        return caller_from(owner, row["token"], session=key)

    def valid(self, key: str) -> bool:
        """Whether the digest is of a valid token or session, according to the cache."""
        return is_valid(self._rows, key, self._now)

    def may_follow(self, key: str, project: str | None) -> bool:
        """Whether the owner of a token may still read the feed of a project, or of all (None).

        A person who signs in again with fewer groups has fewer roles in all sessions.
        """
        if not self.valid(key):
            return False
        caller = self._caller(key)
        allowed = caller.projects or (caller.project,)
        return None in allowed or project in allowed

    def read(self) -> None:
        begun = time.monotonic()
        with self._store.read() as view:
            self._rows, self._principals, self._now = view.rows("tokens"), {}, view.now()
        self._read_at = begun

    def forget(self) -> None:
        """Read the table again at the next request: an operation may have changed it."""
        self._read_at = float("-inf")


# ---- the first token -------------------------------------------------------------------------


def ensure_token(core: Core) -> Path:
    """The file with the owner's token, created at the first start and readable by its owner only.

    A token in the file that is no longer in the store was revoked and stays revoked. Only a store
    without any token accepts the token of the file.
    """
    file = core.settings.data_dir / TOKEN_FILE
    private_files.make_directory(core.settings.data_dir)
    found = _read(file)
    token = found or _write(file)

    def remember(tx: WriteTransaction) -> bool:
        rows, key = tx.rows("tokens"), digest_of(token)
        if not found or not rows:
            tx.put_rows("tokens", {key: row_for(OWNER, "token", tx.now(), None)})
            return True
        return key in rows

    if not core.engine.transaction(remember):
        log.warning("The token in %s was revoked. Delete the file to create a new token.", file)
    return file


def _read(file: Path) -> str:
    try:
        text = file.read_text("ascii").strip()
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise Misconfigured(f"{file} cannot be read: {error}", setting="store.data_dir") from None
    file.chmod(0o600)
    return text


def _write(file: Path) -> str:
    token = new_token()
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
    with os.fdopen(os.open(file, flags, 0o600), "w") as opened:
        opened.write(token + "\n")
    return token


# ---- what a request carries ------------------------------------------------------------------


class Credentials(NamedTuple):
    """The token of a request; `cookie` is true if a browser sent it as a cookie."""

    token: str
    cookie: bool


def accepted(cookie: bool) -> tuple[str, ...]:
    """The kinds of credentials that a cookie or the header may hold; never a login code."""
    return (SESSION,) if cookie else (TOKEN, RUN, LOGIN)


def credentials(headers: Mapping[str, str]) -> Credentials:
    """The token of the header `Authorization`, else of the session cookie; never of the URL."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    if scheme:
        if scheme.lower() != "bearer" or not token.strip():
            raise Unauthorized("The header Authorization must be `Bearer` followed by a token.")
        return Credentials(token.strip(), cookie=False)
    cookies = cookies_from(headers.get("cookie", ""))
    session = cookies.get(SECURE_COOKIE) or cookies.get(COOKIE)
    if not session:
        raise Unauthorized("The request has no token.")
    return Credentials(session, cookie=True)


def cookies_from(header: str) -> dict[str, str]:
    pairs = (part.strip().partition("=") for part in header.split(";"))
    return {name: value for name, _, value in pairs}


# ---- Host and Origin -------------------------------------------------------------------------


def allowed_hosts(settings: Settings, port: int) -> frozenset[str]:
    """Every value of the header `Host` that is accepted."""
    named, host = {"127.0.0.1", "localhost", "[::1]"}, settings.gateway_host.lower()
    if not is_loopback(host) and not _is_any(host):
        named.add(f"[{host}]" if ":" in host else host)
    here = named if port in (80, 443) else {f"{name}:{port}" for name in named}
    return frozenset({*here, *(name.lower() for name in settings.gateway_hosts)})


def check_address(settings: Settings) -> None:
    """Refuse to listen on a public address unless the settings say that this is intended."""
    if not is_loopback(settings.gateway_host) and not settings.gateway_public:
        raise Misconfigured(
            f"gateway.host is {settings.gateway_host}, which other machines can reach.",
            setting="gateway.public",
            hint="If that is intended, use --public or set gateway.public to true, and put a TLS "
            "proxy in front.",
        )
    if settings.gateway_metrics_open and not is_loopback(settings.gateway_host):
        raise Misconfigured(
            f"gateway.metrics_open needs a loopback address, not {settings.gateway_host}.",
            setting="gateway.metrics_open",
            hint="Set gateway.metrics_open to false, and give Prometheus a token (scope read).",
        )


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _is_any(host: str) -> bool:
    return host in ("", "0.0.0.0", "::")


def check_host(headers: Mapping[str, str], hosts: Iterable[str]) -> str:
    """The header `Host`, if it is one of the allowed hosts; this prevents DNS rebinding."""
    host = headers.get("host", "").lower()
    if host not in hosts:
        raise Forbidden(f"The header Host is {host!r}, which is not allowed.", code="wrong_host")
    return host


def check_origin(headers: Mapping[str, str], host: str, *, required: bool) -> None:
    """Refuse requests of other origins' pages; `required`: refuse also those without an origin."""
    origin = headers.get("origin")
    if origin is None and not required:
        return
    if origin not in (f"http://{host}", f"https://{host}"):
        raise Forbidden(
            f"The header Origin is {origin!r}, which is not allowed.", code="wrong_origin"
        )
