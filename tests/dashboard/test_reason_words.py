"""Each reason for which a task or a job waits has a sentence in the dashboard."""

import re

from detent.operations.why_job import WAITS
from detent.operations.why_reasons import CLEARED_BY
from tools.web import ROOT


def test_each_reason_of_the_server_has_a_sentence() -> None:
    words = (ROOT / "web" / "src" / "reason_words.ts").read_text(encoding="utf-8")
    known = set(re.findall(r'^  "?([a-z_:]+)"?: \[', words, re.MULTILINE))
    named: set[str] = set()
    for file in (ROOT / "src" / "detent" / "operations").glob("why_*.py"):
        named.update(re.findall(r'Reason\(\s*"([a-z_]+)"', file.read_text(encoding="utf-8")))
    assert {"limit", "cost_quota"} <= named
    wanted = named | set(CLEARED_BY) | {f"wait:{kind}" for kind in WAITS}
    assert wanted - known == set()
