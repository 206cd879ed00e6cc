"""Each real agent command line edits a file for a task, against the model server.

`./dev agents` runs the other cases.
"""

import os
import subprocess
import sys

import pytest

from tests.agent_clis.cli_profile import CLIS
from tools import agent_clis
from tools.agent_matrix import INSIDE, closed
from tools.web import ROOT


@pytest.mark.parametrize("name", [each.name for each in CLIS])
def test_a_real_agent_edits_a_file_without_a_network(name: str) -> None:
    agent_clis.install()
    argv = [sys.executable, "-m", "tools.agent_matrix", "--cli", name, "--case", "success"]
    done = subprocess.run(
        closed(argv),
        cwd=ROOT,
        env={**os.environ, INSIDE: "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "success, a file edited: passed" in done.stdout
