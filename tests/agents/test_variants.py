"""Best of N with agents: isolated variants, the choice, and the work that continues after it."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from detent import failpoints
from detent.app.run_context import Run
from detent.errors import Invalid, NotFound, Refused
from detent.kernel import commands as c
from detent.operations import (
    inbox,
    review_comments,
    review_drafts,
    review_page,
    tasks,
    variant_comparison,
)
from detent.operations.registry import Caller, Scope
from detent.store.types import Query
from tests.agents.accept_worker import SETTINGS, declare
from tests.agents.repository import git, make_repository
from tests.agents.scene import Scene, claude_argv, scene
from tests.worker.waiting import DEADLINE_S

ALICE = Caller("person:alice", frozenset(Scope))
Script = list[list[dict[str, Any]]]


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "repos" / "app", {"code.py": "broken = True\n"})


@pytest.fixture
def s(tmp_path: Path) -> Iterator[Scene]:
    # No worker takes over the session of another one within the test.
    with scene(tmp_path, **SETTINGS, worker_session_grace_ms=600_000) as made:
        yield made


def work(content: str, dollars: float = 0.1, failed: int = 0) -> list[dict[str, Any]]:
    """A run that changes code.py, tests it and costs something."""
    results = json.dumps({"passed": 3, "failed": failed})
    return [
        {"write": {"code.py": f"{content}\n"}},
        {"evidence": {"test-results.json": results}},
        {"cost": dollars},
        {"tokens": [10, 5]},
    ]


def submit(s: Scene, repo: Path, scripts: list[Script], budget: float = 9, **options: Any) -> str:
    """A task with one variant for each script, each by an agent of its own."""
    agents = {}
    for number, runs in enumerate(scripts, 1):
        file = s.directory / f"script-{number}.json"
        file.write_text(json.dumps({"runs": runs}))
        agents[f"agent-{number}"] = {
            "preset": "claude",
            "argv": claude_argv(),
            "repos": [str(repo.parent)],
            "variables": {"STAND_IN_SCRIPT": str(file)},
        }
    s.app.agents = agents
    names = [f"fix{number}" for number in range(1, len(scripts) + 1)]
    for number, name in enumerate(names, 1):
        s.app.agent(name, f"agent-{number}", "Fix this: {payload}", workspace="worktree")
    given = {"workspace": "worktree", "on_accept": "merge", **options}
    s.app.agent("fix", "agent-1", "Fix this: {payload}", variants=names, **given)
    return s.submit({"repo": str(repo)}, budget=budget)


def compared(s: Scene, task_id: str) -> Any:
    return variant_comparison.variants(s.core, ALICE, task_id=task_id)


def choose(s: Scene, task_id: str, variant: int | str, **given: Any) -> Any:
    return variant_comparison.choose_variant(
        s.core, ALICE, task_id=task_id, variant=variant, **given
    )


def created(s: Scene) -> int:
    return s.names().count("task_created")


# ---- a person chooses ------------------------------------------------------------------------


def test_the_best_of_three_is_chosen_changed_and_merged(s: Scene, repo: Path) -> None:
    """The whole story: three agents, a comparison, the choice, another round, the merge."""
    second = [work("broken = 'no'", 0.2), [{"reply": "done"}, *work("broken = False", 0.3)]]
    task_id = submit(s, repo, [[work("broken = 0", 0.4, 1)], second, [[{"exit": 3}]]])
    with s.working():
        s.rests("blocked")
        assert s.task().blocked_by == "question"
        (item,) = inbox.inbox(s.core, ALICE)["items"]
        actions = [each["action"] for each in item["actions"]]
        assert ("choose" in actions, "answer" in actions) == (True, False)
        (reason,) = s.why()
        assert (reason["reason"], reason["how"]) == ("question", "choose or cancel")
        found = compared(s, task_id)
        assert (found["waits_for_choice"], found["chosen"], found["budget_usd"]) == (True, None, 9)
        first, chosen, failed = found["variants"]
        assert [each["intent"] for each in found["variants"]] == ["fix1", "fix2", "fix3"]
        assert (first["passes"], first["tests"]["failed"], first["cost_usd"]) == (False, 1, 0.4)
        assert (chosen["passes"], chosen["tests"]["passed"], chosen["cost_usd"]) == (True, 3, 0.2)
        assert (chosen["diff"]["files"], chosen["diff"]["added"], chosen["diff"]["removed"]) == (
            *(1, 1, 1),
        )
        assert (failed["state"], failed["choosable"], failed["diff"]["files"]) == (
            "failed",
            False,
            0,
        )
        assert found["cost_usd"] == pytest.approx(0.6)
        refuses_bad_choices(s, task_id, first["diff"]["sha256"])
        diff = chosen["diff"]["sha256"]
        assert choose(s, task_id, 2, diff=diff)["outcome"] == "chosen"
        assert choose(s, task_id, 2)["outcome"] == "repeated"
        with pytest.raises(Refused, match=r"Variant 2 of task .* was chosen already"):
            choose(s, task_id, 1)
        s.rests("ready")
        shown: Any = review_page.review(s.core, ALICE, task_id=task_id)
        assert shown["diff"]["sha256"] == diff
        assert (shown["cost_usd"], [each["file"] for each in shown["tests"]]) == (
            *(0.2, ["test-results.json"]),
        )
        session = session_of(s, chosen["task_id"])
        ask_for_changes(s, task_id, diff)
        s.rests("ready", rounds=1)
        # The agent of variant 2 has continued its own session, in its own worktree.
        assert (s.runs()[-1]["session_id"], s.task().session_id) == (session, session)
        accepted: Any = review_page.review(s.core, ALICE, task_id=task_id)
        assert accepted["cost_usd"] == pytest.approx(0.5)
        tasks.accept_task(s.core, ALICE, task_id=task_id, diff=accepted["diff"]["sha256"])
        s.rests("completed")
    assert (repo / "code.py").read_text() == "broken = False\n"
    (merge,) = git(repo, "log", "--merges", "--format=%B").split("\n\n\n")
    assert f"Detent-Task: {task_id}" in merge
    assert created(s) == 4


def session_of(s: Scene, task_id: str) -> str | None:
    with s.core.store.read() as view:
        return next(each.session_id for each, _ in view.tasks([task_id]))


def refuses_bad_choices(s: Scene, task_id: str, other_diff: str) -> None:
    """Nothing of this is stored."""
    before = len(s.events())
    for given in (0, 4, -1, "x", task_id, "019a8b7cz4f8h2m5n9q1r3t6vw"):
        with pytest.raises(Invalid, match=r"variant must be the number or the id .*: 1, 2, 3"):
            choose(s, task_id, given)
    with pytest.raises(Refused, match=r"Variant 3 of task .* is failed"):
        choose(s, task_id, 3)
    with pytest.raises(Refused, match="has changed: version 1 was reviewed"):
        choose(s, task_id, 2, seen=1)
    with pytest.raises(Invalid, match="diff must be the SHA-256 of the diff under review"):
        choose(s, task_id, 2, diff=other_diff)
    with pytest.raises(Refused, match="has an open question"):
        tasks.accept_task(s.core, ALICE, task_id=task_id)
    with pytest.raises(NotFound):
        choose(s, "019a8b7cz4f8h2m5n9q1r3t6vw", 1)
    assert len(s.events()) == before


def ask_for_changes(s: Scene, task_id: str, diff: str) -> None:
    """A comment on a line, which the chosen agent gets in its own session."""
    review_comments.add_comment(
        s.core,
        ALICE,
        task_id=task_id,
        diff=diff,
        file="code.py",
        side="after",
        start=1,
        end=1,
        text="a boolean, please",
    )
    review_drafts.request_changes(s.core, ALICE, task_id=task_id, diff=diff)


# ---- policies --------------------------------------------------------------------------------


def test_a_policy_takes_the_cheapest_that_passes_its_tests_and_its_checker(
    s: Scene, repo: Path
) -> None:
    refused: list[str] = []

    @s.app.intent("check")
    def check(run: Run, **payload: Any) -> Any:
        accept = "broken = 2" not in payload["changes"]
        refused.extend([] if accept else [payload["task_id"]])
        return {"accept": accept}

    scripts = [
        [work("broken = 1", 0.1, failed=2)],
        [work("broken = 2", 0.2)],
        [work("broken = 3", 0.4)],
        [work("broken = 4", 0.3)],
    ]
    task_id = submit(s, repo, scripts, checker="check", choose="cheapest_passing")
    with s.working(concurrency=4):
        s.rests("ready")
    found = compared(s, task_id)
    assert (found["chosen"], found["choose"]) == (4, "cheapest_passing")
    assert [each["passes"] for each in found["variants"]] == [False, False, True, True]
    assert [each["check"]["accept"] for each in found["variants"]] == [True, False, True, True]
    assert refused == [found["variants"][1]["task_id"]]
    # Four variants and one check for each; the chosen work is not checked again.
    assert created(s) == 9
    assert "check.json" in s.evidence()


def test_no_person_is_needed_where_a_policy_chooses_and_the_checker_may_accept(
    s: Scene, repo: Path
) -> None:
    @s.app.intent("check")
    def check(run: Run, **payload: Any) -> Any:
        return {"accept": "broken = 2" in payload["changes"]}

    scripts = [[work("broken = 1", 0.1)], [work("broken = 2", 0.2)]]
    given: dict[str, Any] = {
        "checker": "check",
        "checker_may_accept": True,
        "choose": "first_passing",
    }
    task_id = submit(s, repo, scripts, **given)
    with s.working(concurrency=4):
        s.rests("completed")
    assert (repo / "code.py").read_text() == "broken = 2\n"
    assert compared(s, task_id)["chosen"] == 2
    assert s.names().count("task_accepted") == 1


def test_a_policy_takes_the_first_that_passes_and_cancels_the_rest(s: Scene, repo: Path) -> None:
    scripts = [
        [[*work("broken = 1", 0.1, failed=1)]],
        [[{"hang": 600}]],
        [work("broken = 3")],
    ]
    task_id = submit(s, repo, scripts, choose="first_passing")
    with s.working(concurrency=4):
        s.rests("ready")
    found = compared(s, task_id)
    assert (found["chosen"], s.task().open_subtasks) == (3, 0)
    assert found["variants"][1]["state"] == "cancelled"
    assert inbox.inbox(s.core, ALICE)["count"] == 1


def test_without_a_passing_variant_a_person_chooses(s: Scene, repo: Path) -> None:
    scripts = [[work("broken = 1", failed=1)], [work("broken = 2", failed=1)]]
    task_id = submit(s, repo, scripts, choose="cheapest_passing")
    with s.working():
        s.rests("blocked")
        assert "No variant passes" in s.task().blocked_detail["text"]
        tasks.answer_task(s.core, ALICE, task_id=task_id, answer="1")
        s.rests("ready")
    assert compared(s, task_id)["chosen"] == 1


# ---- failures --------------------------------------------------------------------------------


def test_when_all_variants_fail_the_task_fails_and_a_retry_has_new_ones(
    s: Scene, repo: Path
) -> None:
    broken = [[{"exit": 4}]]
    task_id = submit(s, repo, [broken, broken])
    with s.working():
        s.rests("failed")
        error = s.errors()[-1][1]
        assert "no variant ended well: variant 1 is failed" in error
        assert "exit code 4" in error
        (s.directory / "script-1.json").write_text(json.dumps({"runs": [work("broken = 5")]}))
        tasks.retry_task(s.core, ALICE, task_id=task_id)
        s.rests("blocked")
        assert [each["state"] for each in compared(s, task_id)["variants"]] == [
            *("completed", "failed"),
        ]
    assert created(s) == 5


def test_a_spent_budget_stops_all_variants(s: Scene, repo: Path) -> None:
    scripts = [[work("broken = 1", 2.0)], [work("broken = 2", 2.0)]]
    submit(s, repo, scripts, budget=1)
    with s.working():
        s.rests("budget_exceeded")
    assert s.task().open_subtasks == 0


@pytest.mark.parametrize("point", ["subtask.submitted", "report.before", "report.after"])
def test_variants_are_created_once_whenever_the_worker_is_killed(
    s: Scene, repo: Path, tmp_path: Path, point: str
) -> None:
    declare(s, work("broken = 1"), variants=3, choose="cheapest_passing")
    task_id = s.submit({"repo": str(repo)})
    armed = {failpoints.VARIABLE: f"{point}:kill", failpoints.TESTING: "1"}
    command = [sys.executable, "-m", "tests.agents.accept_worker", str(tmp_path), "victim"]
    victim = subprocess.Popen(command, env={**os.environ, **armed})
    assert victim.wait(DEADLINE_S) == -signal.SIGKILL
    with s.core.store.read() as view:
        job = next(job for job, _ in view.jobs([f"{task_id}-j1"]))
        others = view.page(Query("tasks", {"parent_id": task_id}, "created_at"))
    assert len(others) == 3
    for each in (job, *(_job_of(s, row["id"]) for row in others)):
        if each.state == "running":
            s.core.engine.do(c.ReclaimJob(each.id, each.fence), c.Actor("clock"))
    with s.working(concurrency=4):
        s.rests("ready")
    assert created(s) == 4
    assert s.names().count("variant_chosen") == 1


def _job_of(s: Scene, task_id: str) -> Any:
    with s.core.store.read() as view:
        (task,) = (each for each, _ in view.tasks([task_id]))
        return next(job for job, _ in view.jobs([task.job_id or ""]))
