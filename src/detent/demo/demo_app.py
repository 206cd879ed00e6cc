"""The app of the demo's worker: a plan whose first phone fails, and a release in parts.

The demo starts a worker with `--app detent.demo.demo_app:app`. The app writes one file in the
working directory.
"""

import time
from pathlib import Path

from detent.app.app import App
from detent.app.failures import ResourceFailed
from detent.app.run_context import Run

BROKEN = "phone-1"
PARTS = 8
PART_S = 0.4
#: Every part that was sent, in order; a part that was sent twice is listed twice.
SENT = Path("sent.txt")

app = App()


@app.intent("build")
def build() -> str:
    return "shop-1.4"


@app.intent("call")
def call(run: Run) -> str:
    """Test the build on the phone that this step holds."""
    if run.resource == BROKEN:
        raise ResourceFailed(f"{run.resource} does not answer")
    return f"{run.results['build']} works on {run.resource}"


app.plan(
    "tryOut",
    [
        {"name": "build"},
        {"name": "call", "needs": ["build"], "capabilities_required": ["phone"]},
    ],
)


@app.intent("release")
def release(run: Run, version: str) -> str:
    """Send a version in parts; each part is a durable step that records a checkpoint."""
    for part in range(1, PARTS + 1):
        run.step(f"part-{part}", send, part)
    return f"{version} is out, in {PARTS} parts"


def send(part: int) -> int:
    time.sleep(PART_S)
    with SENT.open("a") as sent:
        sent.write(f"{part}\n")
    return part
