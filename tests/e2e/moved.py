"""An installation whose clock a test sets, so that no test waits for a timer."""

import sys
from pathlib import Path

from tests.e2e.installation import Installation
from tests.e2e.shifted import CLOCK

ROOT = Path(__file__).parents[2]


class Moved(Installation):
    """Its processes are as far off as a file says."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.clock = root / "clock"
        self.clock.write_text("0")

    @property
    def environment(self) -> dict[str, str]:
        return super().environment | {CLOCK: str(self.clock), "PYTHONPATH": str(ROOT)}

    def _program(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "tests.e2e.shifted", *arguments]

    def pass_time(self, seconds: int) -> None:
        draft = self.clock.with_suffix(".part")
        draft.write_text(str(int(self.clock.read_text()) + seconds * 1_000_000))
        draft.replace(self.clock)
