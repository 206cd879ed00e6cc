"""Whether a mutant passes the ordinary unit tests: `python -m tools.mutants [NAME...]`.

A mutant that any unit test sees says nothing about the layer that is meant to catch it, so it does
not count. As a plugin of pytest this module breaks detent, in the way that the environment names,
after all tests were collected.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/explanation/mutants.md"
#: What the page says of a mutant that counts.
PASSED = "pass"
#: Names the mutant to the pytest that this module starts.
VARIABLE = "DETENT_MUTANT"
#: One feature at a time, one process, nothing goes wrong from outside. The layers that catch
#: mutants (search, simulation, failpoints, races, images, disk, interleavings) and the conformance
#: of stores are not among them.
UNIT_TESTS = ("tests/kernel/stories", "tests/operations", "tests/keeper")


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of the unit tests: the first test that failed, or none."""

    mutant: str
    caught_by: str | None
    seconds: float

    @property
    def counts(self) -> bool:
        return self.caught_by is None

    @property
    def word(self) -> str:
        return PASSED if self.caught_by is None else f"seen by `{self.caught_by.partition('[')[0]}`"


# ---- as a plugin -----------------------------------------------------------------------------


def pytest_collection_finish() -> None:
    """Everything is imported: from here on detent is broken."""
    name = os.environ.get(VARIABLE)
    if name:
        mutants()[name]()


def mutants() -> Mapping[str, Callable[[], None]]:
    """Every mutant of the page by name, and how this process becomes it for good."""
    from tests.kernel.test_search import VARIANTS
    from verification.fault_injection.mutants import MUTANTS as FAULT_INJECTED
    from verification.forge_mutants import MUTANTS as OF_FORGES
    from verification.interleavings.mutants import MUTANTS as INTERLEAVED
    from verification.promise_mutants import MUTANTS as OF_PROMISES
    from verification.simulation.mutants import MUTANTS as SIMULATED
    from verification.slack_mutants import MUTANTS as OF_SLACK
    from verification.store_mutants import MUTANTS as OF_STORES

    kernel = {each.__name__.replace("_", "-"): each for each, _, _ in VARIANTS}
    checked = {name: each.patches for name, each in {**OF_FORGES, **OF_PROMISES}.items()}
    layers = (SIMULATED, FAULT_INJECTED, INTERLEAVED, OF_STORES, OF_SLACK, checked)
    found = {name: _broken_kernel(each) for name, each in kernel.items()}
    for name, patches in chain.from_iterable(layer.items() for layer in layers):
        if name in found:
            raise ValueError(f"there are two mutants {name}")
        found[name] = _patched(patches)
    return found


def _broken_kernel(variant: Callable[[pytest.MonkeyPatch], None]) -> Callable[[], None]:
    return lambda: variant(pytest.MonkeyPatch())


def _patched(patches: Callable[[], Iterable[Any]]) -> Callable[[], None]:
    def become() -> None:
        for patch in patches():
            patch.start()

    return become


# ---- as a command ----------------------------------------------------------------------------


def judge(name: str) -> Verdict:
    """Run the unit tests with the mutant until one fails."""
    begun_s = time.monotonic()
    ended = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-x", "-p", "tools.mutants"),
            *("-p", "no:cacheprovider", "--no-header", "-rf", *UNIT_TESTS),
        ],
        env={**os.environ, VARIABLE: name},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    failed = next(_failed(ended.stdout), None)
    if ended.returncode not in (0, 1) or (ended.returncode == 1) != (failed is not None):
        raise SystemExit(f"{name}: pytest ended with an error\n{ended.stdout}{ended.stderr}")
    return Verdict(name, failed, round(time.monotonic() - begun_s, 1))


def _failed(output: str) -> Iterator[str]:
    for line in output.splitlines():
        if line.startswith(("FAILED ", "ERROR ")):
            yield line.split()[1]


# ---- the page --------------------------------------------------------------------------------


def write(verdicts: Iterable[Verdict], page: Path = PAGE) -> None:
    """Put the verdicts into the last column of the page's table."""
    known = {each.mutant: each for each in verdicts}
    page.write_text("".join(_line(each, known) for each in _lines(page)), "utf-8")


def _lines(page: Path) -> list[str]:
    return page.read_text("utf-8").splitlines(keepends=True)


def _line(line: str, known: Mapping[str, Verdict]) -> str:
    cells = line.rstrip("\n").split("|")
    verdict = known.get(cells[1].strip().strip("`")) if line.startswith("| `") else None
    if verdict is None:
        return line
    return "|".join((*cells[:4], f" {verdict.word} ", "\n"))


def main(names: list[str]) -> None:
    verdicts = []
    for name in names or mutants():
        verdicts.append(judge(name))
        print(json.dumps(asdict(verdicts[-1])), flush=True)
    write(verdicts)


if __name__ == "__main__":
    main(sys.argv[1:])
