"""Parses a PostgreSQL URL: the parameters for libpq, and the parameters of detent.

libpq handles several hosts, TLS and service files. Makes no connection.
"""

from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import parse_qsl, quote, urlencode

from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from detent.errors import Misconfigured

#: The parameters of detent and their values; the first one is the default.
OWN: Mapping[str, tuple[str, ...]] = {
    "durability": ("safe", "unsafe"),
    "prepare": ("yes", "no"),
    "notifier": ("yes", "no"),
}

#: Older names of these parameters, which are still accepted.
OLD_NAMES: Mapping[str, str] = {"doorbell": "notifier"}

#: The parameter of detent that is a number.
HOLD = "max_hold_s"
#: For how long a process that has stopped may hold locks, in seconds.
MAX_HOLD_S = 60.0

#: A lost server is detected within half a minute.
DEFAULTS: Mapping[str, str] = {
    "application_name": "detent",
    "client_encoding": "UTF8",
    "connect_timeout": "5",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
}


class Address(NamedTuple):
    """A parsed URL. `conninfo` is for libpq; `shown` is the URL without its password."""

    conninfo: str
    shown: str
    unsafe: bool
    prepare: bool
    notifier: bool
    #: For how long a process that has stopped may hold locks.
    max_hold_s: float


def read_address(url: str) -> Address:
    """Parse a URL; raises Misconfigured if it is invalid."""
    place, _, query = url.partition("?")
    given = parse_qsl(query, keep_blank_values=True)
    pairs = [(OLD_NAMES.get(name, name), value) for name, value in given]
    own = {name: value for name, value in pairs if name in OWN}
    for name, value in own.items():
        if value not in OWN[name]:
            allowed = " or ".join(OWN[name])
            raise _misconfigured(f"{name} in the store's URL must be {allowed}, not {value!r}")
    max_hold_s = _seconds(dict(pairs).get(HOLD, str(MAX_HOLD_S)))
    rest = [pair for pair in pairs if pair[0] not in (*OWN, HOLD)]
    try:
        libpq = f"{place}?{urlencode(rest, quote_via=quote)}" if rest else place
        parsed = conninfo_to_dict(libpq)
    except (ProgrammingError, ValueError) as error:
        raise _misconfigured(f"The store's URL is not a valid PostgreSQL URL: {error}") from None
    known = {name: value for name, value in DEFAULTS.items() if name not in parsed}
    return Address(
        make_conninfo(libpq, **known),
        _without_password(place),
        unsafe=own.get("durability") == "unsafe",
        prepare=own.get("prepare", "yes") == "yes",
        notifier=own.get("notifier", "yes") == "yes",
        max_hold_s=max_hold_s,
    )


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0.1 <= seconds <= 86_400:
        raise _misconfigured(
            f"{HOLD} in the store's URL must be a number from 0.1 to 86400, not {text!r}"
        )
    return seconds


def _without_password(place: str) -> str:
    scheme, _, rest = place.partition("://")
    account, at, host = rest.rpartition("@")
    return f"{scheme}://{account.partition(':')[0]}{at}{host}"


def _misconfigured(message: str) -> Misconfigured:
    return Misconfigured(
        f"{message}.",
        setting="store",
        hint="A URL is like postgresql://user:password@host:5432/database?sslmode=verify-full. "
        "The parameters of detent are durability=unsafe, prepare=no, notifier=no and "
        "max_hold_s=60.",
    )
