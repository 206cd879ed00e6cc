"""Checks of whole programs, as tests: each takes a minute of one core, beside the other tests."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def run(*arguments: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.timeout(1800)
def test_the_types_are_correct() -> None:
    """In a new clone mypy has no cache, and reads all packages as well."""
    run("mypy")


@pytest.mark.timeout(1800)
def test_the_sources_of_the_dashboard_pass_their_checks() -> None:
    run("tools.web", "check")
