"""Draws the layers and the tree in ARCHITECTURE.md, from their table and from the modules."""

import ast
from pathlib import Path

from tools.layers import LAYERS

ROOT = Path(__file__).resolve().parent.parent
SECTIONS = ("layers", "tree")
COLUMN = 34


def architecture() -> str:
    """ARCHITECTURE.md with its two generated sections updated."""
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    tree = ["src/detent/", *draw(ROOT / "src" / "detent")]
    return _with("tree", tree, _with("layers", layers(), text))


def _with(section: str, lines: list[str], text: str) -> str:
    begin, end = _marks(section)
    before, _, rest = text.partition(begin)
    _, _, after = rest.partition(end)
    drawn = "\n".join(lines)
    return f"{before}{begin}\n```text\n{drawn}\n```\n\n{end}{after}"


def _marks(section: str) -> tuple[str, str]:
    return f"<!-- {section}: written by ./dev generate -->\n", f"<!-- end of {section} -->\n"


def site_page() -> str:
    """The same page for the documentation site, where docs/ is the root of links."""
    text = architecture()
    for mark in (mark for section in SECTIONS for mark in _marks(section)):
        text = text.replace(mark, "")
    return text.replace("](docs/", "](")


def layers() -> list[str]:
    """The lines of the table, from the top; the package's own two modules are left out."""
    return [" | ".join(sorted(parts)) for parts in LAYERS if "__init__" not in parts]


def draw(package: Path, indent: str = "") -> list[str]:
    """The lines below one package, modules and packages in one alphabet."""
    entries = sorted(filter(_is_python, package.iterdir()), key=_initializer_first)
    lines = []
    for entry in entries:
        last = entry == entries[-1]
        lines.append(_line(entry, indent + ("└── " if last else "├── ")))
        if entry.is_dir():
            lines += draw(entry, indent + ("    " if last else "│   "))
    return lines


def summary(module: Path) -> str:
    """The first line of a module's docstring, or nothing while there is none."""
    source = module / "__init__.py" if module.is_dir() else module
    if not source.exists():
        return ""
    docstring = ast.get_docstring(ast.parse(source.read_text(encoding="utf-8"))) or ""
    return docstring.partition("\n")[0].removesuffix(".")


def _line(entry: Path, branches: str) -> str:
    name = branches + entry.name + ("/" if entry.is_dir() else "")
    return f"{name:<{COLUMN}}{summary(entry)}".rstrip()


def _is_python(entry: Path) -> bool:
    if entry.is_dir():
        return any(entry.rglob("*.py"))
    # A package's docstring is shown beside its directory; an initializer would repeat it.
    return entry.suffix == ".py" and (entry.name != "__init__.py" or _is_root(entry.parent))


def _is_root(package: Path) -> bool:
    return not (package.parent / "__init__.py").exists()


def _initializer_first(entry: Path) -> tuple[bool, str]:
    return (entry.name != "__init__.py", entry.name)
