"""The lifecycles of tasks: the documents that are shipped with detent, one TOML file each."""

import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from detent.errors import NotFound
from detent.kernel import lifecycle_document
from detent.kernel.lifecycle import Lifecycle, normalise
from detent.kernel.lifecycles import LIFECYCLES
from detent.kernel.task_lifecycle import TaskLifecycle, TaskLifecycles

DIRECTORY = Path(__file__).parent


def _document(file: Path) -> dict[str, Any]:
    return tomllib.loads(file.read_text(encoding="utf-8"))


def _read(file: Path) -> TaskLifecycle:
    return replace(lifecycle_document.read(_document(file)), shipped=True)


#: The shipped lifecycles by id, in alphabetical order.
SHIPPED: TaskLifecycles = {each.id: each for each in map(_read, sorted(DIRECTORY.glob("*.toml")))}

#: The files of lifecycles that are installed with an integration, by name. They are not among the
#: shipped ones: names of states have one meaning in an installation, and users need `open`, too.
OPTIONAL = {file.stem: file for file in sorted((DIRECTORY / "optional").glob("*.toml"))}


def shipped_document(lifecycle: TaskLifecycle) -> dict[str, Any]:
    """The document of a shipped lifecycle."""
    return _document(DIRECTORY / f"{lifecycle.name}.toml")


def all_lifecycles(tasks: TaskLifecycles = SHIPPED) -> Mapping[str, Lifecycle]:
    """These lifecycles of tasks, and those of jobs, plan steps and runs, by id."""
    return {**tasks, **LIFECYCLES}


def find(name: str, tasks: TaskLifecycles = SHIPPED) -> Lifecycle:
    """The lifecycle with this id, in any letter case."""
    known = all_lifecycles(tasks)
    found = known.get(normalise(name))
    if found is None:
        raise NotFound(
            f"There is no lifecycle {name!r}. Known: {', '.join(known)}.",
            code="unknown_lifecycle",
            known=known,
        )
    return found
