"""A signal stops a process at whatever moment it comes, also while it is waited for."""

import signal
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


#: A stop that waits in C code, as for a locked database: it handles no signal while it waits.
BLOCKED = """
import ctypes, os, signal, threading
from types import SimpleNamespace
from detent import service

stopping = threading.Event()

def stop():
    stopping.set()
    mutex, lock = ctypes.create_string_buffer(64), ctypes.CDLL(None).pthread_mutex_lock
    for _ in range(2):
        lock(mutex)  # the second call never returns

def again():
    stopping.wait()
    os.kill(os.getpid(), signal.SIGTERM)

threading.Thread(target=again, daemon=True).start()
blocked = SimpleNamespace(start=lambda: None, stop=stop)
service.run_until_stopped(blocked, ready=lambda: os.kill(os.getpid(), signal.SIGTERM))
"""


def test_a_second_signal_ends_a_stop_that_is_blocked() -> None:
    ended = subprocess.run([sys.executable, "-c", BLOCKED], timeout=60, check=False)
    assert ended.returncode == 128 + signal.SIGTERM
