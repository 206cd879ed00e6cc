"""Sessions: questions, rejections, time-outs and lost sessions, and the prompts of the agent."""

import dataclasses
import shutil
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from detent.kernel import commands as c
from detent.worker.workspaces import Workspaces
from tests.agents.scene import Scene, scene
from tests.worker.waiting import DEADLINE_S, let_pass, until

QUESTION = {"text": "Which branch?", "options": ["main", "next"]}


def test_an_answer_goes_on_in_the_same_session_and_directory(s: Scene) -> None:
    s.script(
        [{"write": {"note.txt": "kept"}}, {"cost": 0.2}, {"ask": QUESTION}],
        [{"cost": 0.1}, {"finish": {"result": "on main"}}],
    )
    task_id = s.submit()
    with s.working() as worker:
        task = s.rests("blocked")
        assert task.blocked_by == "question"
        assert task.blocked_detail["text"] == "Which branch?"
        assert task.blocked_detail["options"] == ["main", "next"]
        until(lambda: not len(worker.held_jobs), "the place was free")
        s.do(c.AnswerTask(task_id, "main"))
        s.rests("ready")
    [session] = s.sessions()
    assert session["prompts"][1] == "You asked: Which branch?\nThe answer: main"
    assert (s.work() / "note.txt").read_text() == "kept"
    # The agent's total is that of the session: each run is charged what it added.
    assert [run["cost"] for run in s.runs()] == [200_000, 100_000]
    assert s.task().spent == 300_000
    assert s.evidence() == {"question.json": "artifact"}


def test_a_question_expires_into_its_default(s: Scene) -> None:
    question = {**QUESTION, "default": "next", "expires_in_s": 0.05}
    s.script([{"ask": question}], [{"finish": {"result": "fine"}}])
    s.submit()
    with s.working():
        s.rests("ready")
    assert s.prompts()[1] == "You asked: Which branch?\nThe answer: next"


def test_a_question_that_expires_without_a_default_says_so(s: Scene) -> None:
    s.script([{"ask": {"text": "Well?", "expires_in_s": 0.05}}], [])
    s.submit()
    with s.working():
        s.rests("ready")
    assert s.prompts()[1].startswith("Your question was not answered in time: Well?")


@pytest.mark.parametrize(
    ("left", "summary"),
    [
        ({"text": "All of it is fixed."}, "All of it is fixed."),
        ("Fixed, without JSON.", "Fixed, without JSON."),
        ('"a JSON text"', "a JSON text"),
    ],
)
def test_a_file_that_asks_nothing_is_a_summary(s: Scene, left: Any, summary: str) -> None:
    s.script([{"ask": left}])
    s.submit()
    with s.working():
        s.rests("ready")
    assert s.result()["summary"] == summary


@pytest.mark.parametrize(
    "left",
    ["Shall I, without JSON?", {"text": "\u597d\u5417\uff1f"}, {"text": "x", "options": [1]}],
)
def test_a_mark_or_options_make_a_question(s: Scene, left: Any) -> None:
    s.script([{"ask": left}])
    s.submit()
    with s.working():
        assert s.rests("blocked").blocked_by == "question"


def test_an_agent_may_allow_own_words(s: Scene) -> None:
    s.script([{"ask": {**QUESTION, "other": True}}], [{"finish": {"result": "fine"}}])
    task_id = s.submit()
    with s.working():
        assert s.rests("blocked").blocked_detail["other"] is True
        s.do(c.AnswerTask(task_id, "neither"))
        s.rests("ready")
    assert s.prompts()[1].endswith("The answer: neither")


BAD = {
    "symlink": "cannot be opened",
    "hardlink": "hard link",
    "fifo": "not a plain file",
    "directory": "not a plain file",
    "large": "over 1,048,576 bytes",
}


@pytest.mark.parametrize("how", BAD)
def test_a_question_file_that_is_none_is_asked_about(s: Scene, how: str) -> None:
    s.script([{"ask_badly": how}], [{"finish": {"result": "fine"}}])
    task_id = s.submit()
    with s.working():
        task = s.rests("blocked")
        assert task.blocked_by == "question"
        assert BAD[how] in task.blocked_detail["text"]
        assert "really?" not in task.blocked_detail["text"]
        s.do(c.AnswerTask(task_id, "write it as a plain file"))
        s.rests("ready")
    assert "write it as a plain file" in s.prompts()[1]
    assert len(s.sessions()) == 1


@pytest.mark.parametrize("left", ['{"options": ["a"]}', "[1, 2]", '{"text": 3}', "17"])
def test_a_question_without_text_is_asked_about_and_kept(s: Scene, left: str) -> None:
    s.script([{"ask": left}])
    s.submit()
    with s.working():
        task = s.rests("blocked")
    assert "has no text" in task.blocked_detail["text"]
    kept = s.core.settings.data_dir / "runs" / s.run()["id"] / "evidence" / "question.json"
    assert kept.read_text() == left


def test_the_prompt_begins_with_the_rejection(s: Scene) -> None:
    s.script([{"cost": 0.2}], [{"cost": 0.3}])
    task_id = s.submit()
    with s.working():
        s.rests("ready")
        s.do(c.RejectTask(task_id, "-- Not like this: use a table.", run=True))
        s.rests("ready", rounds=1)
    [session] = s.sessions()
    # A space keeps it from being read as an option.
    assert session["prompts"][1].startswith(" -- Not like this: use a table.\n")
    assert [run["cost"] for run in s.runs()] == [200_000, 300_000]
    assert [run["job_id"][-2:] for run in s.runs()] == ["j1", "j2"]


def test_a_timed_out_task_is_resumed_or_started_again(s: Scene) -> None:
    s.script([{"cost": 0.1}, {"hang": 600}], [{"hang": 600}], [{"say": "done"}])
    s.intent(timeout_s=3_600)
    task_id = s.submit()
    with s.working() as worker:
        until(lambda: s.sessions() and s.task().spent, "the agent works")
        let_pass(worker, 3_600)
        s.rests("timed_out")
        s.do(c.ResumeTask(task_id))
        until(lambda: len(s.prompts()) == 2, "the agent goes on")
        let_pass(worker, 3_600)
        until(lambda: len(s.runs()) == 2 and s.task().state == "timed_out", "it timed out again")
        s.do(c.RetryTask(task_id))
        s.rests("ready")
    first, second = s.sessions()
    assert first["prompts"][1] == (
        "Your previous execution timed out. Please continue where you left off."
    )
    assert second["prompts"][0].startswith("Fix this:")
    assert "timed out" not in second["prompts"][0]


def test_a_session_that_the_agent_does_not_know_is_started_again_once(s: Scene) -> None:
    s.script([{"ask": QUESTION}], [{"cost": 0.1}, {"finish": {"result": "fine"}}])
    task_id = s.submit()
    with s.working():
        s.rests("blocked")
        [lost] = s.sessions()
        shutil.rmtree(s.core.settings.data_dir / "agents" / "stand-in" / "projects")
        s.do(c.AnswerTask(task_id, "main"))
        s.rests("ready")
    [new] = s.sessions()
    assert s.task().session_id == new["id"] != lost["id"]
    assert "The answer: main" in new["prompts"][0]
    assert new["prompts"][0].startswith("Fix this:")
    assert any(f"the session {lost['id']} cannot be continued" in note for note in s.notes())
    assert s.names().count("session_opened") == 2
    assert s.run()["cost"] == 100_000


@pytest.mark.parametrize(("ids", "state"), [("XXY", "ready"), ("XXXX", "failed")])
def test_a_session_id_that_is_taken_is_replaced_once(
    s: Scene, monkeypatch: pytest.MonkeyPatch, ids: str, state: str
) -> None:
    chosen = iter(ids)
    monkeypatch.setattr(uuid, "uuid4", lambda: next(chosen))
    s.script([{"exit": 3}], [])
    task_id = s.submit()
    with s.working():
        s.rests("failed")
        s.do(c.RetryTask(task_id))
        until(lambda: len(s.runs()) == 2, "it ran again")
        s.rests(state)
    assert len([note for note in s.notes() if "could not be started" in note]) == 1
    assert s.task().session_id == ids[2]
    assert ("already in use" in (s.run()["error"] or "")) == (state == "failed")


SWAPPING = """
import os, pathlib, sys
if not os.path.exists("again"):
    pathlib.Path("again").touch()
    prompt = pathlib.Path(os.environ["DETENT_RUN_DIR"], "prompt.md")
    prompt.unlink()
    prompt.symlink_to(sys.argv[1])
    sys.exit("the session id is already in use")
"""


def test_a_prompt_is_not_written_through_a_link(s: Scene, tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.write_text("untouched")
    argv = [sys.executable, "-c", SWAPPING, str(theirs), "{prompt}"]
    s.script(argv=argv, success="exit")
    s.submit()
    with s.working():
        s.rests("ready")
    assert any("could not be started" in note for note in s.notes())
    assert theirs.read_text() == "untouched"


def test_a_session_on_another_machine_is_left_behind_with_its_history(s: Scene) -> None:
    s.script([{"ask": QUESTION}], [])
    task_id = s.submit()
    with s.working():
        s.rests("blocked")
        Workspaces(s.core.settings.data_dir).forget(task_id)
        s.do(c.AnswerTask(task_id, "next"))
    with scene_without_grace(s):
        s.rests("ready")
    assert "The answer: next" in s.prompts()[0]
    assert any("is not on this machine" in note for note in s.notes())


def scene_without_grace(s: Scene) -> Any:
    """The same installation for a worker that does not wait for a session's worker."""
    s.core.settings = dataclasses.replace(s.core.settings, worker_session_grace_ms=0)
    return s.working()


@pytest.fixture(params=["sqlite", "postgres"])
def shared(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Scene]:
    """A scene on each kind of store."""
    url = "" if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    with scene(tmp_path, url=url) as made:
        yield made


def test_work_is_left_to_the_worker_that_holds_its_session(shared: Scene, tmp_path: Path) -> None:
    s = shared
    s.script([{"ask": QUESTION}], [{"finish": {"result": "fine"}}])
    task_id = s.submit()
    with s.working(name="holder"):
        s.rests("blocked")
    s.do(c.AnswerTask(task_id, "main"))
    with scene(tmp_path / "elsewhere") as other:
        # Another data directory on the same store: a worker of another machine.
        settings = other.core.settings
        other.core.store, other.core.engine = s.core.store, s.core.engine
        stranger = Scene(other.core, tmp_path)
        stranger.agent, stranger.app.agents = s.agent, s.app.agents
        stranger.intent()
        assert settings.worker_session_grace_ms == 10_000
        with stranger.working(name="stranger") as worker:
            until(lambda: worker.claimer._empty_claims > 0, "it has looked and left it alone")
            assert s.task().state == "queued"
            with s.working(name="holder"):
                s.rests("ready")
        s.app.bind(s.core)
    assert [run["worker"] for run in s.runs()] == ["holder", "holder"]


def test_a_job_alone_has_a_session_too(s: Scene) -> None:
    s.script([{"cost": 0.2}, {"ask": QUESTION}], [{"cost": 0.1}, {"finish": {"result": "fine"}}])
    handle = s.submit_job()
    with s.working():
        until(lambda: s.runs() and s.run()["state"] == "succeeded", "it asked")
        s.do(c.AnswerJob(handle.job_id, "main"))
        assert handle.result(timeout=DEADLINE_S)["text"] == "fine"
    assert len(s.sessions()) == 1
    assert [run["cost"] for run in s.runs()] == [200_000, 100_000]


def test_a_failed_attempt_on_the_board_goes_on_where_it_was(s: Scene) -> None:
    s.script([{"stderr": "oops"}, {"exit": 3}], [])
    s.intent(retry={"delay_ms": 0})
    s.submit(lifecycle="board")
    with s.working():
        until(lambda: s.task().state == "done", "it was done")
    assert s.prompts()[1].startswith("Your previous execution failed: the agent stand-in")


def test_steps_of_a_plan_have_sessions_of_their_own_in_one_directory(s: Scene) -> None:
    s.script(
        [{"write": {"a.txt": "a"}}, {"ask": QUESTION}],
        [{"finish": {"result": "first"}}],
        [{"look": ["a.txt"]}, {"finish": {"result": "second"}}],
    )
    s.intent()
    steps: list[dict[str, Any]] = [
        {"name": "one", "intent": "fix"},
        {"name": "two", "intent": "fix", "needs": ["one"]},
    ]
    s.app.plan("both", steps)
    task_id = s.submit(intent="both")
    with s.working():
        s.rests("blocked")
        s.do(c.AnswerTask(task_id, "next"))
        s.rests("ready")
    first, second = s.sessions()
    assert first["prompts"][1] == "You asked: Which branch?\nThe answer: next"
    assert len(second["prompts"]) == 1
    assert '"a.txt": true' in s.output()
    assert {name: each["text"] for name, each in s.result().items()} == {
        "one": "first",
        "two": "second",
    }
    assert s.task().session_id is None
