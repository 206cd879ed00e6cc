"""The command of `runQA`: runs the tests of a project and writes a report as evidence.

Started as `python -m detent.qa`. It reads only its working directory and the variables
`DETENT_PROJECT`, `DETENT_PROJECT_DIR` and `DETENT_EVIDENCE_DIR`. For the project `demo` it runs the
tests of the sample project of detent. If it finds no tests, it fails.
"""

import os
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

REPORT = "QA-DECISION.md"
UNITTEST = "--unittest"
#: The exit code of pytest, of `run_unittests` and of this program if there are no tests.
NO_TESTS = 5
#: The project whose tests are part of detent.
SAMPLE = "demo"
SAMPLE_TESTS = (sys.executable, "-m", "unittest", "-v", "detent.qa_sample")

#: A file that shows how a project is tested, and the command for it; the first match is used.
TEST_COMMANDS: Sequence[tuple[str, Sequence[str]]] = (
    ("qa.sh", ("sh", "qa.sh")),
    ("package.json", ("npm", "test", "--silent")),
    ("Makefile", ("make", "test")),
    ("Cargo.toml", ("cargo", "test")),
    ("go.mod", ("go", "test", "./...")),
)


def project_test_command(project: Path) -> Sequence[str] | None:
    """The command that runs the project's tests; None if detent recognises none."""
    for name, argv in TEST_COMMANDS:
        if (project / name).is_file():
            return argv
    if any(project.glob("test_*.py")) or (project / "tests").is_dir():
        return (sys.executable, "-m", *_python_runner())
    return None


def _python_runner() -> Sequence[str]:
    return ("pytest",) if find_spec("pytest") else ("detent.qa", UNITTEST)


def run_unittests() -> int:
    """Run `python -m unittest`, which before Python 3.12 reports OK if there are no tests."""
    import unittest

    ended = unittest.main(module=None, argv=["unittest"], exit=False).result
    if not ended.testsRun:
        return NO_TESTS
    return 0 if ended.wasSuccessful() else 1


def report(project: str, argv: Sequence[str] | None, exit_code: int | None) -> str:
    """The text of the report; the exit code is None if there were no tests."""
    if exit_code is None:
        decision = f"NOTHING TO TEST: no tests were found in {project}"
    else:
        decision = "PASS" if exit_code == 0 else f"FAIL (exit code {exit_code})"
    command = "none" if argv is None else " ".join(argv)
    facts = [f"Decision: {decision}", f"Project: {project}", f"Command: {command}"]
    if exit_code is None:
        if argv is not None and UNITTEST in argv:
            facts.append(f"Without pytest: {_pytest_advice()}")
        facts.append(f"What to do: {_advice()}")
    return "# QA decision\n\n" + "".join(f"- {fact}\n" for fact in facts)


def _pytest_advice() -> str:
    return (
        f"{sys.executable} has no pytest, so unittest has looked for tests. If these are tests "
        "for pytest, install pytest there, or add a qa.sh that runs them."
    )


def _advice() -> str:
    known = ", ".join(name for name, _ in TEST_COMMANDS)
    return (
        f"add tests (test_*.py, a directory tests, or one of {known}), or set `directory` of "
        "[intents.runQA] in detent.toml to the directory of the project; then retry the task."
    )


def main() -> int:
    """Run the tests and write the report; returns the exit code of the tests, 5 without tests."""
    directory = Path(os.environ.get("DETENT_PROJECT_DIR") or ".").resolve()
    evidence = Path(os.environ.get("DETENT_EVIDENCE_DIR") or ".")
    sample = os.environ.get("DETENT_PROJECT") == SAMPLE
    argv = SAMPLE_TESTS if sample else project_test_command(directory)
    code = None if argv is None else subprocess.run(argv, cwd=directory, check=False).returncode
    if code == NO_TESTS and argv is not None and argv[0] == sys.executable:
        code = None
    text = report(f"{SAMPLE} (the sample of detent)" if sample else str(directory), argv, code)
    (evidence / REPORT).write_text(text, "utf-8")
    sys.stdout.write(text)
    return NO_TESTS if code is None else code


if __name__ == "__main__":
    sys.exit(run_unittests() if UNITTEST in sys.argv else main())
