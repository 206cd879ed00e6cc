"""Which part of detent may import which: the layers as data, and the check of one module."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

# From the top to the bottom. A part imports itself and the lines below,
# never its neighbours in its own line.
LAYERS: tuple[frozenset[str], ...] = (
    frozenset({"__init__", "__main__"}),
    frozenset({"cli"}),
    frozenset({"demo"}),
    frozenset({"testing"}),
    frozenset({"service"}),
    frozenset({"gateway", "worker", "keeper", "integrations", "client", "qa", "qa_sample"}),
    frozenset({"app"}),
    frozenset({"operations"}),
    frozenset(
        {
            "feed",
            "lifecycle_config",
            "limit_config",
            "provider_config",
            "submission",
            "thresholds",
            "transfer",
            "views",
        }
    ),
    frozenset({"integrity"}),
    frozenset({"engine"}),
    frozenset({"store"}),
    frozenset({"diagrams", "lifecycle_search", "lifecycle_tla", "review", "task_lifecycles"}),
    frozenset({"kernel"}),
    frozenset({"allowed_hosts", "program_log", "server_file", "settings_loader"}),
    frozenset(
        {
            "addresses",
            "api_version",
            "private_files",
            "settings",
            "transactional_enqueue",
            "intent_config",
            "ids",
            "optional_package",
            "schedule_times",
            "http_requests",
            "http_routes",
            "boot_time",
            "environment_token",
            "outage",
            "failpoints",
            "failure_log",
            "periodic_thread",
            "pkce",
            "quantity",
            "redaction",
            "trace_propagation",
            "transcript",
        }
    ),
    frozenset({"errors"}),
    frozenset({"error_codes", "suggestions"}),
)
LEVEL = {part: level for level, parts in enumerate(LAYERS) for part in parts}
# Packages inside one part that must not know each other.
STRANGERS = (("detent.store.sqlite", "detent.store.postgres"),)
PURE_PARTS = frozenset({"kernel", "quantity", "review", "errors", "error_codes"})
# Clocks, randomness, input and output, logging, threads: what a pure module does without.
IMPURE = frozenset(
    [
        "asyncio",
        "ctypes",
        "io",
        "logging",
        "multiprocessing",
        "os",
        "pathlib",
        "random",
        "secrets",
        "select",
        "selectors",
        "shutil",
        "signal",
        "socket",
        "sqlite3",
        "ssl",
        "subprocess",
        "tempfile",
        "threading",
        "time",
        "urllib",
        "uuid",
    ]
)


class Import(NamedTuple):
    """One imported module, by its full name, and the line that imports it."""

    line: int
    name: str


def dotted_name(source: Path, path: Path) -> str:
    """`detent.kernel.decide` for its file; `detent.kernel.__init__` for that of a package."""
    return ".".join(path.relative_to(source).with_suffix("").parts)


def flaws(module: str, tree: ast.Module) -> Iterator[str]:
    """What is wrong with the imports of one module, as `line: what`."""
    part = module.split(".")[1]
    if part not in LEVEL:
        yield f"1: {part} has no layer; give it one in tools/layers.py"
        return
    for imported in imports(module, tree):
        if reason := _forbidden(module, part, imported.name):
            yield f"{imported.line}: imports {imported.name}: {reason}"


def imports(module: str, tree: ast.Module) -> Iterator[Import]:
    """Everything a module imports, anywhere in it, with relative imports resolved."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (Import(node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            origin = _origin(module, node)
            yield from (Import(node.lineno, f"{origin}.{alias.name}") for alias in node.names)


def _origin(module: str, node: ast.ImportFrom) -> str:
    parents = module.split(".")[: -node.level] if node.level else []
    return ".".join(filter(None, [*parents, node.module]))


def _forbidden(module: str, part: str, imported: str) -> str:
    top, _, rest = imported.partition(".")
    if top != "detent":
        return _foreign(part, top)
    target = rest.partition(".")[0]
    if target not in LEVEL:
        return "import from the module that defines it, not from the package's public names"
    if target != part and LEVEL[target] <= LEVEL[part]:
        return f"{part} may not import {target}: imports go downward only"
    if part in PURE_PARTS and target not in PURE_PARTS:
        return f"{part} imports the standard library, the kernel and errors alone"
    return _strange(module, imported)


def _foreign(part: str, top: str) -> str:
    if part not in PURE_PARTS:
        return ""
    if top not in sys.stdlib_module_names:
        return f"{part} is standard library only"
    return f"{part} is pure" if top in IMPURE else ""


def _strange(module: str, imported: str) -> str:
    for pair in STRANGERS:
        for own, other in (pair, pair[::-1]):
            if _within(module, own) and _within(imported, other):
                return f"{own} and {other} do not know each other"
    return ""


def _within(name: str, package: str) -> bool:
    return name == package or name.startswith(package + ".")
