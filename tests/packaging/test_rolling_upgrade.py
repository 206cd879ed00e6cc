"""An upgrade to the next release without an interruption: both wheels on one database, under load.

`./dev bench upgrade` does the same with 200 submissions a second and more processes, and measures
how long a submission waits.
"""

from pathlib import Path

import pytest

from bench.upgrade.command import Installation, next_program, upgrade
from bench.upgrade.command import Program as Release
from tests.plugins.wheel import Installed

pytestmark = pytest.mark.timeout(900)
MAX_REFUSALS = 3


def test_a_rolling_upgrade_under_load(
    installed: Installed, wheel: Path, empty_postgres_url: str, tmp_path: Path
) -> None:
    this = Release(installed("postgres"))
    later = next_program(this.bin_dir, wheel, tmp_path)
    (place := tmp_path / "place").mkdir()
    made = Installation(empty_postgres_url, place)
    found = upgrade(made, this, later, rate=20, pause=10, workers=1)
    # The other gateway accepts what one refuses. A connection may be stale after a replacement.
    assert found.refused
    assert found.most_refusals <= MAX_REFUSALS
