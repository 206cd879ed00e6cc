"""Shipped lifecycles and their states are data: the code below the commands does not name them.

The words are read from the documents. Words that also mean something else (a state of a job, a
phase, a scope) are found only where they are compared with a task's state. Imports nothing of
detent.
"""

import ast
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

#: The packages of `src/detent` that know lifecycles by their documents only.
PACKAGES = ("kernel", "engine", "operations", "keeper")
DOCUMENTS = Path("src/detent/task_lifecycles")
#: Words that have another meaning too: states of jobs, steps and runs, phases, endings, scopes.
SHARED = frozenset(
    {
        *("queued", "running", "completed", "failed", "cancelled", "pending"),
        *("blocked", "done", "ready", "inbox", "review", "timed_out", "budget_exceeded"),
    }
)
#: Where a name is right, and why.
ALLOWED: Mapping[str, str] = {
    "src/detent/operations/parameters.py": "examples in the documentation of HTTP",
}
#: How tasks are named where their state or lifecycle is compared.
TASKS = frozenset({"task", "parent", "subtask"})


class Words(NamedTuple):
    """The names of shipped lifecycles, and those of their states."""

    lifecycles: frozenset[str]
    states: frozenset[str]


def words(root: Path) -> Words:
    found = [
        tomllib.loads(file.read_text(encoding="utf-8"))
        for file in sorted((root / DOCUMENTS).glob("*.toml"))
    ]
    states = {state for each in found for state in each["states"]}
    return Words(frozenset(each["name"] for each in found), frozenset(states))


def flaws(place: str, tree: ast.Module, known: Words) -> Iterator[str]:
    """Where one module names a shipped lifecycle or a state of one, as `line: what`."""
    if place in ALLOWED or not place.startswith(tuple(f"src/detent/{each}/" for each in PACKAGES)):
        return
    own = (known.lifecycles | known.states) - SHARED
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and node.value in own:
            yield f"{node.lineno}: {node.value!r} is a name of a lifecycle: use phases and endings"
        elif isinstance(node, ast.Compare):
            for word in sorted(_compared(node, known)):
                yield f"{node.lineno}: compares with {word!r}: use phases and endings"


def _compared(node: ast.Compare, known: Words) -> set[str]:
    """The shared words that a lifecycle, or the state of a task, is compared with."""
    sides = [node.left, *node.comparators]
    fields = {field for side in sides for field in _fields(side)}
    texts = {
        each.value
        for side in sides
        for each in ast.walk(side)
        if isinstance(each, ast.Constant) and isinstance(each.value, str)
    }
    wanted = (known.lifecycles if "lifecycle" in fields else frozenset()) | (
        known.states if "state" in fields else frozenset()
    )
    return texts & wanted & SHARED


def _fields(side: ast.expr) -> Iterator[str]:
    """`lifecycle` of anything, and `state` of something that is called a task."""
    if isinstance(side, ast.Attribute):
        name = side.value.id if isinstance(side.value, ast.Name) else ""
        if side.attr == "lifecycle" or (side.attr == "state" and name in TASKS):
            yield side.attr
    elif isinstance(side, ast.Subscript) and ast.unparse(side.slice) == "'lifecycle'":
        yield "lifecycle"
