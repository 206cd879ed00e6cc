"""Lifecycles as configured: `[lifecycles]` of detent.toml names their files."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from detent.errors import Invalid, Misconfigured
from detent.kernel import document_fields

LONGEST_PATH = 4_096


def lifecycle_files(tables: Mapping[str, Any], file: Path | None) -> dict[str, Path]:
    """By name, the files of `[lifecycles]`; a relative path begins at the configuration file."""
    directory = Path() if file is None else file.parent
    try:
        named = document_fields.table(tables.get("lifecycles", {}), "lifecycles")
        return {
            name: directory / document_fields.text(given, f"lifecycles.{name}", LONGEST_PATH)
            for name, given in named.items()
        }
    except Invalid as error:
        raise Misconfigured(error.message, setting=str(error.field)) from None


def read_file(name: str, path: Path) -> str:
    """The text of the file of one lifecycle."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Misconfigured(
            f"The file of the lifecycle {name} cannot be read: {error}.",
            setting=f"lifecycles.{name}",
        ) from None
