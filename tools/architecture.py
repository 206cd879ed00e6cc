"""Draws the tree in ARCHITECTURE.md from the first docstring line of every module."""

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BEGIN = "<!-- tree: written by ./dev generate -->\n"
END = "<!-- end of tree -->\n"
COLUMN = 34


def architecture() -> str:
    """ARCHITECTURE.md with its tree section drawn anew."""
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    tree = "\n".join(draw(ROOT / "src" / "detent"))
    return f"{before}{BEGIN}\n```text\nsrc/detent/\n{tree}\n```\n\n{END}{after}"


def site_page() -> str:
    """The same page for the documentation site, where docs/ is the root of links."""
    text = architecture().replace(BEGIN, "").replace(END, "")
    return text.replace("](docs/", "](")


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
    # A package's own docstring stands beside its directory; an initializer would repeat it.
    return entry.suffix == ".py" and (entry.name != "__init__.py" or _is_root(entry.parent))


def _is_root(package: Path) -> bool:
    return not (package.parent / "__init__.py").exists()


def _initializer_first(entry: Path) -> tuple[bool, str]:
    return (entry.name != "__init__.py", entry.name)
