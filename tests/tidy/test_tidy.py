"""The repository keeps its own rules, and each rule notices when it is broken."""

import ast
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tools import architecture, language, layers, module_names, safety, site, tidy

Write = Callable[[str, str], None]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Puts a file into a small tree of its own."""

    def put(path: str, text: str) -> None:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text, encoding="utf-8")

    return put


@pytest.mark.parametrize("rule", tidy.RULES, ids=lambda rule: rule.__name__)
def test_the_repository_keeps_the_rule(rule: Callable[[], list[str]]) -> None:
    flaws = rule()
    assert not flaws, "\n".join(flaws)


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("detent.kernel.decide", "from detent.store.port import Store"),
        ("detent.kernel.decide", "from detent import settings"),
        ("detent.kernel.decide", "import msgspec"),
        ("detent.kernel.decide", "import time"),
        ("detent.kernel.__init__", "from ..engine import Engine"),
        ("detent.errors", "import click"),
        ("detent.store.port", "def late():\n    import detent.engine"),
        ("detent.store.sqlite.store", "from detent.store.postgres import connection"),
        ("detent.store.postgres.store", "from ..sqlite.connection import open_file"),
        ("detent.worker.worker", "from detent.keeper import reclaim"),
        ("detent.feed", "from detent.views import Task"),
        ("detent.gateway.application", "from detent import Refused"),
        ("detent.gateway.application", "import detent"),
        ("detent.surprise", ""),
    ],
)
def test_an_import_that_is_not_downward_is_found(module: str, source: str) -> None:
    assert len(list(layers.flaws(module, ast.parse(source)))) == 1


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("detent.__init__", "from detent.operations import submit"),
        ("detent.cli.main", "import click\nfrom detent import service"),
        ("detent.engine", "from detent.kernel.decide import decide\nfrom detent import settings"),
        ("detent.kernel.decide", "from dataclasses import dataclass\nfrom . import plan"),
        ("detent.kernel.lifecycles.__init__", "from . import board"),
        ("detent.store.sqlite.store", "import apsw\nfrom ..port import Store"),
    ],
)
def test_an_import_that_is_downward_passes(module: str, source: str) -> None:
    assert list(layers.flaws(module, ast.parse(source))) == []


@pytest.mark.parametrize(
    ("rule", "path", "text"),
    [
        (tidy.layer_flaws, "src/detent/kernel/a.py", "import os\n"),
        (tidy.safety_flaws, "src/detent/a.py", "import pickle\n"),
        (tidy.safety_flaws, "src/detent/a.py", "from marshal import loads\n"),
        (tidy.safety_flaws, "src/detent/a.py", "eval(a)\n"),
        (tidy.safety_flaws, "src/detent/a.py", "exec(a)\n"),
        (tidy.safety_flaws, "src/detent/a.py", "__import__(a)\n"),
        (tidy.safety_flaws, "src/detent/a.py", "importlib.import_module(a)\n"),
        (tidy.safety_flaws, "src/detent/a.py", "yaml.load(a)\n"),
        (tidy.safety_flaws, "src/detent/a.py", "yaml.unsafe_load(a)\n"),
        (tidy.safety_flaws, "src/detent/a.py", "os.system(a)\n"),
        (tidy.safety_flaws, "src/detent/a.py", "subprocess.run(a, shell=True)\n"),
        (tidy.safety_flaws, "src/detent/a.py", "asyncio.create_subprocess_shell(a)\n"),
        (tidy.safety_flaws, "src/detent/a.py", "a = f'SELECT x FROM t WHERE id = {a}'\n"),
        (tidy.docstring_flaws, "src/detent/a.py", "a = 1\n"),
        (tidy.docstring_flaws, "src/detent/a.py", '"""A module\nthat does a."""\n'),
        (tidy.name_flaws, "src/detent/utils.py", ""),
        (tidy.name_flaws, "src/detent/common/a.py", ""),
        (tidy.module_size_flaws, "tests/a.py", "a = 1\n" * 451),
        (tidy.function_size_flaws, "tools/a.py", "def f():\n" + "    a = 1\n" * 60),
        (tidy.function_size_flaws, "src/detent/a.py", "def f():\n" + "    a = 1\n" * 9),
        (tidy.word_flaws, "docs/a.md", "see /" + "work/main\n"),
        (tidy.word_flaws, "docs/a.md", "as Seed" + " 003 has it\n"),
        (tidy.lock_flaws, "uv.lock", 'registry = "https://mirror.example/simple"\n'),
    ],
)
def test_a_broken_rule_is_noticed(
    tmp_path: Path, write: Write, rule: Callable[[Path], list[str]], path: str, text: str
) -> None:
    write(path, text)
    assert len(rule(tmp_path)) == 1


@pytest.mark.parametrize(
    "source",
    ["yaml.safe_load(a)", "re.compile(a)", "run(a, shell=False)", "f'saw {a}'", "'SELECT 1'"],
)
def test_what_only_looks_like_code_of_data_passes(
    tmp_path: Path, write: Write, source: str
) -> None:
    write("src/detent/a.py", source + "\n")
    assert tidy.safety_flaws(tmp_path) == []


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ('a = "board"', 1),
        ('a = {"todo": 1}', 1),
        ('a = task.lifecycle == "review"', 1),
        ('a = row["lifecycle"] in ("review", "board")', 2),
        ('a = task.state in ("ready", "pending")', 2),
        ('a = job.state == "queued"', 0),
        ('a = Scope("review")', 0),
        ('a = row["state"] == "pending"', 0),
    ],
)
def test_a_name_of_a_shipped_lifecycle_is_found(
    tmp_path: Path, write: Write, source: str, found: int
) -> None:
    for name in ("board", "review"):
        path = f"src/detent/task_lifecycles/{name}.toml"
        write(path, (tidy.ROOT / path).read_text(encoding="utf-8"))
    write("src/detent/cli/a.py", source + "\n")
    assert tidy.lifecycle_name_flaws(tmp_path) == []
    write("src/detent/keeper/a.py", source + "\n")
    assert len(tidy.lifecycle_name_flaws(tmp_path)) == found


def test_modules_of_one_part_with_the_same_name_are_found(tmp_path: Path, write: Write) -> None:
    write("src/detent/worker/claims.py", "")
    write("src/detent/worker/runners/claims.py", "")
    write("src/detent/keeper/claims.py", "")
    (flaw,) = tidy.same_name_flaws(tmp_path)
    assert flaw.startswith(
        "src/detent/worker/claims.py and src/detent/worker/runners/claims.py are both named"
    )


def test_a_module_that_imports_one_of_its_own_name_is_found(tmp_path: Path, write: Write) -> None:
    write("src/detent/keeper/claims.py", "")
    write("src/detent/service/claims.py", "")
    assert tidy.same_name_flaws(tmp_path) == []
    write("src/detent/service/claims.py", "from detent.keeper.claims import due\n")
    assert len(tidy.same_name_flaws(tmp_path)) == 1
    write("src/detent/service/claims.py", "from detent.keeper import claims\n")
    assert len(tidy.same_name_flaws(tmp_path)) == 1


def test_parallel_packages_may_have_the_same_modules(tmp_path: Path, write: Write) -> None:
    for package in ("store/sqlite", "store/postgres", "testing/conformance"):
        write(f"src/detent/{package}/claims.py", "")
    write("src/detent/testing/claims.py", "")
    assert tidy.same_name_flaws(tmp_path) == []


def test_every_exception_of_names_is_still_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    allowed = len(module_names.ALLOWED)
    monkeypatch.setattr(module_names, "ALLOWED", ())
    assert len(tidy.same_name_flaws()) == allowed


#: In two parts: this file is checked too.
AGAIN = "an" + "ew"


@pytest.mark.parametrize(
    ("path", "text", "line"),
    [
        ("docs/a.md", f"The worker starts.\nIt is started {AGAIN}.\n", 2),
        ("src/detent/a.py", f'"""Started {AGAIN}."""\n', 1),
        ("tests/test_a.py", f"def test_it_is_started_{AGAIN}() -> None: ...\n", 1),
        ("src/detent/store/sql/a.sql", f"-- Started {AGAIN}.\n", 1),
        ("web/src/a.tsx", f"<p>Started {AGAIN}</p>\n", 1),
        ("src/detent/help.py", f'HELP = "{AGAIN.upper()}"\n', 1),
    ],
)
def test_a_refused_word_is_found(
    tmp_path: Path, write: Write, path: str, text: str, line: int
) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    write(path, text)
    (flaw,) = tidy.language_flaws(tmp_path)
    assert flaw.lower() == f"{path}:{line}: '{AGAIN}', write: again"


def test_a_refused_phrase_is_found_over_two_lines_and_in_names(
    tmp_path: Path, write: Write
) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    write("src/a.py", "# It looks\n# at the row.\n" + "def _look" + "_at_row() -> None: ...\n")
    found = [flaw.split(", write: ") for flaw in tidy.language_flaws(tmp_path)]
    assert [instead for _, instead in found] == ["reads, checks, opens"] * 2
    assert [place.partition(" ")[0] for place, _ in found] == ["src/a.py:1:", "src/a.py:3:"]


def test_a_file_is_not_named_after_an_activity(tmp_path: Path, write: Write) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    write("tests/test_carrying.py", "")
    assert tidy.language_flaws(tmp_path) == [
        "tests/test_carrying.py:0: 'carrying', write: name it after what it contains"
    ]


def test_the_words_are_a_rule_of_this_repository() -> None:
    assert tidy.language_flaws in tidy.RULES  # which a test above applies


def test_few_lines_may_use_a_refused_word_and_each_has_a_reason() -> None:
    assert len(language.ALLOWED) <= language.MAX_ALLOWED == 20
    assert [each for each in language.ALLOWED if not each.reason.strip()] == []


def test_every_exception_is_still_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    places = set(safety.ALLOWED)
    monkeypatch.setattr(safety, "ALLOWED", {})
    found = {flaw.partition(":")[0] for flaw in tidy.safety_flaws()}
    assert found == places


def test_more_than_one_long_function_in_twenty_is_noticed(tmp_path: Path, write: Write) -> None:
    small, long = "def f():\n    pass\n", "def g():\n" + "    a = 1\n" * 50
    write("src/detent/a.py", small * 19 + long)
    assert tidy.function_size_flaws(tmp_path) == []
    write("src/detent/a.py", small * 18 + long)
    assert tidy.function_size_flaws(tmp_path) == ["src: 94.7% of functions under 50 lines"]


def test_ignored_directories_are_not_searched_for_words(tmp_path: Path, write: Write) -> None:
    write(".gitignore", "# why\nsite/\n*.pyc\n")
    write("site/a.md", "../" + "shared\n")
    assert tidy.word_flaws(tmp_path) == []


def test_the_tree_is_drawn_from_docstrings(tmp_path: Path, write: Write) -> None:
    write("detent/__init__.py", '"""The public names."""\n')
    write("detent/kernel/__init__.py", '"""Pure rules.\n\nMore.\n"""\n')
    write("detent/kernel/decide.py", '"""Decides."""\n')
    write("detent/sql/a.sql", "SELECT 1")
    assert [line.split() for line in architecture.draw(tmp_path / "detent")] == [
        ["├──", "__init__.py", "The", "public", "names"],
        ["└──", "kernel/", "Pure", "rules"],
        ["└──", "decide.py", "Decides"],
    ]


def test_a_page_that_loads_from_elsewhere_is_found(tmp_path: Path, write: Write) -> None:
    write("a.html", '<script src="https://cdn.example/x.js"></script><a href="https://x.example">')
    write("b.html", '<link rel="stylesheet" href="//fonts.example/css"><img src="local.png">')
    assert [load.partition(":")[0] for load in site.foreign_loads(tmp_path)] == ["a.html", "b.html"]


def test_a_page_that_only_the_navigation_knows_is_found(tmp_path: Path, write: Write) -> None:
    write("mkdocs.yml", "nav:\n  - Start: index.md\n  - Gone: decisions/gone.md\n")
    write("docs/index.md", "# Start\n")
    assert site.missing_pages(tmp_path) == ["decisions/gone.md"]
