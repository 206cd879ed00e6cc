"""`detent config`: each setting, its value, and the source of the value."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import click

from detent.cli import output
from detent.settings import Loaded, name
from detent.settings_loader import load

HIDDEN = "(hidden)"
#: Names of settings whose values are secret.
_SECRET = re.compile(r"token|secret|password|passwd|api_?key|credential", re.IGNORECASE)
_IN_URL = re.compile(r"(?<=://)([^/@:]*):[^/@]*(?=@)")


@click.group(cls=output.Group)
def config() -> None:
    """Show each setting and where its value comes from."""


@config.command()
@output.json_option
def show(as_json: bool) -> None:
    """Show each setting, its value, and where the value comes from; secrets are hidden."""
    loaded = load()
    rows = [*_settings(loaded), *_tables(loaded)]
    if as_json:
        settings = [{"name": each, "value": value, "from": origin} for each, value, origin in rows]
        output.print_json(
            {"file": None if loaded.file is None else str(loaded.file), "settings": settings}
        )
        return
    output.print_note(f"File: {loaded.file or 'none'}")
    output.print_table(
        ("SETTING", "VALUE", "FROM"), [(each, _text(value), origin) for each, value, origin in rows]
    )


def _settings(loaded: Loaded) -> Iterator[tuple[str, Any, str]]:
    for field, origin in loaded.origins.items():
        value = getattr(loaded.settings, field)
        yield name(field), _safe(field, value), origin


def _tables(loaded: Loaded) -> Iterator[tuple[str, Any, str]]:
    """The other tables of the file, such as intents and agents."""
    for dotted, value in _flat("", loaded.tables):
        yield dotted, _safe(dotted, value), str(loaded.file)


def _flat(prefix: str, table: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _flat(f"{prefix}{key}.", value)
        else:
            yield f"{prefix}{key}", value


def _safe(named: str, value: Any) -> Any:
    """The value, with secrets hidden."""
    if value and _SECRET.search(named.rpartition(".")[2]):
        return HIDDEN
    return _IN_URL.sub(rf"\1:{HIDDEN}", value) if isinstance(value, str) else value


def _text(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)
