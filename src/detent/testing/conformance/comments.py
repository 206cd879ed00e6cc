"""Checks of comments on a diff: read from the stream of their task, and decided one at a time."""

from functools import partial

import msgspec

from detent.engine import CommandRequest, Engine
from detent.errors import DetentError
from detent.integrity.rebuild import rebuild
from detent.integrity.verify import verify
from detent.kernel import commands as c
from detent.kernel.commands import review_commands as rc
from detent.store.port import Store
from detent.testing.audit import picture
from detent.testing.conformance.case import Case, check
from detent.testing.conformance.work_actions import (
    claim_one,
    complete,
    do,
    names,
    outcome,
    submit_task,
    task_of,
    together,
)

ANN, BEN = c.Actor("person:ann"), c.Actor("person:ben")


def comment(name: str, text: str = "Use another name.") -> rc.NewComment:
    """A comment on two lines."""
    return rc.NewComment(name, "d" * 64, "r", "app.py", "after", 1, 2, ("a", "b"), text)


def ready(engine: Engine) -> str:
    """A task whose result waits for a review."""
    task_id = submit_task(engine, lifecycle="review")
    complete(engine, claim_one(engine))
    return task_id


def comment_events(store: Store, task_id: str) -> list[str]:
    with store.read() as view:
        return [name for name in names(view, task_id) if name.startswith("comment_")]


@check
def comments_are_decided_from_the_events_of_their_task(case: Case) -> None:
    task_id = ready(case.engine)
    others = case.another()
    assert do(case.engine, rc.AddComments(task_id, (comment("c1"), comment("c2")))) == ["c1", "c2"]
    assert do(others, rc.AddComments(task_id, (comment("c2"),))) == []
    reply = rc.NewReply("c1", "r1", "Which one?")
    assert do(others, rc.AddComments(task_id, replies=(reply,))) == ["r1"]
    assert do(case.engine, rc.AddComments(task_id, replies=(reply,))) == []
    assert do(case.engine, rc.ResolveComment(task_id, "c1")) == "resolved"
    assert do(others, rc.ResolveComment(task_id, "c1")) == "repeated"
    assert do(others, rc.ReopenComment(task_id, "c1")) == "reopened"
    assert outcome(others, rc.ResolveComment(task_id, "c3")) == "unknown_comment"
    assert comment_events(case.store, task_id) == [
        *("comment_added", "comment_added", "comment_replied"),
        *("comment_resolved", "comment_reopened"),
    ]


@check
def commands_of_one_batch_see_the_comments_before_them(case: Case) -> None:
    task_id = ready(case.engine)
    commands: list[c.Command] = [
        rc.AddComments(task_id, (comment("c1"),)),
        rc.ResolveComment(task_id, "c2"),
        rc.ResolveComment(task_id, "c1"),
        rc.ResolveComment(task_id, "c1"),
        rc.RequestChanges(task_id),
        rc.ReopenComment(task_id, "c1"),
        rc.RequestChanges(task_id),
    ]
    results = case.engine.execute([CommandRequest(each, ANN) for each in commands])
    outcomes = [each.code if isinstance(each, DetentError) else each.value for each in results]
    assert outcomes == [
        *(["c1"], "unknown_comment", "resolved", "repeated", "nothing_requested"),
        *("reopened", "queued"),
    ]


@check
def a_comment_is_published_once_by_two_processes(case: Case) -> None:
    task_id = ready(case.engine)
    command = rc.AddComments(task_id, tuple(comment(f"c{number}") for number in range(5)))
    answers = together(*(partial(do, each, command) for each in (case.engine, *case.others(2))))
    assert sorted(len(each) for each in answers) == [0, 0, 5]
    assert comment_events(case.store, task_id) == ["comment_added"] * 5


@check
def one_of_two_reviewers_requests_changes(case: Case) -> None:
    """The other one is refused, and nothing of the refused request is stored."""
    for number in range(3):
        task_id = ready(case.engine)
        requests = [
            partial(
                _result, engine, CommandRequest(rc.RequestChanges(task_id, name, (own,)), actor)
            )
            for engine, actor, name, own in (
                (case.engine, ANN, "ann", comment(f"a{number}")),
                (case.another(), BEN, "ben", comment(f"b{number}")),
            )
        ]
        answers = together(*requests)
        assert sorted(map(str, answers)) == ["illegal_transition", "queued"], answers
        task = task_of(case.store, task_id)
        winner = ("ann", "ben")[answers.index("queued")]
        assert (task.rounds, task.comment) == (1, winner)
        with case.store.read() as view:
            stored = view.events(0, 1_000, stream=task_id)
        ids = [
            msgspec.json.decode(each.data)["comment_id"]
            for each in stored
            if each.name == "comment_added"
        ]
        assert ids == [f"{winner[0]}{number}"]
        complete(case.engine, claim_one(case.engine))


def _result(engine: Engine, request: CommandRequest) -> object:
    result = engine.execute([request])[0]
    return result.code if isinstance(result, DetentError) else result.value


@check
def comments_survive_a_rebuild_and_are_blanked_with_their_task(case: Case) -> None:
    task_id = ready(case.engine)
    secret = "the text of a comment"
    do(case.engine, rc.AddComments(task_id, (comment("c1", secret),)))
    do(case.engine, rc.AddComments(task_id, replies=(rc.NewReply("c1", "r1", secret),)))
    before = picture(case.store)
    rebuild(case.store, lease_us=1)
    assert picture(case.store) == before
    assert do(case.another(), rc.ResolveComment(task_id, "c1")) == "resolved"
    do(case.engine, c.AcceptTask(task_id))
    do(case.engine, c.DeleteTask(task_id))
    with case.store.read() as view:
        kept = [event.data for event in view.events(0, 1_000) if event.stream == task_id]
    assert not any(secret in data for data in kept)
    assert outcome(case.engine, rc.ResolveComment(task_id, "c1")) == "unknown_task"
    assert verify(case.store).differences == []
