"""The marker of a data directory: it records which store is in use.

If the database of the marked store is missing, detent does not start. Without the marker it would
silently create an empty one.
"""

import json
from contextlib import suppress
from pathlib import Path
from zlib import crc32

from detent import private_files
from detent.errors import Misconfigured
from detent.store.schema_status import schema_status
from detent.store.store_url import is_postgres, sqlite_path

FILE = "store.json"
MEMORY = "memory:"


def require_store(data_dir: Path, url: str) -> None:
    """Refuse to start if the marked store does not exist any more."""
    if url == MEMORY or _marked(data_dir) != crc32(url.encode()) or _exists(url):
        return
    raise Misconfigured(
        f"The database {_shown(url)} was in use before and does not exist any more.",
        setting="store.url",
        hint="Restore it, for example with `detent db restore FILE`. To start with an empty "
        "database instead, create it with `detent db init`.",
    )


def mark_store(data_dir: Path, url: str) -> None:
    """Record which store is in use, as a checksum: the URL itself may contain a password."""
    number = crc32(url.encode())
    if url != MEMORY and _marked(data_dir) != number:
        with private_files.replacing(data_dir / FILE) as file:
            json.dump({"store": number}, file)


def _marked(data_dir: Path) -> int | None:
    with suppress(OSError, ValueError, KeyError, TypeError, RecursionError):
        return int(json.loads((data_dir / FILE).read_text("utf-8"))["store"])
    return None


def _exists(url: str) -> bool:
    """Whether the database exists. A SQLite file is not opened."""
    if is_postgres(url):
        return schema_status(url).exists
    path = sqlite_path(url)
    return path.exists() and path.stat().st_size > 0


def _shown(url: str) -> str:
    return schema_status(url).where
