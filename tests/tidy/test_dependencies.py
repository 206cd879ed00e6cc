"""What detent depends on is locked by hash, comes from one place, and may be passed on.

Without a network: `./dev faults --only dependencies` asks the registry as well.
"""

from pathlib import Path
from typing import Any

import pytest

from tools import dependencies
from tools.dependencies import FILES, REGISTRY

HASH = "sha256:" + "0" * 64
URL = f"https://{FILES}/packages/one-1.0.tar.gz"


def package(**changed: Any) -> dict[str, Any]:
    plain = {"name": "one", "version": "1.0", "source": {"registry": REGISTRY}}
    return {**plain, "sdist": {"url": URL, "hash": HASH}, **changed}


def test_the_locked_and_installed_packages_are_well() -> None:
    found = dependencies.audit()
    assert found.problems == []
    assert len(dependencies.locked()) > 20
    assert len(dependencies.licences()) > 20


@pytest.mark.parametrize(
    "changed",
    [
        {"source": {"git": "https://example.org/one"}},
        {"sdist": {"url": "https://example.org/one-1.0.tar.gz", "hash": HASH}},
        {"sdist": {"url": URL}},
        {"wheels": [{"url": URL, "hash": "md5:0"}]},
    ],
)
def test_another_source_or_a_missing_hash_is_seen(changed: dict[str, Any]) -> None:
    assert not [*dependencies.source_problems([package()])]
    assert [*dependencies.source_problems([package(**changed)])]


def test_what_is_installed_and_not_locked_is_seen() -> None:
    found = [*dependencies.installed_problems([])]
    assert any(each.startswith("pytest ") for each in found)


def test_an_import_that_is_not_declared_is_seen(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text("import ast, click\nfrom hypothesis.strategies import text\n")
    (found,) = dependencies.undeclared_problems(tmp_path)
    assert found == "one.py imports hypothesis, which pyproject.toml does not name"


@pytest.mark.parametrize(
    "licence", ["GPL-3.0-only", "Proprietary", "unknown", "MIT AND GPL-2.0-only", "AGPL-3.0, MIT"]
)
def test_a_licence_that_asks_more_is_seen(licence: str) -> None:
    assert [*dependencies.licence_problems({"one": licence, "two": "MIT"})] == [
        f"one has the licence {licence!r}"
    ]


@pytest.mark.parametrize("licence", ["GPL-2.0-only OR MIT", "MPL-2.0 AND (Apache-2.0 OR MIT)"])
def test_one_choice_of_a_licence_is_enough(licence: str) -> None:
    assert dependencies.is_allowed(licence)


def test_what_is_in_the_dashboard_has_a_licence_and_its_text() -> None:
    notices = f"one\n\ntext\n\n{'-' * 80}\n\ntwo\n\ntext\n"
    packages = {name: {"license": "MIT"} for name in ("one", "two")}
    assert [*dependencies.bundled_problems(packages, notices)] == []
    packages |= {"two": {"license": "GPL-3.0"}, "three": {}}
    assert [*dependencies.bundled_problems(packages, notices)] == [
        "two, which is in the dashboard, has the licence 'GPL-3.0'",
        "three, which is in the dashboard, has the licence 'unknown'",
        "licences.txt of the dashboard has no licence of three",
    ]


@pytest.mark.parametrize(
    ("link", "problem"),
    [
        (f'<a href="{URL}#sha256={"0" * 64}">one</a>', ""),
        (f'<a href="{URL}#sha256={"1" * 64}">one</a>', "the hash of"),
        (f'<a href="{URL}#sha256={"0" * 64}" data-yanked="broken">one</a>', "was yanked"),
        ("", "is not in the registry any more"),
    ],
)
def test_the_page_of_the_registry_is_read(link: str, problem: str) -> None:
    found = [*dependencies._of_page(package(), f"<html><body>{link}</body></html>")]
    assert len(found) == bool(problem)
    assert all(problem in each for each in found)
