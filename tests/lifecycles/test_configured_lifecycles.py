"""Lifecycles of the configuration file and of an app are installed when they start."""

import tomllib
from pathlib import Path

import pytest

from detent import App
from detent.engine import Engine
from detent.errors import DetentError, Misconfigured
from detent.operations.context import Core
from detent.operations.lifecycles import save_lifecycles
from detent.operations.opener import open_core
from detent.settings import Settings
from detent.settings_loader import load
from detent.store.memory import MemoryStore
from detent.task_lifecycles import SHIPPED
from detent.testing import Harness

FILE = Path(__file__).parent / "documents" / "seven_states.toml"
TEXT = FILE.read_text()


def start(directory: Path, line: str = 'delivery = "documents/own.toml"') -> list[str]:
    """Install what the configuration names, as a start does; the names of the logged events."""
    file = directory / "detent.toml"
    file.write_text(f'[store]\ndata_dir = "{directory}"\n[lifecycles]\n{line}\n')
    with open_core(load({}, {}, file)) as core:
        save_lifecycles(core)
        with core.store.read() as view:
            return [each.name for each in view.events(0, 100)]


def write(directory: Path, text: str = TEXT) -> None:
    (directory / "documents").mkdir(exist_ok=True)
    (directory / "documents" / "own.toml").write_text(text)


def test_the_lifecycle_of_pull_requests_comes_with_a_forge() -> None:
    for settings, installed in (
        (Settings(), []),
        (Settings(github_token="env:TOKEN"), ["pull_request"]),
        (Settings(gitlab_token="env:TOKEN"), ["pull_request"]),
    ):
        store = MemoryStore()
        save_lifecycles(Core(store, Engine(store), settings))
        with store.read() as view:
            assert list(view.lifecycles().keys() - SHIPPED.keys()) == installed


def test_a_file_is_installed_once(tmp_path: Path) -> None:
    write(tmp_path)
    assert start(tmp_path) == ["lifecycle_installed"]
    assert start(tmp_path) == ["lifecycle_installed"]
    write(tmp_path, "version = 2\n" + TEXT)
    assert start(tmp_path) == ["lifecycle_installed"] * 2


def test_a_changed_file_needs_a_higher_version(tmp_path: Path) -> None:
    write(tmp_path)
    start(tmp_path)
    write(tmp_path, TEXT.replace("30d", "31d"))
    with pytest.raises(DetentError) as caught:
        start(tmp_path)
    assert caught.value.code == "version_exists"
    assert "higher version" in caught.value.hint


def test_a_file_that_is_left_out_stays_installed(tmp_path: Path) -> None:
    write(tmp_path)
    start(tmp_path)
    assert start(tmp_path, "") == ["lifecycle_installed"]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('delivery = "missing.toml"', "cannot be read"),
        ("delivery = 5", "lifecycles.delivery"),
        ('shipping = "documents/own.toml"', "delivery, not shipping"),
    ],
)
def test_a_wrong_entry_is_named(tmp_path: Path, line: str, words: str) -> None:
    write(tmp_path)
    with pytest.raises(Misconfigured) as caught:
        start(tmp_path, line)
    assert words in caught.value.message


@pytest.mark.parametrize("document", [FILE, str(FILE), tomllib.loads(TEXT)])
def test_an_app_declares_one(document: Path) -> None:
    app = App()
    app.register("build", lambda: "built", {})
    assert app.lifecycle(document) == "delivery"
    outer = App()
    outer.include(app)
    harness = Harness(outer)
    handle = harness.submit("build", lifecycle="delivery")
    harness.drain()
    assert handle.task_id is not None
    with harness.store.read() as view:
        ((task, _),) = view.tasks([handle.task_id])
    assert (task.lifecycle, task.state) == ("delivery", "approval")


def test_an_error_of_a_declaration_names_the_field() -> None:
    with pytest.raises(DetentError) as caught:
        App().lifecycle({"name": "broken", "initial": "a", "states": {"a": {"phase": "moon"}}})
    assert "states.a.phase" in caught.value.message
