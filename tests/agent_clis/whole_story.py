"""A task from submission to merge: a question, a rejection, a second provider, and SIGKILL."""

from collections.abc import Iterator
from pathlib import Path

from tests.agent_clis.case_run import AFTER, BUG, FILE, CaseRun
from tests.agents.repository import git
from verification.model_apis.model_script import Refuse, Say, Stall, Step

QUESTION, ANSWER = "Which branch?", "next"
REVIEW = ("Two things.", "One is not enough.", "Two is too much.")
FINISHED = "Both comments are done."
#: Longer than the rest of the story takes.
RESET_S = 240


def whole_story(case: CaseRun) -> None:
    """The agent asks, is rejected with two comments, changes its provider, and is merged."""
    _begin(case, killed=False)
    _answer(case)
    _reject(case)
    _finish(case, runs=4)


def killed_story(case: CaseRun) -> None:
    """The same; all processes are killed in mid-turn, at the question and before the verdict."""
    _begin(case, killed=True)
    case.kill_in_turn()
    case.detent.start()
    case.rests("blocked")
    _kill_at_rest(case)
    _answer(case)
    _reject(case)
    case.kill_in_turn()
    case.detent.start()
    case.wait_for_runs(6)
    case.rests("ready")
    _kill_at_rest(case)
    _finish(case, runs=6)


def _kill_at_rest(case: CaseRun) -> None:
    case.kill()
    case.detent.start()


def _begin(case: CaseRun, *, killed: bool) -> None:
    case.start(
        lambda work: _steps(case, work, killed=killed), intent='on_accept = "merge"', providers=True
    )


def _steps(case: CaseRun, work: Path, *, killed: bool) -> Iterator[Step]:
    first, second = case.accounts["first"], case.accounts["second"]
    cli, resumed = case.cli, case.resumed
    yield Step(cli.write(work / "notes.txt", "begun"), sees=(BUG,), account=first)
    asked, *more = cli.ask(QUESTION, [ANSWER, "main"])
    if killed:
        yield Step(Stall(), account=first)
        yield resumed(asked, "was interrupted", account=first)
    else:
        yield Step(asked, account=first)
    for each in more:
        yield Step(each, account=first)
    yield Step(Say("I have asked."), account=first)
    draft = cli.write(work / FILE, "one = 1\ntwo = 2\n")
    yield resumed(draft, f"The answer: {ANSWER}", account=first)
    yield Step(Say("First version."), account=first)
    yield resumed(cli.write(work / "one.txt", "enough"), *REVIEW, account=first)
    yield Step(Refuse(429, reset_in_s=RESET_S), account=first)
    # The second provider gets the whole session, or the comments again in a new one.
    if killed:
        yield resumed(Stall(), *REVIEW, account=second)
        yield resumed(cli.write(work / FILE, AFTER), *REVIEW, "was interrupted", account=second)
    else:
        yield resumed(cli.write(work / FILE, AFTER), *REVIEW, account=second)
    yield Step(Say(FINISHED), account=second)


def _answer(case: CaseRun) -> None:
    task = case.rests("blocked")
    assert (task["blocked_by"], task["blocked_detail"]["text"]) == ("question", QUESTION)
    before = len(case.runs())
    case.answer(ANSWER)
    case.wait_for_runs(before + 1)
    case.rests("ready")


def _reject(case: CaseRun) -> None:
    before = len(case.runs())
    case.request_changes(*REVIEW)
    case.wait_for_runs(before + 2)


def _changed_provider_once(case: CaseRun) -> None:
    events = case.detent.get(f"/api/tasks/{case.task_id}/events")["events"]
    used = [each["data"]["resource"] for each in events if each["name"] == "run_queued"]
    assert used == sorted(used), used
    assert set(used) == {"first", "second"}


def _finish(case: CaseRun, runs: int) -> None:
    """The second provider has finished the work, in one session; accepting it merges it."""
    case.rests("ready")
    assert case.script.is_over
    assert len(case.runs()) == runs
    assert "rate_limit" in [kind for kind, _ in case.errors()]
    if case.cli.resume_problem is None:
        assert len({each["session_id"] for each in case.runs()}) == 1
    _changed_provider_once(case)
    assert case.detent.run("accept", case.task_id).returncode == 0
    case.detent.wait_for(case.task_id, "completed")
    assert f"Detent-Task: {case.task_id}" in git(case.repo, "log", "-1", "--format=%B", "main")
    assert (case.repo / FILE).read_text() == AFTER
    assert (case.repo / "one.txt").read_text() in ("enough", "enough\n")
