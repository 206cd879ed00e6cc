"""Modules of detent that one opens together have different file names.

Two modules are opened together if they are in the same part of `src/detent`, or if one imports the
other. Exceptions are data, each with its reason. Reads files, imports nothing of detent.
"""

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

from tools import layers


class Parallel(NamedTuple):
    """Packages that have the same modules on purpose."""

    packages: frozenset[str]
    reason: str


class SameName(NamedTuple):
    """Two modules that may share a file name."""

    first: str
    second: str
    reason: str


PARALLEL = (
    Parallel(
        frozenset(
            f"kernel.{each}"
            for each in ("commands", "decide", "events", "evolve", "lifecycles", "transitions")
        ),
        "the kernel's tables have one module for each entity or topic",
    ),
    Parallel(
        frozenset({"store.memory", "store.postgres", "store.sqlite"}),
        "each store implements the same port with the same modules",
    ),
    Parallel(
        frozenset({"cli", "operations"}),
        "a command has one module, named like the operations that it calls",
    ),
)
#: Each module of these packages is named after the module that it checks.
CHECKS = frozenset({"testing.conformance"})
ALLOWED = (
    SameName("integrity.audit", "testing.audit", "the second is the assertion of the first"),
    SameName("cli.verify", "integrity.verify", "the command and what it runs"),
    SameName("cli.lifecycle", "kernel.lifecycle", "the command and the type that it shows"),
    SameName("kernel.decide.lifecycles", "operations.lifecycles", "the operations and their rules"),
    SameName(
        "operations.context",
        "submission.context",
        "what all operations work with, and the part of it that a submission is checked against",
    ),
)


def flaws(root: Path) -> Iterator[str]:
    """Every pair of modules that are opened together and have the same file name."""
    modules = {name: path for path, name in _modules(root / "src" / "detent")}
    imported = {name: _imports(root / "src", path) for name, path in modules.items()}
    by_name: defaultdict[str, list[str]] = defaultdict(list)
    for name in modules:
        by_name[name.rpartition(".")[2]].append(name)
    for file_name, names in sorted(by_name.items()):
        for first, second in combinations(sorted(names), 2):
            if _together(first, second, imported) and not _allowed(first, second):
                yield (
                    f"{_file(first)} and {_file(second)} are both named {file_name}.py: rename one "
                    "of them, or add the pair with a reason to tools/module_names.py"
                )


def _modules(package: Path) -> Iterator[tuple[Path, str]]:
    for path in sorted(package.rglob("*.py")):
        if path.stem not in ("__init__", "__main__"):
            yield path, ".".join(path.relative_to(package).with_suffix("").parts)


def _imports(source: Path, path: Path) -> set[str]:
    """The modules of detent that a module imports, without the package's name."""
    tree = ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
    found = layers.imports(layers.dotted_name(source, path), tree)
    full = {each.name.removeprefix("detent.") for each in found if each.name.startswith("detent.")}
    return full | {name.rpartition(".")[0] for name in full}


def _together(first: str, second: str, imported: Mapping[str, set[str]]) -> bool:
    same_part = "." in first and first.partition(".")[0] == second.partition(".")[0]
    return same_part or second in imported[first] or first in imported[second]


def _allowed(first: str, second: str) -> bool:
    packages = {first.rpartition(".")[0], second.rpartition(".")[0]}
    if packages & CHECKS:
        return True
    if any(packages <= each.packages for each in PARALLEL):
        return True
    return any({first, second} == {each.first, each.second} for each in ALLOWED)


def _file(name: str) -> str:
    return f"src/detent/{name.replace('.', '/')}.py"
