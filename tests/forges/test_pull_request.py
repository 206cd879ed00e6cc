"""From a labelled issue to a merged pull request."""

from detent.kernel.commands import review_commands as rc
from tests.agents.repository import git
from tests.agents.scene import Step
from tests.forges.world import World

TASK = "github.acme.app.1"
FIX: list[Step] = [{"write": {"code.py": "a = 1\nb = 20\nc = 3\n"}}, {"commit": "fix b"}]


def test_a_labelled_issue_becomes_a_merged_pull_request(w: World) -> None:
    w.agent(FIX)
    with w.s.working():
        w.people.open_issue("b is wrong", "It must be 20.", labels=("detent",))
        assert w.deliver() == ["accepted"]
        w.reaches("open", TASK)
        assert (w.pull.title, w.pull.base) == ("b is wrong", "main")
        assert "Closes #1." in w.pull.body
        w.people.check(w.pull, "tests", "success")
        w.people.review(w.pull, "APPROVED")
        w.deliver()
        w.reaches("approved", TASK)
        w.people.merge(w.pull)
        w.deliver()
        w.reaches("merged", TASK)
    assert git(w.repo.directory, "show", "main:code.py") == "a = 1\nb = 20\nc = 3"
    assert w.server.changes().count("POST /repos/acme/app/pulls") == 1


def test_a_comment_that_is_resolved_on_one_side_is_resolved_on_the_other(w: World) -> None:
    w.agent(FIX, [{"write": {"code.py": "a = 1\nb = 21\nc = 3\n"}}, {"commit": "b is 21"}])
    with w.s.working():
        task_id = w.opened()
        first, second = (
            w.people.comment_on_line(w.pull, "code.py", line, "Why?") for line in (1, 2)
        )
        w.deliver()
        w.reaches("open", task_id, rounds=1)
        comments = [each["comment_id"] for each in w.data(task_id, "comment_added")]
        assert len(comments) == 2
        w.s.do(rc.ResolveComment(task_id, comments[0]))
        second.resolved = True
        w.sync(2)
    assert (first.resolved, second.resolved) == (True, True)
    resolved = [each["comment_id"] for each in w.data(task_id, "comment_resolved")]
    assert sorted(resolved) == sorted(comments), "each of them once"
