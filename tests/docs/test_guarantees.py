"""The pages about guarantees name tests that exist, and every mutant is on its page."""

import ast
import re
from pathlib import Path

import pytest

from tests.fault_injection import test_mutants as fault_injected
from tests.kernel.test_search import VARIANTS
from tools.mutants import PASSED, mutants
from verification import store_mutants
from verification.fault_injection import credentials
from verification.forge_mutants import MUTANTS as OF_FORGES
from verification.interleavings.mutants import MUTANTS as INTERLEAVED
from verification.promise_mutants import MUTANTS as OF_PROMISES
from verification.simulation import MUTANTS as SIMULATED
from verification.slack_mutants import MUTANTS as OF_SLACK

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


def lines() -> list[tuple[str, str]]:
    """The page's table: a mutant, and what catches it."""
    found = [line.split("|") for line in MUTANTS_PAGE.splitlines() if line.startswith("| `")]
    return [(cells[1].strip().strip("`"), cells[3].strip()) for cells in found]


def rows() -> dict[str, str]:
    return dict(lines())


def test_the_page_of_mutants_has_each_of_them_once() -> None:
    assert sorted(name for name, _ in lines()) == sorted(mutants())


def test_enough_mutants_pass_the_ordinary_tests() -> None:
    """As `./dev faults --only unit-tests-of-mutants` has found and written down."""
    counting = [line for line in MUTANTS_PAGE.splitlines() if line.endswith(f"| {PASSED} |")]
    assert len(counting) >= 20


def catchers() -> dict[str, str]:
    """By mutant, how the test that catches it is described on the page: the beginning of it."""
    checks = {
        fault_injected.races_of: "races",
        fault_injected.images: "images",
        fault_injected.full_disk: "disk",
        fault_injected.failed_sync: "disk",
        credentials.run: "credentials",
    }
    return {
        **{variant.__name__.replace("_", "-"): f"search, {by}" for variant, _, by in VARIANTS},
        **dict.fromkeys(SIMULATED, "simulation"),
        **{
            name: f"failpoints, {action} at {scene.point}: {'' if by == 'Failed' else by}"
            for name, (scene, action, by) in fault_injected.CELLS.items()
        },
        **{name: checks[check] for name, (check, _) in fault_injected.OTHERS.items()},
        **dict.fromkeys(INTERLEAVED, "interleavings"),
        **{
            name: "claim order"
            if store_mutants.NOTICED_BY[each] == store_mutants.CLAIM_ORDER
            else "conformance"
            for name, each in store_mutants.MUTANTS.items()
        },
        **dict.fromkeys(OF_FORGES, "forges"),
        **dict.fromkeys(OF_SLACK, "slack"),
        **dict.fromkeys(OF_PROMISES, "promises"),
    }


def test_the_page_names_the_test_that_catches_each_mutant() -> None:
    wrong = {name: by for name, by in catchers().items() if not rows()[name].startswith(by)}
    assert wrong == {}
    assert catchers().keys() == rows().keys()
