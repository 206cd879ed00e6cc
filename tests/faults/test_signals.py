"""A signal stops a process at whatever moment it comes, also while it is waited for."""

import subprocess
import sys

#: A process that never rests is as likely as can be to be interrupted within its waiting.
SCRIPT = """
import os, signal, threading
from types import SimpleNamespace
from detent import service

service.CHECK_STOP_S = 0.0
nothing = SimpleNamespace(start=lambda: None, stop=lambda: None)
for _ in range(300):
    kill = threading.Timer(0.002, os.kill, (os.getpid(), signal.SIGTERM))
    assert service.run_until_stopped(nothing, ready=kill.start) is False
    kill.join()
print("stopped")
"""


def test_a_signal_is_heard_whenever_it_comes() -> None:
    result = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=300, check=True
    )
    assert result.stdout == "stopped\n"
