"""From a path or URL to a store."""

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from detent.errors import Misconfigured
from detent.store.memory import MemoryStore
from detent.store.schema_status import schema_status
from detent.store.sqlite import SqliteStore, checks
from detent.store.store_url import open_store
from detent.testing.clock import START, VirtualClock


def test_a_path_is_a_sqlite_file(tmp_path: Path) -> None:
    for url in (tmp_path / "a b.db", str(tmp_path / "a b.db"), f"sqlite://{tmp_path}/a%20b.db"):
        store = open_store(url, VirtualClock())
        assert isinstance(store, SqliteStore)
        assert store.path == tmp_path / "a b.db"
        with store.read() as view:
            assert view.now() == START
        store.close()


def test_what_a_store_calls_itself_opens_it(tmp_path: Path) -> None:
    store = open_store(tmp_path / "detent.db")
    again = open_store(store.url)
    assert again.url == store.url
    store.close()
    again.close()


def test_the_home_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    store = open_store("~/detent.db")
    assert isinstance(store, SqliteStore)
    assert store.path == tmp_path / "detent.db"
    store.close()


def test_local_is_given_in_the_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "file_system", lambda _: 0x65735546)
    with pytest.raises(Misconfigured, match="FUSE"):
        open_store(f"sqlite://{tmp_path}/detent.db")
    open_store(f"sqlite://{tmp_path}/detent.db?local=yes").close()


def test_memory() -> None:
    assert isinstance(open_store("memory:"), MemoryStore)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("mysql://host/x", "mysql:// is not a supported store"),
        ("sqlite://", "has no path"),
        ("sqlite://detent.db", "has no path"),
    ],
)
def test_urls_that_are_not_a_store(url: str, message: str) -> None:
    with pytest.raises(Misconfigured, match=message) as caught:
        open_store(url)
    assert caught.value.setting == "store"
    assert "sqlite:///path" in caught.value.hint
    with pytest.raises(Misconfigured, match=message):
        schema_status(url)


def test_postgresql_without_its_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    known = importlib.util.find_spec

    def find(name: str, package: str | None = None) -> Any:
        return None if name.startswith("psycopg") else known(name, package)

    monkeypatch.setattr("detent.store.store_url.find_spec", find)
    with pytest.raises(Misconfigured) as caught:
        open_store("postgresql://localhost/x")
    assert caught.value.hint == "Install them with: pip install 'detent[postgres]'"
