"""A run reads the comments on its work and replies with its own token; people alone resolve."""

import httpx2
import pytest

from detent.kernel import commands as c
from detent.kernel.commands import review_commands as rc
from detent.operations.registry import OWNER
from tests.gateway.installation import Installation
from tests.operations.agent import Agent, at_work

COMMENT = rc.NewComment("c1", "d" * 64, "r", "app.py", "after", 1, 1, ("a = 1",), "Why 1?")


@pytest.fixture
def agent(gateway: Installation, owner: httpx2.Client) -> Agent:
    """A run whose task has one open comment and one that is resolved."""
    made = at_work(gateway, owner)
    comments = (COMMENT, COMMENT._replace(id="c2", text="Resolved."))
    gateway.core.engine.do(rc.AddComments(made.task.id, comments), OWNER.actor)
    gateway.core.engine.do(rc.ResolveComment(made.task.id, "c2"), OWNER.actor)
    return made


def test_a_run_reads_the_open_comments_and_replies(agent: Agent, owner: httpx2.Client) -> None:
    (shown,) = agent.http.get("/api/run/comments").json()["comments"]
    assert (shown["id"], shown["text"], shown["anchor"]["quoted"]) == ("c1", "Why 1?", ["a = 1"])
    made = agent.post("/comments/c1/replies", text="It is the default.", resolved=True)
    assert made.status_code == 201, made.text
    found = owner.get(f"/api/tasks/{agent.task.id}/comments").json()["comments"]
    (reply,) = found[0]["replies"]
    assert reply["text"] == "It is the default.\n\n(I consider this comment resolved.)"
    assert (reply["run_id"], reply["author"]) == (agent.run_id, f"run:{agent.run_id}")
    assert found[0]["state"] == "open"


@pytest.mark.parametrize(
    ("path", "body", "code"),
    [
        ("/comments/none/replies", {"text": "x"}, "unknown_comment"),
        ("/comments/c1/replies", {"text": " "}, "invalid"),
        ("/comments/c1/replies", {"text": "x" * 20_001}, "invalid"),
        ("/comments/c1/replies", {}, "invalid"),
    ],
)
def test_a_bad_reply_is_refused(
    gateway: Installation, agent: Agent, path: str, body: dict[str, str], code: str
) -> None:
    before = gateway.head()
    assert agent.post(path, **body).json()["code"] == code
    assert gateway.head() == before


def test_a_run_resolves_nothing(agent: Agent) -> None:
    task = f"/api/tasks/{agent.task.id}"
    for path in ("/comments/c1/resolve", "/comments/c2/reopen", "/publish-drafts"):
        assert agent.http.post(task + path).json()["code"] == "forbidden"


def test_a_run_that_has_ended_does_not_reply(gateway: Installation, agent: Agent) -> None:
    gateway.report(c.CompleteRun(agent.claimed.grant, agent.run_id, None, 0))
    assert agent.http.get("/api/run/comments").status_code == 401
    assert agent.post("/comments/c1/replies", text="late").status_code == 401
