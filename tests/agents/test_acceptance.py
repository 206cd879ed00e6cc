"""Accepting with an action: the branch of the task is merged or pushed before it is accepted."""

import fcntl
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from detent.errors import Forbidden, Invalid, Refused
from detent.kernel import commands as c
from detent.kernel.commands.review_commands import ReviewedDiff
from detent.operations import inbox, manual_runs, queries, review_page, tasks
from detent.operations.registry import Caller, Scope
from detent.worker.git_command import WorkspaceFailed
from detent.worker.runners.acceptance import accept_runner, branch_merge
from tests.agents.accept_worker import declare
from tests.agents.repository import commit, git, make_repository
from tests.agents.scene import Scene
from tests.worker.waiting import until

ALICE = Caller("person:alice", frozenset(Scope))
FIX = [{"write": {"code.py": "broken = False\n", "new.txt": "n\n"}}]


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "repos" / "app", {"code.py": "broken = True\n", "b": "1\n"})


def reviewed(s: Scene, repo: Path, *runs: list[dict[str, Any]], **options: Any) -> str:
    """A task whose agent has ended; a worker must be at work."""
    declare(s, *(runs or (FIX,)), **options)
    return s.submit({"repo": str(repo)})


def accept(s: Scene, task_id: str, **given: Any) -> Any:
    return tasks.accept_task(s.core, ALICE, task_id=task_id, **given)


def event(s: Scene, name: str) -> dict[str, Any]:
    """The data of the last event with this name."""
    found: dict[str, Any] = json.loads([e.data for e in s.events() if e.name == name][-1] or b"{}")
    return found


def merges(repo: Path, branch: str = "main") -> list[str]:
    return git(repo, "log", "--merges", "--first-parent", "--format=%H", branch).splitlines()


def shown(s: Scene, task_id: str) -> dict[str, Any]:
    return queries.show_task(s.core, ALICE, task_id=task_id)  # type: ignore[return-value]


# ---- merging ---------------------------------------------------------------------------------


def test_the_work_is_merged_before_the_task_is_accepted(s: Scene, repo: Path) -> None:
    task_id = reviewed(s, repo)
    with s.working():
        s.rests("ready")
        first = git(repo, "rev-parse", "main")
        answer = accept(s, task_id, comment="well done")
        assert answer["state"] == "queued"
        s.rests("completed")
    (merge,) = merges(repo)
    assert git(repo, "rev-parse", "main") == merge
    parents = git(repo, "show", "--no-patch", "--format=%P", merge).split()
    assert parents[0] == first
    assert parents[1] == git(repo, "rev-parse", f"detent/{task_id}")
    message = git(repo, "show", "--no-patch", "--format=%B", merge)
    assert f"Detent-Task: {task_id}\nDetent-Verdict: {task_id}-j2" in message
    assert "Accepted-by: person:alice" in message
    assert "well done" in message
    # The target is checked out without changes: its files follow, those of others stay.
    assert (repo / "code.py").read_text() == "broken = False\n"
    assert (repo / "new.txt").read_text() == "n\n"
    assert git(repo, "status", "--porcelain") == ""
    accepted = event(s, "task_accepted")
    assert (accepted["by"], accepted["comment"]) == ("person:alice", "well done")
    names = s.names()
    assert names[names.index("task_accepting") :] == [
        *("task_accepting", "job_created", "job_running", "run_queued", "run_started"),
        *("task_started", "effect_begun", "checkpoint_recorded", "run_succeeded"),
        *("job_completed", "task_ready", "task_accepted"),
    ]
    # The result of the task is that of its work.
    assert queries.result_of(s.core, ALICE, task_id)["text"] == "done"
    assert shown(s, task_id)["acceptance"] == {
        "action": "merge",
        "by": "person:alice",
        "job_id": f"{task_id}-j2",
        "state": "completed",
        "problem": None,
        "branch": "main",
        "commit": merge,
    }


def test_an_acceptance_is_not_run_manually(s: Scene, repo: Path) -> None:
    task_id = reviewed(s, repo)
    with s.working():
        s.rests("ready")
    accept(s, task_id)
    for call in (
        lambda: manual_runs.begin_run(s.core, ALICE, job_id=f"{task_id}-j2"),
        lambda: manual_runs.set_task_state(s.core, ALICE, task_id=task_id, state="ready"),
    ):
        with pytest.raises(Refused) as caught:
            call()
        assert caught.value.code == "not_claimable"


def test_the_event_of_an_acceptance_keeps_the_reviewed_diff(s: Scene, repo: Path) -> None:
    task_id = reviewed(s, repo)
    with s.working():
        s.rests("ready")
    diff = review_page.review(s.core, ALICE, task_id=task_id)["diff"]
    assert diff is not None
    named = diff["sha256"]
    tasks.send_event(s.core, ALICE, task_id=task_id, event="task_accepting", diff=named)
    assert event(s, "task_accepting")["diff"] == named


def test_a_target_that_is_not_checked_out_is_moved_alone(s: Scene, repo: Path) -> None:
    git(repo, "branch", "release")
    task_id = reviewed(s, repo, target_branch="release")
    with s.working():
        s.rests("ready")
        accept(s, task_id)
        s.rests("completed")
    assert len(merges(repo, "release")) == 1
    assert merges(repo) == []
    assert (repo / "code.py").read_text() == "broken = True\n"
    assert git(repo, "show", "release:code.py") == "broken = False"


def test_commits_on_the_target_are_kept(s: Scene, repo: Path) -> None:
    task_id = reviewed(s, repo)
    with s.working():
        s.rests("ready")
        other = commit(repo, {"b": "2\n"}, "meanwhile")
        accept(s, task_id)
        s.rests("completed")
    (merge,) = merges(repo)
    assert git(repo, "rev-parse", f"{merge}^1") == other
    assert (repo / "b").read_text() == "2\n"
    assert (repo / "code.py").read_text() == "broken = False\n"


def test_without_the_action_the_task_is_accepted_immediately(s: Scene, repo: Path) -> None:
    task_id = reviewed(s, repo)
    with s.working():
        s.rests("ready")
    assert accept(s, task_id, without_action=True)["state"] == "completed"
    assert merges(repo) == []


def test_a_run_that_changed_nothing_has_nothing_to_merge(s: Scene, repo: Path) -> None:
    task_id = reviewed(s, repo, [{"say": "nothing to do"}])
    before = git(repo, "rev-parse", "main")
    with s.working():
        s.rests("ready")
        accept(s, task_id)
        s.rests("completed")
    assert git(repo, "rev-parse", "main") == before


def test_work_that_a_person_has_merged_can_be_accepted(s: Scene, repo: Path) -> None:
    task_id = reviewed(s, repo, [*FIX, {"commit": "fix"}])
    with s.working():
        s.rests("ready")
        git(repo, "merge", "--quiet", "--no-ff", "-m", "by hand", f"detent/{task_id}")
        by_hand = commit(repo, {"b": "2\n"}, "later")
        accept(s, task_id)
        s.rests("completed")
    assert git(repo, "rev-parse", "main") == by_hand


def test_work_that_an_acceptance_merged_before_it_failed_can_be_accepted(
    s: Scene, repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(branch: Any, target: str | None) -> dict[str, Any]:
        branch_merge.merge(branch, target)
        raise WorkspaceFailed("the disk is full")

    task_id = reviewed(s, repo)
    with s.working():
        s.rests("ready")
        with monkeypatch.context() as patch:
            patch.setattr(accept_runner, "merge", fail)
            assert "the disk is full" in refused_with(s, task_id)
        (merge,) = merges(repo)
        accept(s, task_id)
        s.rests("completed")
    assert merges(repo) == [merge]


def test_a_spent_budget_and_required_evidence_do_not_keep_it_from_the_merge(
    s: Scene, repo: Path
) -> None:
    run: list[dict[str, Any]] = [*FIX, {"evidence": {"QA-DECISION.md": "PASS"}}, {"cost": 1.0}]
    declare(s, run, requires_evidence=["qa_report"])
    task_id = s.submit({"repo": str(repo)}, budget=1.0)
    with s.working():
        task = s.rests("ready")
        assert task.spent == task.budget
        accept(s, task_id)
        s.rests("completed")
    assert len(merges(repo)) == 1


# ---- conflicts -------------------------------------------------------------------------------


def test_a_conflict_returns_the_task_to_the_same_session(s: Scene, repo: Path) -> None:
    resolve = [{"git": ["merge", "--quiet", "-X", "ours", "main"]}]
    task_id = reviewed(s, repo, FIX, resolve)
    with s.working():
        session = s.rests("ready").session_id
        commit(repo, {"code.py": "broken = None\n", "b": "2\n"}, "meanwhile")
        accept(s, task_id)
        task = s.rests("ready", rounds=1)
        assert task.session_id == session
        assert merges(repo) == []
        assert "task_accepted" not in s.names()
        # The prompt names the files and says what to do; nothing about a failed execution.
        prompt = s.prompts()[-1]
        assert "cannot be merged into main" in prompt
        assert "- code.py\n" in prompt
        assert "- b" not in prompt
        assert "failed" not in prompt
        # Its new diff shows its own work, not what it has merged.
        runs = s.core.settings.data_dir / "runs"
        changes = (runs / s.run()["id"] / "evidence" / "changes.diff").read_text()
        assert "+broken = False" in changes
        assert "a/b" not in changes
        accept(s, task_id)
        s.rests("completed")
    assert len(merges(repo)) == 1
    assert (repo / "code.py").read_text() == "broken = False\n"
    assert (repo / "b").read_text() == "2\n"


def test_without_rounds_a_conflict_waits_for_a_person(s: Scene, repo: Path) -> None:
    task_id = reviewed(s, repo, FIX, FIX, max_rounds=1)
    with s.working():
        s.rests("ready")
        s.do(c.RejectTask(task_id, "again", run=True))
        s.rests("ready", rounds=1)
        commit(repo, {"code.py": "broken = None\n"}, "meanwhile")
        accept(s, task_id)
        until(lambda: shown(s, task_id)["acceptance"], "the acceptance")
        s.rests("ready", rounds=1)
    problem = "The work has conflicts with its target branch in code.py."
    assert shown(s, task_id)["acceptance"]["problem"] == problem
    (reason, *_) = s.why()
    assert (reason["reason"], reason["detail"]["problem"]) == ("review", problem)


# ---- what is refused -------------------------------------------------------------------------


def refused_with(s: Scene, task_id: str) -> str:
    """Accept it; why the action was not carried out, once it is ready again."""
    accept(s, task_id)
    until(lambda: (shown(s, task_id)["acceptance"] or {}).get("problem"), "the refusal")
    s.rests("ready")
    found: str = shown(s, task_id)["acceptance"]["problem"]
    return found


def test_a_dirty_target_is_left_alone_and_the_task_can_be_accepted_again(
    s: Scene, repo: Path
) -> None:
    task_id = reviewed(s, repo)
    with s.working():
        s.rests("ready")
        (repo / "b").write_text("mine\n")
        problem = refused_with(s, task_id)
        assert "main is checked out in" in problem
        assert "changes that are not committed: b." in problem
        assert (repo / "b").read_text() == "mine\n"
        assert merges(repo) == []
        items: list[Any] = [*inbox.inbox(s.core, ALICE)["items"]]
        row = next(row for row in items if row["id"] == task_id)
        assert row["acceptance"]["problem"] == problem
        assert {"accept", "reject"} <= {each["action"] for each in row["actions"]}
        git(repo, "checkout", "--quiet", "b")
        accept(s, task_id)
        s.rests("completed")
    assert len(merges(repo)) == 1
    assert event(s, "task_accepted")["by"] == "person:alice"


def test_a_branch_that_has_moved_since_the_review_is_not_merged(s: Scene, repo: Path) -> None:
    task_id = reviewed(s, repo)
    with s.working():
        s.rests("ready")
        (s.work() / "late.txt").write_text("after the review")
        assert "has changed since the review" in refused_with(s, task_id)
        (s.work() / "late.txt").unlink()
        commit(s.work(), {"code.py": "broken = 'no'\n"}, "moved")
        assert "has changed since the review" in refused_with(s, task_id)
    assert merges(repo) == []


def test_a_verdict_about_another_diff_is_not_carried_out(s: Scene, repo: Path) -> None:
    task_id = reviewed(s, repo)
    with s.working():
        s.rests("ready")
        with s.core.store.read() as view:
            [(task, _)] = view.tasks([task_id])
            seen = ReviewedDiff("0" * 64, str(task.job_id), view.version_of(str(task.job_id)))
        s.core.engine.do(c.AcceptTask(task_id, diff=seen), c.Actor("person:alice"))
        until(lambda: (shown(s, task_id)["acceptance"] or {}).get("problem"), "the refusal")
    assert (
        "was accepted, but the diff under review is" in shown(s, task_id)["acceptance"]["problem"]
    )
    assert merges(repo) == []


def test_a_target_that_does_not_exist_is_named(s: Scene, repo: Path) -> None:
    task_id = reviewed(s, repo, target_branch="nowhere")
    with s.working():
        s.rests("ready")
        assert "has no branch refs/heads/nowhere" in refused_with(s, task_id)


def test_commits_that_were_not_reviewed_are_not_merged(s: Scene, repo: Path) -> None:
    git(repo, "branch", "release")
    commit(repo, {"b": "not for the release\n"}, "only on main")
    before = git(repo, "rev-parse", "release")
    task_id = reviewed(s, repo, target_branch="release")
    with s.working():
        s.rests("ready")
        problem = refused_with(s, task_id)
    assert "the merge would apply changes that were not reviewed" in problem
    assert "Set base of the agent to release" in problem
    assert git(repo, "rev-parse", "release") == before


def test_changes_that_the_diff_does_not_show_are_not_merged(s: Scene, repo: Path) -> None:
    """The agent reverts what the target has, in a merge that its diff against main hides."""
    git(repo, "checkout", "--quiet", "-b", "release")
    before = commit(repo, {"b": "release\n"}, "release")
    git(repo, "checkout", "--quiet", "main")
    hide: list[dict[str, Any]] = [{"git": ["merge", "-s", "ours", "release"]}]
    revert: list[dict[str, Any]] = [*FIX, {"commit": "fix"}, *hide]
    task_id = reviewed(s, repo, revert, target_branch="release")
    with s.working():
        s.rests("ready")
        assert "changes that were not reviewed" in refused_with(s, task_id)
    assert git(repo, "rev-parse", "release") == before


def test_after_a_failed_action_the_agent_gets_the_rejection_alone(s: Scene, repo: Path) -> None:
    task_id = reviewed(s, repo, FIX, [{"say": "again"}])
    with s.working():
        s.rests("ready")
        (repo / "b").write_text("mine\n")
        refused_with(s, task_id)
        s.do(c.RejectTask(task_id, "use another way", run=True))
        s.rests("ready", rounds=1)
    assert s.prompts()[-1].startswith("use another way")
    assert "failed" not in s.prompts()[-1]


def test_the_second_of_two_reviewers_learns_who_was_first(s: Scene, repo: Path) -> None:
    task_id = reviewed(s, repo)
    with s.working():
        s.rests("ready")
    accept(s, task_id)
    for other in (c.AcceptTask(task_id), c.RejectTask(task_id, "no")):
        with pytest.raises(Refused) as refused:
            s.core.engine.do(other, c.Actor("person:bob"))
        assert refused.value.code == "already_accepted"
        assert "accepted by person:alice, and its action (merge)" in str(refused.value)
    (accepting, *_) = s.why()
    assert (accepting["reason"], accepting["detail"]) == (
        "accepting",
        {"action": "merge", "by": "person:alice"},
    )
    with s.working():
        s.rests("completed")
    assert len(merges(repo)) == 1


def test_an_agent_cannot_accept_its_own_work(s: Scene, repo: Path) -> None:
    task_id = reviewed(s, repo)
    with s.working():
        s.rests("ready")
    with pytest.raises(Forbidden):
        s.core.engine.do(c.AcceptTask(task_id), c.Actor(f"run:{task_id}-j1-r1@{task_id}"))
    assert s.task().state == "ready"


def test_a_cancel_before_the_merge_leaves_the_target_alone(s: Scene, repo: Path) -> None:
    task_id = reviewed(s, repo)
    with s.working():
        s.rests("ready")
    accept(s, task_id)
    assert s.do(c.CancelTask(task_id)) == "cancelled"
    assert s.task().state == "cancelled"
    assert merges(repo) == []


# ---- waiting for the repository --------------------------------------------------------------


def test_a_run_that_must_stop_does_not_wait_for_the_repository(s: Scene, repo: Path) -> None:
    task_id = reviewed(s, repo)
    with s.working():
        s.rests("ready")
        locks = s.core.settings.data_dir / "locks"
        locks.mkdir(exist_ok=True)
        name = hashlib.sha256(str(repo).encode()).hexdigest()[:32]
        with (locks / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            accept(s, task_id)
            until(lambda: s.task().state == "running", "the acceptance runs")
            s.do(c.CancelTask(task_id))
            s.rests("cancelled")
    assert merges(repo) == []


# ---- options ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"on_accept": "merge"}, "intent fix.on_accept"),
        ({"on_accept": "rebase", "workspace": "worktree"}, "intent fix: on_accept"),
        ({"target_branch": "--force"}, "intent fix: target_branch"),
        ({"target_branch": "a..b"}, "intent fix: target_branch"),
        ({"push_remote": "ext::sh -c x"}, "intent fix: push_remote"),
        ({"push_remote": "/srv/other.git"}, "intent fix: push_remote"),
    ],
)
def test_bad_options_are_refused(s: Scene, options: dict[str, Any], field: str) -> None:
    s.script([])
    with pytest.raises(Invalid) as refused:
        s.intent(**options)
    assert refused.value.field == field
