"""Comments on a diff through the operations: lines, drafts, requested changes, verdicts."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from detent.errors import DetentError, Forbidden, Invalid
from detent.keeper import retention_sweep
from detent.kernel import commands as c
from detent.kernel.commands import lifecycle_commands
from detent.kernel.decide import comments
from detent.operations import review_draft_rows, reviewed_diff
from detent.testing.conformance.lifecycles import document
from tests.operations.commented_task import (
    ANN,
    BEN,
    BINARY,
    FIRST,
    READER,
    SECOND,
    CommentedTask,
    lines,
)
from tests.operations.installation import OURS, OWNER, LocalInstallation, local_installation


@pytest.fixture
def here(tmp_path: Path) -> Iterator[LocalInstallation]:
    with local_installation(tmp_path) as made:
        yield made


@pytest.fixture
def task(here: LocalInstallation) -> CommentedTask:
    return CommentedTask(here)


def error_of(task: CommentedTask, name: str, caller: Any = ANN, **arguments: Any) -> DetentError:
    """The error of a request that must not change the log or the drafts."""
    before = (task.here.rows("review_drafts"), task.events())
    with pytest.raises(DetentError) as caught:
        task.call(name, caller, **arguments)
    assert (task.here.rows("review_drafts"), task.events()) == before
    return caught.value


# ---- comments --------------------------------------------------------------------------------


def test_a_comment_keeps_its_lines_and_moves_with_them(task: CommentedTask) -> None:
    first = task.round()
    comment_id = task.comment(first)
    outdated_id = task.comment(first, start=3, end=3, text="Needed?")
    whole_id = task.comment(first, start=0, end=0, text="The whole file.")
    found = task.listed()
    assert found["diff"] == first
    shown = found["comments"][0]
    assert (shown["id"], shown["author"], shown["state"]) == (comment_id, "person:ann", "open")
    assert shown["anchor"] == {
        "diff": first, "file": "app.py", "side": "after", "start": 2, "end": 2,
        "quoted": ["b = 3"],
    }  # fmt: skip
    assert shown["place"] == {"file": "app.py", "side": "after", "start": 2, "end": 2}

    task.call("request_changes", diff=first)
    second = task.round(SECOND)
    assert second != first
    places = {each["id"]: each["place"] for each in task.listed()["comments"]}
    assert places[comment_id] == {"file": "app.py", "side": "after", "start": 3, "end": 3}
    assert places[outdated_id] is None
    assert places[whole_id] == {"file": "app.py", "side": "after", "start": 0, "end": 0}
    earlier = {each["id"]: each["place"] for each in task.listed(diff=first)["comments"]}
    assert earlier[outdated_id]["start"] == 3


def test_a_thread_is_resolved_and_reopened(task: CommentedTask) -> None:
    comment_id = task.comment(task.round())
    made = task.call("reply_to_comment", BEN, comment_id=comment_id, text="I agree.")
    assert made["outcome"] == "replied"
    assert task.call("resolve_comment", BEN, comment_id=comment_id)["outcome"] == "resolved"
    assert task.call("resolve_comment", ANN, comment_id=comment_id)["outcome"] == "repeated"
    (shown,) = task.listed()["comments"]
    assert shown["state"] == "resolved"
    assert task.call("review")["open_comments"] == 0
    (reply,) = shown["replies"]
    assert (reply["author"], reply["text"], reply["run_id"]) == ("person:ben", "I agree.", None)
    assert task.call("reopen_comment", comment_id=comment_id)["outcome"] == "reopened"
    assert task.listed()["comments"][0]["state"] == "open"
    assert task.call("review")["open_comments"] == 1
    assert error_of(task, "resolve_comment", comment_id="other").code == "unknown_comment"
    assert error_of(task, "reply_to_comment", comment_id="x", text="y").code == "unknown_comment"


BAD_LINES: list[tuple[dict[str, Any], str]] = [
    ({"start": 9, "end": 9}, "start"),
    ({"end": 9}, "end"),
    ({"start": 3, "end": 2}, "end"),
    ({"start": 0}, "start"),
    ({"side": "before", "start": 3, "end": 3}, "start"),
    ({"side": "left"}, "side"),
    ({"file": "none.py"}, "file"),
    ({"file": "logo.png", "start": 1, "end": 1}, "start"),
    ({"text": " "}, "text"),
    ({"text": "x" * (comments.LONGEST_TEXT + 1)}, "text"),
    ({"diff": "0" * 64}, "diff"),
]


@pytest.mark.parametrize(("fields", "field"), BAD_LINES)
@pytest.mark.parametrize("name", ["add_comment", "save_draft"])
def test_lines_that_do_not_exist_are_refused(
    task: CommentedTask, name: str, fields: dict[str, Any], field: str
) -> None:
    diff = task.round(FIRST + BINARY)
    draft = {"draft_id": "d1"} if name == "save_draft" else {}
    error = error_of(task, name, **lines(diff, **fields), **draft)
    assert isinstance(error, Invalid), error
    assert error.field == field
    assert error.allowed, error


def test_a_binary_file_is_commented_on_as_a_whole(task: CommentedTask) -> None:
    diff = task.round(BINARY)
    comment_id = task.comment(diff, file="logo.png", start=0, end=0)
    assert task.listed()["comments"][0]["id"] == comment_id


def test_an_old_diff_is_refused_with_the_difference(task: CommentedTask) -> None:
    first = task.round()
    task.call("request_changes", comment="again")
    second = task.round(SECOND)
    error = error_of(task, "add_comment", **lines(first))
    assert error.code == "diff_changed"
    assert error.details["reviewed"] == first
    assert error.details["current"] == second
    assert error.details["files"] == ["app.py", "other.py"]


def test_a_task_without_a_diff_has_no_lines(task: CommentedTask) -> None:
    task.round(diff=None)
    assert task.listed() == {"diff": None, "comments": [], "drafts": []}
    assert error_of(task, "add_comment", **lines("0" * 64)).code == "no_diff"
    assert task.call("request_changes", comment="Show the changes.")["state"] == "queued"


def test_comments_need_the_scope_review(task: CommentedTask) -> None:
    diff = task.round()
    comment_id = task.comment(diff)
    assert len(task.listed(READER)["comments"]) == 1
    for name, given in [
        ("add_comment", lines(diff)),
        ("reply_to_comment", {"comment_id": comment_id, "text": "x"}),
        ("resolve_comment", {"comment_id": comment_id}),
        ("reopen_comment", {"comment_id": comment_id}),
        ("save_draft", {"draft_id": "d", **lines(diff)}),
        ("delete_draft", {"draft_id": "d"}),
        ("publish_drafts", {}),
        ("request_changes", {"comment": "x"}),
    ]:
        assert isinstance(error_of(task, name, READER, **given), Forbidden), name


def test_another_project_does_not_see_the_comments(task: CommentedTask) -> None:
    comment_id = task.comment(task.round())
    assert error_of(task, "task_comments", OURS).code == "unknown_task"
    given = {"comment_id": comment_id}
    assert error_of(task, "resolve_comment", OURS, **given).code == "unknown_task"


# ---- drafts ----------------------------------------------------------------------------------


def test_drafts_are_private_until_they_are_published(task: CommentedTask) -> None:
    diff = task.round()
    comment_id = task.comment(diff, BEN)
    task.call("save_draft", draft_id="d1", **lines(diff))
    task.call("save_draft", draft_id="d2", text="See below.", reply_to=comment_id)
    task.call("save_draft", draft_id="d1", **lines(diff, text="Why not 2?"))
    assert task.listed(BEN)["drafts"] == []
    one, two = task.listed()["drafts"]
    assert (one["id"], one["text"], one["reply_to"]) == ("d1", "Why not 2?", None)
    assert one["anchor"] == {
        "diff": diff, "file": "app.py", "side": "after", "start": 2, "end": 2
    }  # fmt: skip
    assert one["place"] == {"file": "app.py", "side": "after", "start": 2, "end": 2}
    assert (two["reply_to"], two["anchor"], two["place"]) == (comment_id, None, None)
    assert task.call("publish_drafts")["published"] == ["d1", "d2"]
    found = task.listed(BEN)["comments"]
    assert [each["id"] for each in found] == [comment_id, "d1"]
    assert [each["id"] for each in found[0]["replies"]] == ["d2"]
    assert task.listed()["drafts"] == []
    assert task.call("publish_drafts")["published"] == []


def test_a_draft_that_was_published_but_not_deleted_is_recognised(task: CommentedTask) -> None:
    diff = task.round()
    task.call("save_draft", draft_id="d1", **lines(diff))
    left = task.here.rows("review_drafts")
    task.call("publish_drafts")
    task.here.put("review_drafts", dict(left))  # as if the process had been killed in between
    assert task.listed()["drafts"] == []
    assert task.call("publish_drafts")["published"] == []
    assert task.events().count("comment_added") == 1
    assert task.here.rows("review_drafts") == {}


def test_a_draft_of_an_earlier_round_is_published_for_its_own_diff(task: CommentedTask) -> None:
    first = task.round()
    task.call("save_draft", draft_id="d1", **lines(first))
    task.call("request_changes", BEN, comment="again")
    task.round(SECOND)
    assert task.listed()["drafts"][0]["place"]["start"] == 3
    task.call("save_draft", draft_id="d1", **lines(first, text="Changed."))
    assert task.call("publish_drafts")["published"] == ["d1"]
    (shown,) = task.listed()["comments"]
    assert (shown["anchor"]["diff"], shown["place"]["start"]) == (first, 3)
    assert shown["text"] == "Changed."


def test_a_draft_is_deleted_and_another_author_keeps_theirs(task: CommentedTask) -> None:
    diff = task.round()
    for caller in (ANN, BEN):
        task.call("save_draft", caller, draft_id="d1", **lines(diff))
    assert task.call("delete_draft", draft_id="d1")["outcome"] == "deleted"
    assert task.call("delete_draft", draft_id="d1")["outcome"] == "deleted"
    assert task.listed()["drafts"] == []
    assert len(task.listed(BEN)["drafts"]) == 1


def test_a_draft_needs_lines_or_a_comment(task: CommentedTask) -> None:
    diff = task.round()
    for given, field in [
        ({"text": "x"}, "diff"),
        ({"text": "x", "diff": diff}, "file"),
        ({**lines(diff), "reply_to": "c"}, "reply_to"),
    ]:
        error = error_of(task, "save_draft", draft_id="d1", **given)
        assert isinstance(error, Invalid)
        assert error.field == field
    unknown = error_of(task, "save_draft", draft_id="d1", text="x", reply_to="c")
    assert unknown.code == "unknown_comment"


def test_the_number_of_drafts_is_limited(
    task: CommentedTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("detent.operations.review_drafts.MAX_DRAFTS", 1)
    diff = task.round()
    task.call("save_draft", draft_id="d1", **lines(diff))
    error = error_of(task, "save_draft", draft_id="d2", **lines(diff))
    assert error.code == "too_many_comments"
    task.call("save_draft", draft_id="d1", **lines(diff, text="changed"))
    task.call("save_draft", BEN, draft_id="d2", **lines(diff))


def test_drafts_of_a_deleted_task_are_deleted(task: CommentedTask) -> None:
    diff = task.round()
    other = CommentedTask(task.here)
    other_diff = other.round()
    task.call("save_draft", draft_id="d1", **lines(diff))
    other.call("save_draft", draft_id="d1", **lines(other_diff))
    task.call("accept_task")
    task.call("delete_task", OWNER)
    assert retention_sweep.delete_rows_of_reviewers(task.here.core) == 1
    name = review_draft_rows.row_name(other.id, ANN.name, "d1")
    assert list(task.here.rows("review_drafts")) == [name]


def test_a_published_draft_is_not_saved_again(task: CommentedTask) -> None:
    """A browser may save what was typed last after the drafts were published."""
    diff = task.round()
    task.call("save_draft", draft_id="d1", **lines(diff))
    task.call("publish_drafts")
    assert error_of(task, "save_draft", draft_id="d1", **lines(diff)).code == "comment_exists"


def test_the_id_of_a_reply_of_another_author_is_refused(task: CommentedTask) -> None:
    comment_id = task.comment(task.round(), BEN)
    reply = {"draft_id": "d1", "text": "Yes.", "reply_to": comment_id}
    task.call("save_draft", ANN, **reply)
    task.call("publish_drafts", ANN)
    task.call("save_draft", BEN, **reply)
    assert error_of(task, "publish_drafts", BEN).code == "comment_exists"


# ---- requested changes -----------------------------------------------------------------------


def test_changes_are_requested_with_all_drafts_in_one_transaction(task: CommentedTask) -> None:
    diff = task.round()
    comment_id = task.comment(diff, BEN)
    task.call("save_draft", draft_id="d1", **lines(diff))
    task.call("save_draft", draft_id="d2", text="And this.", reply_to=comment_id)
    moved = task.call("request_changes", diff=diff, comment="Three things.")
    assert moved["state"] == "queued"
    assert task.events()[-4:] == [
        "comment_added", "comment_replied", "task_rejected", "task_queued"
    ]  # fmt: skip
    assert task.here.rows("review_drafts") == {}
    shown, _ = task.here.core.task(ANN, task.id)
    assert (shown.rounds, shown.comment) == (1, "Three things.")


def test_a_refused_request_keeps_the_drafts(task: CommentedTask) -> None:
    diff = task.round()
    task.call("save_draft", draft_id="d1", **lines(diff))
    task.call("request_changes", BEN, comment="Mine came first.")
    error = error_of(task, "request_changes", diff=diff)
    assert error.code == "illegal_transition"
    assert error.hint is not None
    assert "Possible now" in error.hint
    assert len(task.listed()["drafts"]) == 1


def test_nothing_to_change_is_refused(task: CommentedTask) -> None:
    task.round()
    assert error_of(task, "request_changes").code == "nothing_requested"


def test_the_rounds_are_limited(here: LocalInstallation) -> None:
    task = CommentedTask(here, options={"max_rounds": 1})
    task.round()
    task.call("request_changes", comment="again")
    diff = task.round()
    task.call("save_draft", draft_id="d1", **lines(diff))
    assert error_of(task, "request_changes", comment="again").code == "rounds_used"
    assert task.call("accept_task", diff=diff)["state"] == "completed"


def test_an_installed_lifecycle_has_its_own_event_for_another_round(
    here: LocalInstallation,
) -> None:
    here.core.engine.do(lifecycle_commands.InstallLifecycle(document()), ANN.actor)
    task = CommentedTask(here, lifecycle="signed_work")
    diff = task.round()
    comment_id = task.comment(diff)
    assert task.call("request_changes", diff=diff)["state"] == "in_line"
    assert task.events()[-1] == "task_sent_back"
    second = task.round(SECOND)
    assert [each["id"] for each in task.listed()["comments"]] == [comment_id]
    assert error_of(task, "request_changes", comment="again").code == "rounds_used"
    old = error_of(task, "send_event", event="task_signed", diff=diff)
    assert old.code == "diff_changed"
    assert task.call("send_event", event="task_signed", diff=second)["state"] == "signed"


# ---- verdicts --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["accept_task", "reject_task", "request_changes"])
def test_a_verdict_on_an_earlier_diff_is_refused(task: CommentedTask, name: str) -> None:
    first = task.round()
    task.call("request_changes", comment="again")
    second = task.round(SECOND)
    error = error_of(task, name, diff=first, comment="x")
    assert error.code == "diff_changed"
    assert (error.details["reviewed"], error.details["current"]) == (first, second)
    assert error.details["files"] == ["app.py", "other.py"]
    task.call(name, diff=second, comment="x")


def test_a_verdict_is_still_valid_after_another_comment(task: CommentedTask) -> None:
    diff = task.round()
    task.comment(diff, BEN)
    assert task.call("accept_task", diff=diff)["state"] == "completed"


def test_the_same_changes_in_a_later_round_are_the_same_diff(task: CommentedTask) -> None:
    first = task.round()
    task.call("request_changes", comment="again")
    task.round()
    assert task.call("accept_task", diff=first)["state"] == "completed"


def test_a_round_between_the_check_and_the_transaction_is_noticed(
    task: CommentedTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = task.round()
    check, late = reviewed_diff.reviewed_diff, [SECOND]

    def checked(*given: Any) -> Any:
        found = check(*given)
        if late:
            task.call("request_changes", BEN, comment="again")
            task.round(late.pop())
        return found

    monkeypatch.setattr("detent.operations.tasks.reviewed_diff", checked)
    with pytest.raises(DetentError) as caught:
        task.call("accept_task", diff=first)
    assert caught.value.code == "diff_changed"
    assert caught.value.details["files"] == ["app.py", "other.py"]
    assert task.state()[0] == "ready"


def test_the_job_may_change_without_a_new_diff(
    task: CommentedTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other evidence arrives meanwhile: the verdict is decided again."""
    first = task.round()
    check, left = reviewed_diff.reviewed_diff, [1]

    def checked(*given: Any) -> Any:
        found = check(*given)
        if left:
            left.pop()
            shown, _ = task.here.core.task(ANN, task.id)
            job, _ = task.here.core.job(ANN, shown.job_id or "")
            added = ("notes.txt", "unknown", "0" * 64, 1, "text/plain")
            attached = c.AttachEvidence(job.id, str(job.run_id), *added)
            task.here.core.engine.do(attached, OWNER.actor)
        return found

    monkeypatch.setattr("detent.operations.tasks.reviewed_diff", checked)
    assert task.call("accept_task", diff=first)["state"] == "completed"
