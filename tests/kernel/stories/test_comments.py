"""Comments on a diff: added, replied to, resolved, reopened; changes requested with them."""

from typing import Any

import pytest

from detent.errors import Forbidden, Invalid, NotFound, Refused
from detent.kernel import commands as c
from detent.kernel import events as e
from detent.kernel.commands import review_commands as rc
from detent.kernel.decide import comments
from detent.kernel.world import COMMENTS
from tests.kernel.stories.test_review import ready
from tests.kernel.stories.world import PERSON, Story

DIFF = "d" * 64
ANN, BEN = c.Actor("person:ann"), c.Actor("person:ben")
#: The run that works on the task, by the root id and by the name.
RUN = c.Actor(c.run_subject("T-j1-r1", "T"), root_id="T")


def comment(name: str = "c1", text: str = "Use less salt.", **fields: Any) -> rc.NewComment:
    lines = ("soup.py", "after", 3, 4, ("salt = 9", "pepper = 1"))
    return rc.NewComment(name, DIFF, "T-j1-r1", *lines, text)._replace(**fields)


def added(s: Story, *new: rc.NewComment) -> list[str]:
    s.do(rc.AddComments("T", new), ANN)
    answer: list[str] = s.answer
    return answer


def kinds(s: Story) -> list[type[e.Event]]:
    return [type(record.event) for record in s.last]


def known(s: Story) -> dict[str, tuple[bool, int]]:
    parts = s.world.parts_of(COMMENTS, "T")
    return {name: (each.open, len(each.replies)) for name, each in parts.items()}


# ---- adding ----------------------------------------------------------------------------------


def test_a_comment_is_a_fact_that_changes_no_state() -> None:
    s = ready()
    before = s.task()
    assert added(s, comment()) == ["c1"]
    (record,) = s.last
    assert record.actor == "person:ann"
    assert record.event == e.CommentAdded(
        "c1", DIFF, "T-j1-r1", "soup.py", "after", 3, 4, ("salt = 9", "pepper = 1"),
        "Use less salt.", 0,
    )  # fmt: skip
    assert s.task() == before
    assert known(s) == {"c1": (True, 0)}


def test_a_published_comment_is_not_published_again() -> None:
    s = ready()
    added(s, comment())
    assert added(s, comment(), comment("c2")) == ["c2"]
    assert kinds(s) == [e.CommentAdded]


def test_the_id_of_another_author_is_refused() -> None:
    s = ready()
    added(s, comment())
    assert s.refused(rc.AddComments("T", (comment(),)), actor=BEN).code == "comment_exists"


def test_all_comments_are_added_or_none() -> None:
    s = ready()
    wrong = comment("c2", text=" ")
    assert isinstance(s.refused(rc.AddComments("T", (comment(), wrong)), actor=ANN), Invalid)
    assert known(s) == {}


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"text": ""}, "text"),
        ({"text": "x" * (comments.LONGEST_TEXT + 1)}, "text"),
        ({"side": "left"}, "side"),
        ({"start": 0}, "start"),
        ({"start": 5}, "start"),
        ({"start": -1, "end": -1}, "start"),
    ],
)
def test_a_comment_that_is_not_valid_is_refused(fields: dict[str, Any], field: str) -> None:
    s = ready()
    refusal = s.refused(rc.AddComments("T", (comment(**fields),)), actor=ANN)
    assert isinstance(refusal, Invalid)
    assert refusal.field == field
    assert refusal.allowed


def test_a_comment_on_a_whole_file_has_no_lines() -> None:
    s = ready()
    assert added(s, comment(start=0, end=0, quoted=())) == ["c1"]


def test_the_number_of_comments_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comments, "MAX_COMMENTS", 2)
    s = ready()
    added(s, comment("c1"), comment("c2"))
    refusal = s.refused(rc.AddComments("T", (comment("c3"),)), actor=ANN)
    assert refusal.code == "too_many_comments"
    assert added(s, comment("c1")) == []


def test_a_run_does_not_comment_on_its_own_work() -> None:
    s = ready()
    refusal = s.refused(rc.AddComments("T", (comment(),)), actor=RUN)
    assert isinstance(refusal, Forbidden)
    assert refusal.code == "own_work"


def test_a_task_that_does_not_exist_has_no_comments() -> None:
    s = ready()
    assert s.refused(rc.AddComments("X", (comment(),)), actor=ANN).code == "unknown_task"


# ---- replies and resolving -------------------------------------------------------------------


def test_people_and_the_run_reply() -> None:
    s = ready()
    added(s, comment())
    s.do(rc.AddComments("T", replies=(rc.NewReply("c1", "r1", "Why?"),)), BEN)
    reply = rc.NewReply("c1", "r2", "Done.")
    s.do(rc.AddComments("T", replies=(reply,), run_id="T-j1-r1"), RUN)
    assert s.last[0].event == e.CommentReplied("c1", "r2", "Done.", "T-j1-r1")
    assert known(s) == {"c1": (True, 2)}
    s.do(rc.AddComments("T", replies=(reply,), run_id="T-j1-r1"), RUN)
    assert (s.answer, s.last) == ([], [])


def test_a_reply_to_an_unknown_comment_is_refused() -> None:
    s = ready()
    refusal = s.refused(rc.AddComments("T", replies=(rc.NewReply("c9", "r1", "?"),)), actor=ANN)
    assert isinstance(refusal, NotFound)
    assert refusal.code == "unknown_comment"


def test_the_number_of_replies_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comments, "MAX_REPLIES", 1)
    s = ready()
    added(s, comment())
    s.do(rc.AddComments("T", replies=(rc.NewReply("c1", "r1", "one"),)), ANN)
    more = rc.AddComments("T", replies=(rc.NewReply("c1", "r2", "two"),))
    assert s.refused(more, actor=ANN).code == "too_many_comments"


def test_a_comment_is_resolved_and_reopened_by_people() -> None:
    s = ready()
    added(s, comment())
    for command in (rc.ResolveComment("T", "c1"), rc.ReopenComment("T", "c1")):
        assert s.refused(command, actor=RUN).code == "own_work"
    s.do(rc.ResolveComment("T", "c1"), BEN)
    assert (s.answer, known(s)) == ("resolved", {"c1": (False, 0)})
    s.do(rc.ResolveComment("T", "c1"), ANN)
    assert (s.answer, s.last) == ("repeated", [])
    s.do(rc.ReopenComment("T", "c1"), BEN)
    assert (s.answer, known(s)) == ("reopened", {"c1": (True, 0)})
    s.do(rc.ReopenComment("T", "c1"), BEN)
    assert (s.answer, s.last) == ("repeated", [])
    assert s.refused(rc.ResolveComment("T", "c2"), actor=BEN).code == "unknown_comment"


# ---- another round ---------------------------------------------------------------------------


def test_changes_are_requested_with_the_comments() -> None:
    s = ready()
    command = rc.RequestChanges("T", None, (comment(),))
    assert s.do(command, ANN) == "task_rejected(1) task_queued j2:job_created"
    assert kinds(s) == [e.CommentAdded, e.TaskRejected, e.TaskQueued, e.JobCreated]
    assert (s.answer, s.task().rounds) == ("queued", 1)


def test_a_request_without_anything_to_change_is_refused() -> None:
    s = ready()
    added(s, comment())
    s.do(rc.ResolveComment("T", "c1"), ANN)
    assert s.refused(rc.RequestChanges("T", "  "), actor=ANN).code == "nothing_requested"
    s.do(rc.ReopenComment("T", "c1"), ANN)
    assert s.do(rc.RequestChanges("T"), ANN).startswith("task_rejected(1)")


def test_a_second_reviewer_is_refused_and_nothing_is_stored() -> None:
    s = ready()
    s.do(rc.RequestChanges("T", "more salt"), ANN)
    refusal = s.refused(rc.RequestChanges("T", "less salt", (comment(),)), actor=BEN)
    assert isinstance(refusal, Refused)
    assert refusal.code == "illegal_transition"
    assert known(s) == {}


def test_the_rounds_are_limited_and_nothing_is_stored_over_the_limit() -> None:
    s = ready(options={"max_rounds": 1})
    s.do(rc.RequestChanges("T", "again"), ANN)
    s.claim()
    s.succeed()
    refusal = s.refused(rc.RequestChanges("T", None, (comment(),)), actor=ANN)
    assert refusal.code == "rounds_used"
    assert (known(s), s.task().state) == ({}, "ready")


def test_a_run_does_not_request_changes_to_its_own_work() -> None:
    s = ready()
    assert s.refused(rc.RequestChanges("T", "again"), actor=RUN).code == "own_work"


# ---- the diff of a verdict -------------------------------------------------------------------


def reviewed(s: Story) -> rc.ReviewedDiff:
    job_id = s.task().job_id or ""
    return rc.ReviewedDiff(DIFF, job_id, s.world.versions[job_id])


def test_a_verdict_names_the_diff_that_it_is_about() -> None:
    s = ready()
    seen = reviewed(s)
    added(s, comment())
    s.do(c.AcceptTask("T", "good", diff=seen), PERSON)
    assert s.last[0].event == e.TaskAccepted("good", DIFF)


@pytest.mark.parametrize(
    "verdict",
    [
        lambda seen: c.AcceptTask("T", diff=seen),
        lambda seen: c.RejectTask("T", "no", diff=seen),
        lambda seen: c.SendEvent("T", "task_accepted", diff=seen),
        lambda seen: rc.RequestChanges("T", "no", diff=seen),
    ],
)
def test_a_verdict_on_a_diff_that_may_have_changed_is_refused(verdict: object) -> None:
    s = ready()
    seen = reviewed(s)
    s.do(c.RejectTask("T", "again", run=True))
    s.claim()
    s.succeed()
    assert callable(verdict)
    refusal = s.refused(verdict(seen))
    assert (refusal.code, refusal.details["reviewed"]) == ("diff_changed", DIFF)
