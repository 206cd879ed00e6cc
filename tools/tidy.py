"""The rules of the house that a program can check: layers, sizes, names, words, generated pages.

Each rule returns the flaws of a tree, by default this repository, as lines; none means tidy.
Reads files, imports nothing of detent.
"""

import ast
import os
import re
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from tools import language, layers, lifecycle_names, module_names, safety

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ("src", "tests", "tools", "bench", "examples", "verification")
MODULE_LINES = 450
FUNCTION_LINES = 60
FUNCTION_LINES_95_PERCENT = 50
FUNCTION_LINES_MEDIAN = 10
VAGUE_NAMES = {"utils", "helpers", "common", "manager", "base"}
#: Where a lock file says that a package is; it may name its authors' pages as well.
SOURCE = re.compile(r"(?:url = |registry = |\"resolved\": )\"https?://([^/\"\s]+)")
LOCKED_HOSTS = {"pypi.org", "files.pythonhosted.org", "registry.npmjs.org"}
LOCKS = {"uv.lock", "package-lock.json"}
# The repository speaks of the project alone, and works on any machine.
FORBIDDEN_WORDS = (
    re.compile(r"\bseeds? 00\d", re.IGNORECASE),
    re.compile(r"\.\./shared\b"),
    re.compile(r"(?<![\w.-])/work/"),
    re.compile(r"(?:index|registry)[-_ ]?url\s*[=:]", re.IGNORECASE),
)


@dataclass(frozen=True)
class Module:
    """One Python file of the tree, parsed on first use."""

    root: Path
    path: Path

    @cached_property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, filename=str(self.path))

    @property
    def place(self) -> str:
        return str(self.path.relative_to(self.root))


class Function(NamedTuple):
    """Where a function is and how long it is, decorators left out."""

    place: str
    lines: int


def modules(root: Path, *folders: str) -> Iterator[Module]:
    """Every Python file below the folders; a folder that is not there yet has none."""
    for folder in folders or SOURCES:
        for path in sorted((root / folder).rglob("*.py")):
            yield Module(root, path)


def layer_flaws(root: Path = ROOT) -> list[str]:
    """Imports that do not go downward, and a kernel that is not pure."""
    return [
        f"{module.place}:{flaw}"
        for module in modules(root, "src")
        for flaw in layers.flaws(layers.dotted_name(root / "src", module.path), module.tree)
    ]


def safety_flaws(root: Path = ROOT) -> list[str]:
    """Data that could become code, shell text or a part of a statement."""
    return [
        f"{module.place}:{flaw}"
        for module in modules(root, "src")
        for flaw in safety.flaws(module.place, module.tree)
    ]


def lifecycle_name_flaws(root: Path = ROOT) -> list[str]:
    """Code that names a shipped lifecycle or one of its states instead of reading the document."""
    known = lifecycle_names.words(root)
    return [
        f"{module.place}:{flaw}"
        for module in modules(root, "src")
        for flaw in lifecycle_names.flaws(module.place, module.tree, known)
    ]


def docstring_flaws(root: Path = ROOT) -> list[str]:
    """Modules whose docstring does not say in its first line what they are for."""
    return [
        f"{module.place}: no docstring whose first line says what it is for"
        for module in modules(root)
        if not _has_summary(ast.get_docstring(module.tree) or "")
    ]


def _has_summary(docstring: str) -> bool:
    """Whether the first line is a paragraph: the list of modules shows it alone."""
    first, _, rest = docstring.partition("\n")
    return bool(first) and not rest.partition("\n")[0]


def name_flaws(root: Path = ROOT) -> list[str]:
    """Modules and packages whose name says nothing."""
    return [
        f"{module.place}: name it after what it does"
        for module in modules(root)
        if VAGUE_NAMES & {part.removesuffix(".py") for part in Path(module.place).parts}
    ]


def same_name_flaws(root: Path = ROOT) -> list[str]:
    """Modules that one opens together and that have the same file name."""
    return list(module_names.flaws(root))


def module_size_flaws(root: Path = ROOT) -> list[str]:
    """Modules that are too long to read in one go."""
    return [
        f"{module.place}: {lines} lines, at most {MODULE_LINES}"
        for module in modules(root)
        if (lines := module.text.count("\n")) > MODULE_LINES
    ]


def function_size_flaws(root: Path = ROOT) -> list[str]:
    """Functions that do not fit a screen anywhere, and the spread of sizes in the package."""
    every = [*functions(modules(root))]
    flaws = [
        f"{function.place}: {function.lines} lines, at most {FUNCTION_LINES}"
        for function in every
        if function.lines > FUNCTION_LINES
    ]
    return flaws + _spread_flaws([each.lines for each in every if each.place.startswith("src/")])


def functions(among: Iterator[Module]) -> Iterator[Function]:
    """Every function and method of the modules, nested ones too."""
    for module in among:
        for node in ast.walk(module.tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                yield Function(f"{module.place}:{node.lineno} {node.name}", lines)


def _spread_flaws(sizes: list[int]) -> list[str]:
    if not sizes:
        return []
    flaws = []
    if (median := statistics.median(sizes)) >= FUNCTION_LINES_MEDIAN:
        flaws.append(f"src: median function {median:g} lines, under {FUNCTION_LINES_MEDIAN}")
    small = sum(lines < FUNCTION_LINES_95_PERCENT for lines in sizes) / len(sizes)
    if small < 0.95:
        flaws.append(f"src: {small:.1%} of functions under {FUNCTION_LINES_95_PERCENT} lines")
    return flaws


def word_flaws(root: Path = ROOT) -> list[str]:
    """Words that belong to one machine or to how the project came about."""
    return [
        f"{path.relative_to(root)}:{number}: {match[0]!r} does not belong here"
        for path, text in texts(root)
        if path != Path(__file__).resolve()
        for number, line in enumerate(text.splitlines(), start=1)
        for pattern in FORBIDDEN_WORDS
        if (match := pattern.search(line))
    ]


def language_flaws(root: Path = ROOT) -> list[str]:
    """Metaphors, private vocabulary and odd English: see `tools/language.py`."""
    return [
        f"{use.path}:{use.line}: {use.word!r}, write: {language.instead_of(use.word)}"
        for use in language.uses(root)
    ]


def lock_flaws(root: Path = ROOT) -> list[str]:
    """Lock files that name a host other than the public registries."""
    return [
        f"{path.relative_to(root)}: {host} is not a public registry"
        for path, text in texts(root)
        if path.name in LOCKS
        for host in sorted(set(SOURCE.findall(text)) - LOCKED_HOSTS)
    ]


def texts(root: Path) -> Iterator[tuple[Path, str]]:
    """Every text file of the tree except git's own and those below directories of .gitignore."""
    ignored = {".git", *_ignored_directories(root)}
    for directory, folders, names in os.walk(root):
        folders[:] = sorted(set(folders) - ignored)
        for path in (Path(directory, name) for name in sorted(set(names) - {".git"})):
            try:
                yield path, path.read_text(encoding="utf-8")
            except (UnicodeDecodeError, OSError):
                continue  # no text, or something that is not a file


def _ignored_directories(root: Path) -> set[str]:
    listed = root / ".gitignore"
    lines = listed.read_text(encoding="utf-8").splitlines() if listed.exists() else []
    return {line.removesuffix("/") for line in lines if line.endswith("/")}


def generated_flaws() -> list[str]:
    """Generated pages that are not what the code would write today."""
    # In a process of its own: generators import detent, and a broken import is one flaw of many.
    command = [sys.executable, "-m", "tools.generate", "--check"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return result.stderr.splitlines() if result.returncode else []


RULES: tuple[Callable[[], list[str]], ...] = (
    layer_flaws,
    safety_flaws,
    lifecycle_name_flaws,
    docstring_flaws,
    name_flaws,
    same_name_flaws,
    module_size_flaws,
    function_size_flaws,
    word_flaws,
    language_flaws,
    lock_flaws,
    generated_flaws,
)


def main() -> int:
    flaws = [flaw for rule in RULES for flaw in rule()]
    print("\n".join(flaws) or "tidy", file=sys.stderr if flaws else sys.stdout)
    return 1 if flaws else 0


if __name__ == "__main__":
    sys.exit(main())
