"""Programs that misbehave, side by side in one worker: each ends in a clear state, none ends it."""

import sys
from pathlib import Path

import pytest

from detent.app.app import App
from detent.app.failures import JobFailed
from tests.worker.waiting import DEADLINE_S, installation, working

LIMIT = 100_000
SECRET = "hush-hush-4711"
#: 1 GB in lines, and one line of 100 MB.
FLOOD = (
    "import os\nblock = (b'x' * 999 + b'\\n') * 1_000\nfor _ in range(1_000): os.write(1, block)"
)
ONE_LINE = "import os\nfor _ in range(100): os.write(1, b'y' * 1_000_000)"
SECRETS = """
import os, sys, time
secret = os.environ["VAULT_KEY"]
print(secret)
for letter in secret:  # in pieces, so that none of them is the secret
    sys.stdout.write(letter)
    sys.stdout.flush()
sys.exit(f"the key {secret} was refused")
"""
OUTSIDE = "open('/usr/detent-was-here', 'w')"
SILENT = "import time; time.sleep(600)"


def test_each_ends_in_a_clear_state_and_the_worker_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VAULT_KEY", SECRET)
    app, once = App(), {"retries": 0}
    for name, code in {"flood": FLOOD, "line": ONE_LINE, "outside": OUTSIDE}.items():
        app.command(name, [sys.executable, "-c", code], retry=once)
    app.command("secrets", [sys.executable, "-c", SECRETS], retry=once, environment=["VAULT_KEY"])
    idle = {"classes": {"timeout": {"retries": 0}}}
    app.command("silent", [sys.executable, "-c", SILENT], idle_timeout_s=0.5, retry=idle)
    chosen = {"worker_output_limit": LIMIT, "worker_grace_ms": 200, "worker_sandbox": "bwrap"}
    with installation(tmp_path, **chosen) as core:  # type: ignore[arg-type]
        with working(core, app):
            handles = {name: app.submit(name) for name in app.intents if name != "plan"}
            for name in ("flood", "line"):
                assert handles[name].result(timeout=DEADLINE_S) is None
            with pytest.raises(JobFailed, match="Read-only file system"):
                handles["outside"].result(timeout=DEADLINE_S)
            with pytest.raises(JobFailed, match=r"the key \[secret\] was refused"):
                handles["secrets"].result(timeout=DEADLINE_S)
            with pytest.raises(JobFailed, match=r"no sign of life for 0\.5 s") as silent:
                handles["silent"].result(timeout=DEADLINE_S)
        kept = {
            name: (tmp_path / "runs" / f"{handle.job_id}-r1" / "output.log").read_text()
            for name, handle in handles.items()
            if name != "silent"
        }
        with core.store.read() as view:
            events = "".join(str(view.jobs([handle.job_id])) for handle in handles.values())
    assert silent.value.error_class == "timeout"
    for name in ("flood", "line"):
        assert LIMIT <= len(kept[name]) < LIMIT + 100
        assert kept[name].endswith(
            "[the output was cut here: it passed its limit, worker.output_limit]\n"
        )
    assert kept["secrets"].startswith("[secret]\n[secret]")
    assert SECRET not in kept["secrets"] + events
