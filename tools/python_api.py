"""Writes the reference page of the Python API from docstrings and signatures.

`tools.generate` writes what PAGES names; nothing here touches a file. Signatures are printed as
they are in the source, so the page shows the annotations that a type checker reads.
"""

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from detent.app.app import App
from detent.app.async_run_context import AsyncRun
from detent.app.failures import (
    CodeChanged,
    DependencyMissing,
    Expired,
    Failure,
    Interrupted,
    NeedsUser,
    NetworkError,
    OverBudget,
    RateLimited,
    ResourceFailed,
    Stopped,
    SubtaskFailed,
    Suspended,
    TimedOut,
)
from detent.app.handle import Handle
from detent.app.intent import Intent, Using
from detent.app.plan_request import PlanRequest
from detent.app.ray_run import RayRun
from detent.app.run_context import Run
from detent.app.run_info import RunInfo
from detent.app.step_result import StepResult
from detent.app.subtasks import Subtask, SubtaskOutcome
from detent.client.async_client import AsyncClient, AsyncHandle
from detent.client.sync_client import Client
from detent.client.sync_client import Handle as ClientHandle
from detent.errors import (
    Broken,
    DetentError,
    Forbidden,
    Invalid,
    JobFailed,
    Misconfigured,
    NotFound,
    Refused,
    TooLarge,
    TooMany,
    Unauthorized,
    Unavailable,
)
from detent.testing.harness import Harness
from detent.transactional_enqueue import intake_row
from detent.worker.worker import Worker

INTRODUCTION = """\
# Python API

The names on this page are public. Import them from `detent`; each section names the other modules.
A handler is a function that is registered in an `App` for an intent, which is the name of a task
type. A `Worker`, or a `Harness` in a test, calls it.

Every example on this page is executed by a test, after these lines:

```python
from detent import App, AsyncRun, RayRun, Run
from detent.testing import Harness

app = App()
harness = Harness(app)
```

The examples of the client use the `url` and the `token` of a gateway whose worker has a handler for
the intent `greet`.

There are two kinds of steps. `run.step()` executes a *durable step*: a call in a handler whose
result is recorded as a checkpoint. A *plan step* is a part of a plan, and has an intent and runs of
its own.
"""
FENCE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)

COMMENTED_FIELD = re.compile(r"^ +#: (?P<text>.+)\n +(?P<name>\w+): ", re.MULTILINE)

Function = ast.FunctionDef | ast.AsyncFunctionDef


class Section(NamedTuple):
    """A part of the page: a heading, a sentence, and the objects in it."""

    heading: str
    text: str
    objects: tuple[Any, ...]


SECTIONS = (
    Section(
        "App",
        "`from detent import App, Intent`. [Options and limits](../howto/options.md) explains the "
        "options of an intent.",
        (App, Intent, Using),
    ),
    Section("Handles", "`from detent import Handle`. `submit` returns one.", (Handle,)),
    Section(
        "Run context",
        "`from detent import Run, AsyncRun, RayRun`. A handler gets it as its parameter `run`; "
        "RayRun if Ray executes it.",
        (RunInfo, Run, AsyncRun, RayRun),
    ),
    Section(
        "Subtasks and plans",
        "`from detent import PlanRequest, StepResult, Subtask, SubtaskOutcome`",
        (Subtask, SubtaskOutcome, PlanRequest, StepResult),
    ),
    Section(
        "Failures that a handler raises",
        "`from detent import Failure, NetworkError, …`. The class decides whether and when the job "
        "is retried. Any other exception is a failure of the class `error`; an `OSError` of the "
        "network is of the class `network`, a `TimeoutError` of the class `timeout`.",
        (
            *(Failure, NetworkError, TimedOut, RateLimited, DependencyMissing, ResourceFailed),
            *(NeedsUser, OverBudget),
        ),
    ),
    Section(
        "Exceptions that a handler meets",
        "`from detent import Expired, SubtaskFailed, …`. Methods of `run` raise them.",
        (Expired, SubtaskFailed, CodeChanged, Interrupted, Suspended, Stopped),
    ),
    Section("Worker", "`from detent import Worker`", (Worker,)),
    Section(
        "Client",
        "`from detent import Client, AsyncClient`; handles: `from detent.client import Handle`. "
        "See [Use the Python client](../howto/client.md).",
        (Client, ClientHandle, AsyncClient, AsyncHandle),
    ),
    Section(
        "Test harness",
        "`from detent.testing import Harness`. See [Test handlers](../howto/test-handlers.md).",
        (Harness,),
    ),
    Section(
        "Transactional enqueue",
        "`from detent import intake_row`. See "
        "[Submit in your own transaction](../howto/transactional-enqueue.md).",
        (intake_row,),
    ),
    Section(
        "Errors",
        "`from detent.errors import …`. Each has a `code` ([list of codes](errors.md)), a "
        "`message`, a `hint` and `details`.",
        (
            *(DetentError, Refused, Invalid, NotFound, Unauthorized, Forbidden, TooLarge),
            *(TooMany, Unavailable, Misconfigured, Broken, JobFailed),
        ),
    ),
)


def python_api() -> str:
    """The whole page."""
    parts = [INTRODUCTION]
    for section in SECTIONS:
        parts += [f"## {section.heading}\n", f"{section.text}\n"]
        for each in section.objects:
            parts += _class(each) if inspect.isclass(each) else [_function(_tree(each), "###")]
    return "\n".join(parts).rstrip() + "\n"


def _class(kind: type) -> Iterator[str]:
    yield f"### {kind.__name__}\n"
    yield f"{_text(kind)}\n"
    tree = _tree(kind)
    assert isinstance(tree, ast.ClassDef)
    functions = [node for node in tree.body if isinstance(node, Function)]
    initial = next((node for node in functions if node.name == "__init__"), None)
    if initial is not None and kind is not RunInfo and issubclass(kind, SHOWN_WITH_ARGUMENTS):
        yield f"```python\n{_signature(initial, kind.__name__)}\n```\n"
    attributes = [
        *_fields(tree, _comments(kind)),
        *(_attribute(node) for node in functions if _is_property(node)),
    ]
    if attributes:
        yield "\n".join(["| attribute | type | meaning |", "|---|---|---|", *attributes]) + "\n"
    for name in dict.fromkeys(node.name for node in functions if _is_public(node)):
        if name in INTERNAL.get(kind, ()):
            continue
        yield _method([node for node in functions if node.name == name], kind)


#: Methods that other packages of detent call, and users do not.
INTERNAL = {
    App: ("prepare", "prepare_subtask", "submit_prepared", "context", "bind"),
    Intent: ("payload_of", "returns_for", "row"),
    Worker: ("files",),
    Harness: ("files",),
}
#: Classes that users make themselves: their arguments are shown.
SHOWN_WITH_ARGUMENTS = (Failure, Worker, Client, AsyncClient, Harness)


def _method(versions: list[Function], kind: type) -> str:
    """One method: its overloads if it has them, and the text of its implementation."""
    shown = [node for node in versions if _is_overload(node)] or versions
    signatures = "\n".join(_signature(node, node.name) for node in shown)
    text = _documented(versions[-1])
    return f"#### {kind.__name__}.{versions[-1].name}\n\n```python\n{signatures}\n```\n\n{text}\n"


def _function(tree: ast.AST, level: str) -> str:
    assert isinstance(tree, Function)
    signature = _signature(tree, tree.name)
    return f"{level} {tree.name}\n\n```python\n{signature}\n```\n\n{_documented(tree)}\n"


def _signature(node: Function, name: str) -> str:
    """The signature as in the source, without `self`; it is valid Python."""
    arguments = node.args
    first = next(iter([*arguments.posonlyargs, *arguments.args]), None)
    text = ast.unparse(arguments)
    if first is not None and first.arg in ("self", "cls"):
        text = text.removeprefix(first.arg).removeprefix(", ").removeprefix("/, ")
    returns = f" -> {_returned(node)}" if node.returns and name == node.name else ""
    keyword = "async def" if isinstance(node, ast.AsyncFunctionDef) else "def"
    parts = [_spaced(part) for part in _split(text)]
    line = f"{keyword} {name}({', '.join(parts)}){returns}: ..."
    if len(line) <= 88:
        return line
    indented = "".join(f"    {part},\n" for part in parts)
    return f"{keyword} {name}(\n{indented}){returns}: ..."


def _returned(node: Function) -> str:
    """The annotation of the result; a forward reference is shown without its quotes."""
    return "" if node.returns is None else ast.unparse(node.returns).replace("'", "")


def _spaced(argument: str) -> str:
    """An argument with spaces around the `=` of its default, and double quotes."""
    spaced = argument.replace("=", " = ", 1) if ":" in argument else argument
    return spaced.replace("'", '"')


def _split(arguments: str) -> Iterator[str]:
    """The arguments of a signature, split at commas that are not inside brackets."""
    depth, part = 0, ""
    for character in arguments:
        depth += (character in "([{") - (character in ")]}")
        if character == "," and depth == 0:
            yield part.strip()
            part = ""
        else:
            part += character
    yield part.strip()


def _fields(tree: ast.ClassDef, comments: Mapping[str, str]) -> Iterator[str]:
    """The fields of a dataclass or named tuple."""
    for node in tree.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            name, annotation = node.target.id, ast.unparse(node.annotation)
            if not annotation.startswith("ClassVar") and not name.startswith("_"):
                yield f"| `{name}` | `{_cell(annotation)}` | {comments.get(name, '')} |"


def _comments(kind: type) -> Mapping[str, str]:
    """The meaning of each field: the comment `#: …` in the line above it."""
    found = COMMENTED_FIELD.finditer(inspect.getsource(kind))
    return {each["name"]: each["text"] for each in found}


def _attribute(node: Function) -> str:
    returns = "" if node.returns is None else f"`{_cell(ast.unparse(node.returns))}`"
    text = " ".join(_documented(node).split())
    return f"| `{node.name}` | {returns} | {text} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _is_public(node: Function) -> bool:
    documented = ast.get_docstring(node) is not None or _is_overload(node)
    return not node.name.startswith("_") and not _is_property(node) and documented


def _is_property(node: Function) -> bool:
    return any(isinstance(each, ast.Name) and each.id == "property" for each in node.decorator_list)


def _is_overload(node: Function) -> bool:
    return any(isinstance(each, ast.Name) and each.id == "overload" for each in node.decorator_list)


def _documented(node: Function) -> str:
    return inspect.cleandoc(ast.get_docstring(node) or "")


def _text(kind: type) -> str:
    return inspect.cleandoc(kind.__doc__ or "")


def _tree(found: Any) -> ast.AST:
    return ast.parse(textwrap.dedent(inspect.getsource(found))).body[0]


def examples() -> Mapping[str, list[str]]:
    """The examples in docstrings, by the name of the class or method that has them."""
    found: dict[str, list[str]] = {}
    for section in SECTIONS:
        for each in section.objects:
            if inspect.isclass(each):
                found[each.__name__] = FENCE.findall(_text(each))
                for name, member in vars(each).items():
                    if callable(member) and not name.startswith("_"):
                        text = inspect.cleandoc(member.__doc__ or "")
                        found[f"{each.__name__}.{name}"] = FENCE.findall(text)
    return found


PAGES: Mapping[str, Callable[[], str]] = {"docs/reference/python.md": python_api}
