"""A review in rounds with a real worker and the stand-in agent: comments, replies, acceptance."""

import json
from pathlib import Path
from typing import Any

import pytest

from detent.operations.registry import Caller, Scope, call
from tests.agents.scene import Scene
from tests.agents.test_workspaces import git

ANN = Caller("person:ann", frozenset({Scope.READ, Scope.REVIEW}))
LINES = ["def total(items):", "    result = 0", "    for item in items:", "        result += item"]
FIRST = "\n".join([*LINES, "    return result", ""])
SECOND = "\n".join(['"""Sums."""', "", *LINES, "    return result", ""])


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    made = tmp_path / "repos" / "app"
    made.mkdir(parents=True)
    git(made, "init", "--quiet", "--initial-branch", "main")
    (made / "README.md").write_text("sums\n")
    git(made, "add", "--all")
    git(made, "commit", "--quiet", "--message", "first")
    return made


class Review:
    """The review of the scene's task by a person."""

    def __init__(self, scene: Scene, task_id: str) -> None:
        self.scene, self.task_id = scene, task_id

    def call(self, name: str, **given: Any) -> Any:
        return call(name, self.scene.core, ANN, task_id=self.task_id, **given)

    def listed(self) -> Any:
        return self.call("task_comments")

    def comment(self, line: int, text: str) -> str:
        where = {"file": "sums.py", "side": "after", "start": line, "end": line}
        diff = self.listed()["diff"]
        made = self.call("add_comment", diff=diff, text=text, **where)
        return str(made["comment_id"])


def started(s: Scene, repo: Path, *rounds: list[dict[str, Any]]) -> Review:
    s.script(*rounds, repos=[str(repo.parent)])
    s.intent(workspace="worktree")
    return Review(s, s.submit({"repo": str(repo)}))


def test_three_comments_are_answered_in_the_next_round(s: Scene, repo: Path) -> None:
    review = started(
        s,
        repo,
        [{"write": {"sums.py": FIRST}}],
        [{"write": {"sums.py": SECOND}}, {"reply": "Done."}],
    )
    with s.working():
        s.rests("ready")
        ids = [review.comment(line, f"About line {line}.") for line in (1, 2, 5)]
        call(
            "reply_to_comment", s.core, ANN,
            task_id=review.task_id, comment_id=ids[1], text="And why not sum()?",
        )  # fmt: skip
        first = review.listed()["diff"]
        moved = review.call("request_changes", diff=first, comment="Three things.")
        assert moved["state"] in ("queued", "running", "ready")
        s.rests("ready", rounds=1)

        found = review.listed()
        assert [each["id"] for each in found["comments"]] == ids
        assert [each["place"]["start"] for each in found["comments"]] == [3, 4, 7]
        replies = [each["replies"][-1] for each in found["comments"]]
        run_id = s.run()["id"]
        assert {(each["text"], each["run_id"]) for each in replies} == {("Done.", run_id)}
        assert {each["author"] for each in replies} == {f"run:{run_id}"}
        assert found["diff"] != first
        for each in ids:
            review.call("resolve_comment", comment_id=each)
        review.call("accept_task", diff=found["diff"])
        s.rests("completed", rounds=1)

    [session] = s.sessions()
    _, prompt = session["prompts"]
    assert prompt.startswith("Three things.\n")
    shown = prompt.index("There are 3 open comments on your changes.")
    assert shown < prompt.index(f"Comment 1 (id {ids[0]}): sums.py, line 1, after your changes")
    assert "> def total(items):\nperson:ann: About line 1." in prompt
    assert "person:ann: About line 2.\nReply of person:ann: And why not sum()?" in prompt
    assert "DETENT_REPLIES_FILE" in prompt


def test_resolved_comments_are_not_sent_again(s: Scene, repo: Path) -> None:
    review = started(s, repo, [{"write": {"sums.py": FIRST}}], [{"write": {"sums.py": SECOND}}], [])
    with s.working():
        s.rests("ready")
        one, two = review.comment(1, "One."), review.comment(2, "Two.")
        review.call("request_changes")
        s.rests("ready", rounds=1)
        review.call("resolve_comment", comment_id=one)
        review.call("request_changes")
        s.rests("ready", rounds=2)
    _, both, other = s.prompts()
    assert both.startswith("There are 2 open comments on your changes.")
    assert other.startswith("There is 1 open comment on your changes.")
    assert one not in other
    assert f"(id {two}): sums.py, line 4, after your changes" in other


def test_a_new_session_gets_the_open_comments_first(s: Scene, repo: Path) -> None:
    review = started(s, repo, [{"write": {"sums.py": FIRST}}], [{"reply": "Done."}])
    with s.working():
        s.rests("ready")
        comment_id = review.comment(1, "One.")
        for file in (s.core.settings.data_dir / "workspaces").glob("*/sessions/*"):
            file.unlink()  # the session is not on this machine any more
        review.call("request_changes")
        s.rests("ready", rounds=1)
    last = s.sessions()[-1]["prompts"][0]
    assert last.startswith("There is 1 open comment on your changes.")
    assert "Fix this:" in last
    (shown,) = review.listed()["comments"]
    assert (shown["id"], len(shown["replies"])) == (comment_id, 1)


BAD_LINES = [
    "no json",
    json.dumps(["a list"]),
    json.dumps({"comment": "unknown", "text": "to nothing"}),
    json.dumps({"comment": 1, "text": "x"}),
    json.dumps({"text": "no comment"}),
    json.dumps({"comment": "x", "text": " "}),
]


def test_a_bad_replies_file_is_noted_and_the_run_succeeds(s: Scene, repo: Path) -> None:
    review = started(s, repo, [{"write": {"sums.py": FIRST}}], [{"reply_lines": BAD_LINES}])
    with s.working():
        s.rests("ready")
        review.comment(1, "One.")
        review.call("request_changes")
        s.rests("ready", rounds=1)
    notes = "\n".join(filter(None, s.notes()))
    for number in (1, 2, 4, 5, 6):
        assert f"line {number} of replies.jsonl is not" in notes
    assert "the reply to comment unknown was not recorded" in notes
    assert review.listed()["comments"][0]["replies"] == []
