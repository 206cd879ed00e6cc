"""What `runQA` runs: the tests of the project in the working directory, with a report as evidence.

A program of its own, started as `python -m detent.qa`; it looks only at its working directory and
at the variables `DETENT_PROJECT_DIR` and `DETENT_EVIDENCE_DIR`.
"""

import os
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

REPORT = "QA-DECISION.md"
UNITTEST = "--unittest"
#: How pytest ends when it finds no test, and `run_unittests` too.
NO_TESTS = 5

#: How a project says that it has tests, and what runs them; the first that fits.
WAYS: Sequence[tuple[str, Sequence[str]]] = (
    ("qa.sh", ("sh", "qa.sh")),
    ("package.json", ("npm", "test", "--silent")),
    ("Makefile", ("make", "test")),
    ("Cargo.toml", ("cargo", "test")),
    ("go.mod", ("go", "test", "./...")),
)


def way_to_test(project: Path) -> Sequence[str] | None:
    """The command that runs the project's tests, None if none is recognised."""
    for name, argv in WAYS:
        if (project / name).is_file():
            return argv
    if any(project.glob("test_*.py")) or (project / "tests").is_dir():
        return (sys.executable, "-m", *_python_runner())
    return None


def _python_runner() -> Sequence[str]:
    return ("pytest",) if find_spec("pytest") else ("detent.qa", UNITTEST)


def run_unittests() -> int:
    """As `python -m unittest`, which before Python 3.12 says OK where there is no test at all."""
    import unittest

    ended = unittest.main(module=None, argv=["unittest"], exit=False).result
    if not ended.testsRun:
        return NO_TESTS
    return 0 if ended.wasSuccessful() else 1


def report(project: Path, argv: Sequence[str] | None, exit_code: int | None) -> str:
    """The decision in words."""
    if exit_code is None:
        decision = "NOTHING TO TEST: no known kind of test was found."
    else:
        decision = "PASS" if exit_code == 0 else f"FAIL (exit code {exit_code})"
    command = "none" if argv is None else " ".join(argv)
    facts = (f"Decision: {decision}", f"Project: {project.name}", f"Command: {command}")
    return "# QA decision\n\n" + "".join(f"- {fact}\n" for fact in facts)


def main() -> int:
    """Run the tests and write the report; the exit code is the tests' own."""
    project = Path(os.environ.get("DETENT_PROJECT_DIR") or ".").resolve()
    evidence = Path(os.environ.get("DETENT_EVIDENCE_DIR") or ".")
    argv = way_to_test(project)
    exit_code = None if argv is None else subprocess.run(argv, cwd=project, check=False).returncode
    if exit_code == NO_TESTS and argv is not None and argv[0] == sys.executable:
        exit_code = None
    text = report(project, argv, exit_code)
    (evidence / REPORT).write_text(text, "utf-8")
    sys.stdout.write(text)
    return exit_code or 0


if __name__ == "__main__":
    sys.exit(run_unittests() if UNITTEST in sys.argv else main())
