"""Tests of several repositories, side by side, with one report."""

import subprocess
import sys
from pathlib import Path

from detent import App, Run

app = App()
#: As `python -m unittest`, which before Python 3.12 says OK where there is no test at all.
TESTS = [sys.executable, "-m", "detent.qa", "--unittest"]
#: What exit codes mean; any other one is a failure.
VERDICTS = {0: "pass", 5: "NO TESTS"}


@app.intent("qa", timeout_s=1800, retry={"retries": 0})
def qa(run: Run, repo: str) -> dict[str, str]:
    """The tests of one repository. Tests that fail are a result, not a failure."""
    done = subprocess.run(TESTS, cwd=repo, capture_output=True, text=True, check=False)
    run.evidence("test-results.txt", done.stdout + done.stderr)
    return {"repo": Path(repo).name, "verdict": VERDICTS.get(done.returncode, "FAIL")}


@app.intent("nightly", timeout_s=7200)
def nightly(run: Run, repos: list[str]) -> str:
    """A subtask for each repository, on whichever worker is free; then the report."""
    found = run.map("qa", [{"repo": repo} for repo in repos])
    failed = [each["repo"] for each in found if each["verdict"] != "pass"]
    lines = [f"- {each['repo']}: {each['verdict']}" for each in found]
    run.evidence("QA-DECISION.md", "\n".join(["# Nightly QA", "", *lines, ""]))
    return f"{len(found) - len(failed)} of {len(found)} pass" + (
        f"; look at {', '.join(failed)}" if failed else ""
    )
