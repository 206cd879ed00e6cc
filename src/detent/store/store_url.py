"""Opens a store by its URL: `sqlite:///path` or a path, `postgresql://…`, `memory:`."""

from importlib.util import find_spec
from pathlib import Path
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

from detent.errors import Misconfigured
from detent.store.clock import TimeSource
from detent.store.port import Store


def open_store(url: str | Path, clock: TimeSource | None = None) -> Store:
    """Open the store that a URL names. A path is a SQLite file."""
    text = str(url)
    if text == "memory:":
        from detent.store.memory import MemoryStore

        return MemoryStore(clock)
    if is_postgres(text):
        return _postgres(text, clock)
    return _sqlite(text, clock)


def is_postgres(url: str) -> bool:
    scheme, separator, _ = url.partition("://")
    return bool(separator) and scheme.lower() in ("postgresql", "postgres")


def sqlite_path(url: str) -> Path:
    """The file of a path or a SQLite URL."""
    text = url
    if "://" in url:
        parts = _split(url)
        if parts.scheme != "sqlite":
            raise _misconfigured(f"{parts.scheme}:// is not a supported store")
        if parts.netloc or len(parts.path) < 2:
            raise _misconfigured(
                f"{url} has no path. A SQLite URL is written as sqlite:///var/lib/detent.db"
            )
        text = unquote(parts.path)
    try:
        return Path(text).expanduser().absolute()
    except (RuntimeError, ValueError) as error:  # an unknown user's home, or a null byte
        raise _misconfigured(f"{text!r} is not a path: {error}") from None


def _split(url: str) -> SplitResult:
    try:
        return urlsplit(url)
    except ValueError as error:
        raise _misconfigured(f"{url!r} is not a URL: {error}") from None


def _sqlite(text: str, clock: TimeSource | None) -> Store:
    from detent.store.sqlite import SqliteStore

    path = sqlite_path(text)
    local = "://" in text and parse_qs(_split(text).query).get("local") == ["yes"]
    return SqliteStore(path, clock, local=local)


def _postgres(url: str, clock: TimeSource | None) -> Store:
    require_psycopg()
    from detent.store.postgres import PostgresStore

    return PostgresStore(url, clock)


def require_psycopg() -> None:
    """Raise Misconfigured if the optional packages for PostgreSQL are missing."""
    if find_spec("psycopg") is None or find_spec("psycopg_pool") is None:
        raise Misconfigured(
            "The store is PostgreSQL, but the package psycopg or psycopg_pool is not installed.",
            setting="store",
            hint="Install them with: pip install 'detent[postgres]'",
        )


def _misconfigured(message: str) -> Misconfigured:
    return Misconfigured(
        f"{message}.",
        setting="store",
        hint="Set store.url to a path, sqlite:///path, or postgresql://user@host/database.",
    )
