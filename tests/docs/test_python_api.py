"""The reference of the Python API: its examples run, and every method of Run has one."""

import inspect

import pytest

from detent import App, AsyncRun, Run
from detent.testing import Harness
from tools.python_api import examples

FOUND = examples()


@pytest.mark.parametrize(
    ("name", "code"),
    [pytest.param(name, code, id=name) for name, found in FOUND.items() for code in found],
)
def test_an_example_of_a_docstring_runs(name: str, code: str) -> None:
    assert "assert " in code, f"the example of {name} checks nothing"
    app = App()
    names = {"App": App, "Run": Run, "AsyncRun": AsyncRun, "Harness": Harness}
    exec(compile(code, name, "exec"), {**names, "app": app, "harness": Harness(app)})


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
