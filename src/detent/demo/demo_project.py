"""The files of the demo's installation: configuration, a git repository, the agent's script.

Writes files into the demo's directory and runs git there.
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from detent.errors import Misconfigured
from detent.testing import stand_in_agent

BUDGET_USD, RAISED_USD = 0.5, 2
QUESTION = "What should total() do with a negative price?"
OPTIONS = ("refuse it", "count it as 0")

#: Leases are short, so that the job of the killed worker continues after seconds.
CONFIGURATION = """\
# The demo's installation. The agent is simulated: it follows script.json and costs nothing.
[worker]
lease_ms = 2000
heartbeat_ms = 500

[agents.stand-in]
preset = "claude"
argv = {argv}
variables = {{ STAND_IN_SCRIPT = {script} }}
repos = [{repo}]

[intents.fixBug]
agent = "stand-in"
prompt = "Fix this bug: {{payload.bug}}"
workspace = "worktree"
on_budget_exceeded = "ask"
"""
ARGV: Sequence[Any] = (
    *(sys.executable, stand_in_agent.__file__, "-p", "{prompt}"),
    ["--session-id", "{session_id}"],
    ["--resume", "{resume_id}"],
    ["--max-budget-usd", "{budget}"],
)

BUG = "def total(prices):\n    return sum(prices)\n"
FIX = """\
def total(prices):
    if any(price < 0 for price in prices):
        raise ValueError("a price is negative")
    return sum(prices)
"""
TEST = """\
from shop import total


def test_total():
    assert total([1, 2]) == 3
"""

#: What the agent does in its first, second and third run.
SCRIPT = {
    "runs": [
        [
            {"say": "I have read shop.py. One point is not clear."},
            {"cost": 0.2},
            {"ask": {"text": QUESTION, "options": list(OPTIONS)}},
        ],
        [{"say": "I check every caller."}, {"cost": 0.4}, {"say": "never reached"}],
        [
            {"write": {"shop.py": FIX}},
            {"commit": "Refuse negative prices"},
            {"evidence": {"test-results.txt": "1 passed"}},
            {"cost": 0.3},
            {"summary": "total() refuses a negative price."},
        ],
    ]
}


def write_project(directory: Path, environment: Mapping[str, str]) -> None:
    """Write the configuration, the agent's script and the repository."""
    script, repo = directory / "script.json", directory / "shop"
    script.write_text(json.dumps(SCRIPT, indent=1))
    text = CONFIGURATION.format(
        argv=json.dumps(ARGV), script=json.dumps(str(script)), repo=json.dumps(str(repo))
    )
    (directory / "detent.toml").write_text(text)
    _repository(repo, environment)


def _repository(repo: Path, environment: Mapping[str, str]) -> None:
    if shutil.which("git") is None:
        raise Misconfigured(
            "The demo needs git, which was not found on PATH.",
            setting="PATH",
            hint="Install git, for example on Debian with: apt-get install git",
        )
    repo.mkdir()
    (repo / "shop.py").write_text(BUG)
    (repo / "test_shop.py").write_text(TEST)
    who = ("-c", "user.name=demo", "-c", "user.email=demo@example.com")
    message = "A shop with a bug"
    for arguments in (("init", "-q", "-b", "main"), ("add", "."), ("commit", "-qm", message)):
        subprocess.run(["git", "-C", str(repo), *who, *arguments], check=True, env=environment)
