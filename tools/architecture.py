"""Writes the layers of ARCHITECTURE.md from their table, and the page that lists all modules."""

import ast
from pathlib import Path

from tools.layers import LAYERS

ROOT = Path(__file__).resolve().parent.parent
COLUMN = 34
MODULES = """\
# Modules

Every module of the package, with the first line of its docstring. How the modules work together is
in [Architecture](../architecture.md).

| question | place |
|---|---|
| Which transitions exist? | `kernel/lifecycles/`; of tasks `task_lifecycles/` |
| What does the end of a run do to its job and its task? | `kernel/couplings.py` |
| When is a failed attempt repeated? | `kernel/retry.py`; for a plan step also `kernel/critic.py` |
| What can a person or a program do with a task? | `operations/`, one function for each operation |
| Which SQL differs between the databases? | `store/sqlite/sql/` and `store/postgres/sql/`; \
every file says why |
| Which settings exist? | `settings.py` |
| What does an error code mean? | `error_codes/` |
| What does the keeper do, and how often? | `duties` in `service.py` |
| Where is a new command added? | a module in `cli/`, and its line in `cli/command_table.py` |
| Where is a new runner added? | a class in `worker/runners/`, a handler in `app/handlers.py`, and \
a line in `worker/runners/registry.py` |

```text
{tree}
```
"""


def architecture() -> str:
    """ARCHITECTURE.md with its layers updated."""
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    return _with("layers", layers(), text)


def modules() -> str:
    """The page docs/reference/modules.md."""
    tree = ["src/detent/", *draw(ROOT / "src" / "detent")]
    return MODULES.format(tree="\n".join(tree))


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
    for mark in _marks("layers"):
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
    return f"{name:<{COLUMN - 2}}  {summary(entry)}".rstrip()


def _is_python(entry: Path) -> bool:
    if entry.is_dir():
        return any(entry.rglob("*.py"))
    # A package's docstring is shown beside its directory; an initializer would repeat it.
    return entry.suffix == ".py" and (entry.name != "__init__.py" or _is_root(entry.parent))


def _is_root(package: Path) -> bool:
    return not (package.parent / "__init__.py").exists()


def _initializer_first(entry: Path) -> tuple[bool, str]:
    return (entry.name != "__init__.py", entry.name)
