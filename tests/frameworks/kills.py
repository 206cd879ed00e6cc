"""What every kill of a worker must leave: the right result, and at most one call made twice."""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.docs.pages import ROOT

#: Every commit of the process. A kill after one leaves the same store as one before the next.
POINTS = ("commit.before",)


def kill_everywhere(
    scene: str, intent: str, directory: Path, points: Sequence[str] = POINTS
) -> list[dict[str, Any]]:
    """Kill a worker at every passing of the failpoints; what was found after each kill."""
    command = [sys.executable, "-m", "tests.frameworks.killed_runs", scene, intent, str(directory)]
    done = subprocess.run(
        [*command, *points], cwd=ROOT, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found: list[dict[str, Any]] = [json.loads(line) for line in done.stdout.splitlines()]
    assert {each["point"] for each in found} == set(points)
    return found


def check(found: Sequence[dict[str, Any]], result: Any, calls: Sequence[str]) -> None:
    """Every result is right, every call was made, and at most one of them twice."""
    for each in found:
        where = f"{each['point']} {each['number']}"
        assert each["result"] == result, where
        made, expected = Counter(each["calls"]), Counter(calls)
        assert not expected - made, where
        assert (made - expected).total() <= 1, (where, made - expected)
