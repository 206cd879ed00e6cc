"""A real ACP agent asks for permission, writes a file, is rejected and continues its session.

`./dev agents` runs the others.
"""

import subprocess
import sys

import pytest

from tests.agent_clis.acp_profile import AGENTS
from tools import acp_adapters
from tools.agent_matrix import closed
from tools.web import ROOT


@pytest.mark.parametrize("name", [AGENTS[0].name])
def test_a_real_acp_agent_is_answered_live_and_continues(name: str) -> None:
    acp_adapters.install()
    argv = [sys.executable, "-m", "tests.agent_clis.acp_story", name]
    done = subprocess.run(
        closed(argv), cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
