"""The reference of the Python API: its examples run, and every method of Run has one."""

import asyncio
import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import detent
from detent import App, AsyncClient, AsyncRun, Client, RayRun, Run, Worker
from detent.testing import Harness
from tests.docs.pages import ROOT
from tests.gateway.installation import installed
from tools.python_api import INTERNAL, SECTIONS, examples

PAGE = (ROOT / "docs" / "reference" / "python.md").read_text("utf-8")
FOUND = examples()
#: Examples that need a running gateway.
REMOTE = ("Client", "AsyncClient")


@pytest.mark.parametrize(
    ("name", "code"),
    [pytest.param(name, code, id=name) for name, found in FOUND.items() for code in found],
)
def test_an_example_of_a_docstring_runs(
    name: str, code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "assert " in code, f"the example of {name} checks nothing"
    monkeypatch.chdir(tmp_path)
    names = {
        "App": App,
        "Run": Run,
        "RayRun": RayRun,
        "AsyncRun": AsyncRun,
        "Harness": Harness,
        "Worker": Worker,
    }
    for given in remote(tmp_path) if name in REMOTE else local():
        exec(compile(code, name, "exec"), {**names, **given})


def local() -> Iterator[dict[str, Any]]:
    app = App()
    yield {"app": app, "harness": Harness(app)}


def remote(directory: Path) -> Iterator[dict[str, Any]]:
    """A gateway and a worker with the intent `greet`."""
    app = App()

    @app.intent("greet")
    def greet(name: str) -> str:
        return f"Hello, {name}"

    with installed(directory) as gateway, Worker(gateway.core, app):
        clients = {"Client": Client, "AsyncClient": AsyncClient, "asyncio": asyncio}
        yield {**clients, "url": gateway.url, "token": gateway.token}


def test_every_method_of_run_has_an_example() -> None:
    methods = {name for name, _ in inspect.getmembers(Run, inspect.isfunction) if name in vars(Run)}
    assert methods == {
        *("step", "effect", "sleep", "wait_for", "ask", "subtask", "gather", "map"),
        *("progress", "log", "evidence", "now"),
    }
    assert [name for name in sorted(methods) if not FOUND[f"Run.{name}"]] == []


def test_a_coroutine_has_the_methods_of_a_function() -> None:
    def public(kind: type) -> set[str]:
        return {name for name in vars(kind) if not name.startswith("_")}

    assert public(AsyncRun) == public(Run)


def documented() -> Iterator[tuple[str, Any]]:
    """The public methods and properties of the classes on the page."""
    for kind in (each for section in SECTIONS for each in section.objects if inspect.isclass(each)):
        for name, member in vars(kind).items():
            found = member.fget if isinstance(member, property) else member
            found = getattr(found, "__func__", found)
            internal = name.startswith("_") or name in INTERNAL.get(kind, ())
            if inspect.isfunction(found) and not internal:
                yield f"{kind.__name__}.{name}", found


def test_every_public_method_is_on_the_page() -> None:
    assert [name for name, found in documented() if not found.__doc__] == []
    missing = [
        name
        for name, _ in documented()
        if f"#### {name}\n" not in PAGE and f"| `{name.partition('.')[2]}` |" not in PAGE
    ]
    assert missing == []


def test_every_field_has_a_meaning() -> None:
    assert re.findall(r"^\| `(\w+)` \|.*\| +\|$", PAGE, re.MULTILINE) == []


def test_every_public_name_is_on_the_page() -> None:
    assert [name for name in detent.__all__ if name not in PAGE] == []


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.heading)
def test_everything_in_a_section_is_imported_as_it_says(section: Any) -> None:
    modules = [import_module(name) for name in re.findall(r"from ([\w.]+) import", section.text)]
    kinds = [each for each in section.objects if each.__name__ not in ("RunInfo", "Using")]
    missing = [
        each.__name__
        for each in kinds
        if not any(getattr(module, each.__name__, None) is each for module in modules)
    ]
    assert missing == []


def test_every_parameter_of_ask_is_explained() -> None:
    text = inspect.cleandoc(Run.ask.__doc__ or "")
    parameters = [name for name in inspect.signature(Run.ask).parameters if name != "self"]
    assert [name for name in parameters if f"- `{name}`: " not in text] == []
