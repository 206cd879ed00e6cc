"""The pages about guarantees name tests that exist, and every mutant is on its page."""

import ast
import re
from pathlib import Path

import pytest

from tests.kernel.test_search import VARIANTS
from tools.mutants import PASSED
from verification.fault_injection.mutants import MUTANTS as FAULT_INJECTED
from verification.forge_mutants import MUTANTS as OF_FORGES
from verification.interleavings.mutants import MUTANTS as INTERLEAVED
from verification.promise_mutants import MUTANTS as OF_PROMISES
from verification.simulation import MUTANTS as SIMULATED
from verification.store_mutants import MUTANTS as OF_SQLITE

ROOT = Path(__file__).resolve().parents[2]
GUARANTEES = (ROOT / "docs/guarantees.md").read_text("utf-8")
MUTANTS_PAGE = (ROOT / "docs/explanation/mutants.md").read_text("utf-8")
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")
PROMISES = [f"P{number}" for number in range(1, 29)]


def functions(file: str) -> set[str]:
    tree = ast.parse((ROOT / file).read_text("utf-8"))
    return {
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


@pytest.mark.parametrize(("file", "name"), sorted({*NAMED.findall(GUARANTEES + MUTANTS_PAGE)}))
def test_a_named_test_exists(file: str, name: str) -> None:
    assert name in functions(file)


def test_every_promise_has_a_section_with_a_test() -> None:
    sections = re.split(r"^## ", GUARANTEES, flags=re.MULTILINE)
    found = {each.split()[0]: NAMED.findall(each) for each in sections if each.startswith("P")}
    assert list(found) == PROMISES
    assert [promise for promise, tests in found.items() if not tests] == []


def test_every_promise_names_mutants_that_exist() -> None:
    sections = re.split(r"^## ", GUARANTEES, flags=re.MULTILINE)
    for section in (each for each in sections if re.match(r"P\d+ ", each)):
        lines = re.findall(r"^- Mutants: ((?:.|\n  )+)$", section, re.MULTILINE)
        assert len(lines) == 1, section.split("\n")[0]
        names = set(re.findall(r"`([\w-]+)`", lines[0]))
        assert names, section.split("\n")[0]
        assert names <= set(rows()), names - set(rows())


def test_a_mutant_of_a_promise_is_named_with_the_promise() -> None:
    for name in OF_PROMISES:
        promise = rows()[name].removeprefix("promises, ")
        section = GUARANTEES.partition(f"\n## {promise} ")[2].partition("\n## ")[0]
        assert f"`{name}`" in section, f"{promise} does not name {name}"


def rows() -> dict[str, str]:
    """The page's table: a mutant, and what catches it."""
    lines = [line.split("|") for line in MUTANTS_PAGE.splitlines() if line.startswith("| `")]
    return {cells[1].strip().strip("`"): cells[3].strip() for cells in lines}


def test_the_page_of_mutants_has_each_of_them_once() -> None:
    kernel = {variant.__name__.replace("_", "-") for variant, _, _ in VARIANTS}
    forges = {name.replace("_", "-") for name in OF_FORGES}
    layers = {*SIMULATED, *FAULT_INJECTED, *INTERLEAVED, *OF_SQLITE, *OF_PROMISES, *forges}
    assert set(rows()) == layers | kernel
    assert len(rows()) >= 20


def test_enough_mutants_pass_the_ordinary_tests() -> None:
    """As `./dev faults --only unit-tests-of-mutants` has found and written down."""
    counting = [line for line in MUTANTS_PAGE.splitlines() if line.endswith(f"| {PASSED} |")]
    assert len(counting) >= 20


def test_every_mutant_has_a_catcher_that_is_known() -> None:
    known = {
        *("search", "simulation", "failpoints", "races", "images", "disk"),
        *("credentials", "interleavings", "conformance", "claim order", "forges", "promises"),
    }
    assert {catcher.split(",")[0] for catcher in rows().values()} <= known
