"""The marker of a data directory: which store was in use here. It must not be gone at a start.

Without it a lost database file, or a server that was set up again, would be an empty installation.
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
    """Refuse to make a new, empty store in the place of one that was in use."""
    if url == MEMORY or _marked(data_dir) != crc32(url.encode()) or _exists(url):
        return
    raise Misconfigured(
        f"There was a database at {_shown(url)}, and there is none now.",
        setting="store.url",
        hint="Put it back, or restore a backup: detent db restore FILE. To begin with an empty "
        "store instead, make it: detent db init.",
    )


def mark_store(data_dir: Path, url: str) -> None:
    """Say which store is in use here. The address itself may hold a password."""
    number = crc32(url.encode())
    if url != MEMORY and _marked(data_dir) != number:
        beside = data_dir / f"{FILE}.new"
        private_files.write_text(beside, json.dumps({"store": number}))
        beside.replace(data_dir / FILE)


def _marked(data_dir: Path) -> int | None:
    with suppress(OSError, ValueError, KeyError, TypeError):
        return int(json.loads((data_dir / FILE).read_text("utf-8"))["store"])
    return None


def _exists(url: str) -> bool:
    """A SQLite file is looked at only: opening it is left to the store."""
    if is_postgres(url):
        return schema_status(url).exists
    path = sqlite_path(url)
    return path.exists() and path.stat().st_size > 0


def _shown(url: str) -> str:
    return schema_status(url).where
