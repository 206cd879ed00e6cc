"""From a labelled issue to a merged request, with the same steps at every forge."""

from pathlib import Path

import pytest

from tests.agents.scene import Step
from tests.forges.case_world import case_world
from tests.forges.forge_cases import CASES


def change(value: int) -> list[Step]:
    return [{"write": {"code.py": f"a = 1\nb = {value}\nc = 3\n"}}, {"commit": f"b is {value}"}]


@pytest.mark.parametrize("forge", CASES)
def test_a_labelled_issue_becomes_a_merged_request(forge: str, tmp_path: Path) -> None:
    with case_world(forge, tmp_path) as w:
        w.agent(change(20), change(21), change(22))
        w.case.branch = f"detent/{w.task_id}"
        with w.s.working():
            w.case.open_issue("b is wrong", "It must be 22.", "detent")
            w.reaches("open")
            w.case.check("tests", "failed", "assert b == 22")
            w.deliver()
            w.reaches("open", rounds=1)
            w.case.check("tests", "passed")
            w.case.comment_on_line("code.py", 2, "Still not 22.")
            w.case.review("changes_requested")
            w.deliver()
            w.reaches("open", rounds=2)
            w.case.check("tests", "passed")
            w.case.review("approved")
            w.deliver()
            w.reaches("merged", rounds=2)
        assert w.case.repo.git("show", "main:code.py").stdout == "a = 1\nb = 22\nc = 3\n"
        names = w.events()
        for once in (
            "task_checks_failed",
            "task_changes_requested",
            "task_approved",
            "task_merged",
        ):
            assert names.count(once) == 1, once
        assert names.count("task_opened") == 3
        assert len(w.case.requests()) == 1
