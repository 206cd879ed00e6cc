"""Lifecycles that an app declares: a dictionary, or a TOML file."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from detent.kernel import lifecycle_document
from detent.kernel.commands import Actor
from detent.lifecycle_config import read_file
from detent.operations.context import Core
from detent.operations.lifecycles import install
from detent.task_lifecycles.document_file import read_document

#: The actor of installations by an app.
ACTOR = Actor("app")


class Document(NamedTuple):
    """A document as it was given, with the name of the lifecycle and that of its file."""

    name: str
    given: Mapping[str, Any] | str
    file: str


def document_from(given: Mapping[str, Any] | str | Path) -> Document:
    """Read a document; errors name the field, and of a file also the line."""
    if isinstance(given, Mapping):
        return Document(lifecycle_document.read(given).name, given, "document")
    path = Path(given)
    text = read_file(path.name, path)
    return Document(read_document(text, path.name)[1].name, text, path.name)


def install_all(core: Core, documents: Iterable[Document]) -> None:
    """Install documents. One that is installed already changes nothing."""
    for each in documents:
        install(core, ACTOR, each.given, each.file)
