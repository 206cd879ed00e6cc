"""Calls that would make code, shell text or SQL of data: what no module of the package may do.

Each exception is listed by its file, with the reason. Reads files, imports nothing of detent.
"""

import ast
from collections.abc import Iterator, Mapping

#: Modules that run what they read.
LOADERS = frozenset({"pickle", "marshal", "shelve", "dill", "cloudpickle", "jsonpickle", "runpy"})
#: Calls that run a text, or import what a text names.
RUNNING = frozenset({"eval", "exec", "compile", "__import__", "import_module"})
#: Calls that give a text to a shell.
SHELLS = frozenset({"os.system", "os.popen", "subprocess.getoutput", "subprocess.getstatusoutput"})
YAML = frozenset({"yaml.safe_load", "yaml.YAMLError"})
STATEMENTS = ("SELECT ", "INSERT ", "UPDATE ", "DELETE ", "COPY ", "CREATE ", "DROP ", "ALTER ")

#: Where such a call is right, and why.
ALLOWED: Mapping[str, str] = {
    "src/detent/__init__.py": "its own public names, from a table",
    "src/detent/cli/main.py": "its own commands, from a table",
    "src/detent/cli/reload.py": "looks whether a changed file can be compiled, and runs nothing",
    "src/detent/app/app.py": "the app that the operator has configured",
    "src/detent/worker/runners/ray/node_task.py": "the function that the operator's app declares",
    "src/detent/transactional_enqueue.py": "places for values, from a table; the values are bound",
    "src/detent/store/list_sql.py": "columns are checked against the tables; values are bound",
    "src/detent/store/postgres/set_rows.py": "columns are fields of entities; values are bound",
    "src/detent/store/sqlite/set_rows.py": "columns are fields of entities; values are bound",
    "src/detent/store/sqlite/table_copy.py": "names come from the schema",
}
#: Programs for tests are in the package; no data of users reaches them.
FOR_TESTS = "src/detent/testing/"


def flaws(place: str, tree: ast.Module) -> Iterator[str]:
    """What one module does that it may not, as `line: what`."""
    if place in ALLOWED or place.startswith(FOR_TESTS):
        return
    for node in ast.walk(tree):
        if what := _flaw(node):
            yield f"{getattr(node, 'lineno', 1)}: {what}"


def _flaw(node: ast.AST) -> str:
    if isinstance(node, ast.Import | ast.ImportFrom):
        return _imported(node)
    if isinstance(node, ast.Call):
        return _called(node)
    if isinstance(node, ast.Attribute):
        name = ast.unparse(node)
        return f"{name} may make objects" if name.startswith("yaml.") and name not in YAML else ""
    if isinstance(node, ast.JoinedStr) and _begins(node).startswith(STATEMENTS):
        return "a statement is put together of texts: bind its values"
    return ""


def _imported(node: ast.Import | ast.ImportFrom) -> str:
    origin = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
    names = {name.partition(".")[0] for name in origin or [each.name for each in node.names]}
    return f"{', '.join(sorted(found))} runs what it reads" if (found := names & LOADERS) else ""


def _called(node: ast.Call) -> str:
    name = ast.unparse(node.func)
    if name in SHELLS or name.endswith("create_subprocess_shell"):
        return f"{name} starts a shell"
    if any(each.arg == "shell" and not _is_false(each.value) for each in node.keywords):
        return "shell= starts a shell"
    last = name.rpartition(".")[2]
    if name in RUNNING or (last == "import_module"):
        return f"{name} makes code of data"
    return ""


def _is_false(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value is False


def _begins(text: ast.JoinedStr) -> str:
    first = text.values[0] if text.values else None
    return str(first.value).lstrip() if isinstance(first, ast.Constant) else ""
