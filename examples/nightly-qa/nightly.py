"""Run the tests of several repositories in parallel and write one report."""

import subprocess
import sys
from pathlib import Path

from detent import App, Run

app = App()
#: Like `python -m unittest`, but exits with 5 if there are no tests; before Python 3.12, unittest
#: exits with 0 in that case.
TESTS = [sys.executable, "-m", "detent.qa", "--unittest"]
#: The verdicts of exit codes; any other exit code is FAIL.
VERDICTS = {0: "pass", 5: "NO TESTS"}


@app.intent("qa", timeout_s=1800, retry={"retries": 0})
def qa(run: Run, repo: str) -> dict[str, str]:
    """Run the tests of one repository. Failing tests are a result, not a failure of the run."""
    done = subprocess.run(TESTS, cwd=repo, capture_output=True, text=True, check=False)
    run.evidence("test-results.txt", done.stdout + done.stderr)
    return {"repo": Path(repo).name, "verdict": VERDICTS.get(done.returncode, "FAIL")}


@app.intent("nightly", timeout_s=7200)
def nightly(run: Run, repos: list[str]) -> str:
    """Run a subtask for each repository, on any free worker, and write the report."""
    found = run.map("qa", [{"repo": repo} for repo in repos])
    failed = [each["repo"] for each in found if each["verdict"] != "pass"]
    lines = [f"- {each['repo']}: {each['verdict']}" for each in found]
    run.evidence("QA-DECISION.md", "\n".join(["# Nightly QA", "", *lines, ""]))
    return f"{len(found) - len(failed)} of {len(found)} pass" + (
        f"; check {', '.join(failed)}" if failed else ""
    )
