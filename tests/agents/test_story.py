"""The whole story of an agent's task, event by event: asked, over budget, raised, judged twice."""

from detent.kernel import commands as c
from tests.agents.scene import Scene

CLAIM = ["job_running", "run_queued", "run_started", "task_started"]

#: Written by hand, from the tables of the lifecycles.
STORY = [
    *("task_created", "task_queued", "job_created"),
    # It works, and asks.
    *CLAIM,
    *(
        "run_reserved",
        "session_opened",
        "run_joined",
        "run_charged",
        "task_charged",
        "evidence_added",
    ),
    *("wait_begun", "run_succeeded", "job_parked", "task_blocked"),
    # It is answered, goes on, and spends too much.
    *("task_answered", "wait_completed"),
    *CLAIM,
    *("run_reserved", "run_joined", "run_charged", "task_charged", "budget_warned"),
    *("wait_begun", "run_succeeded", "job_parked", "task_blocked"),
    # Its budget is raised, it goes on, and is done.
    *("budget_raised", "task_unblocked", "wait_completed"),
    *CLAIM,
    *("run_reserved", "run_joined", "evidence_added"),
    *("run_succeeded", "job_completed", "task_ready"),
    # It is sent back, and run again as a new job in the same session.
    *("task_rejected", "task_queued", "job_created"),
    *CLAIM,
    *("run_reserved", "run_joined", "run_charged", "task_charged"),
    *("run_succeeded", "job_completed", "task_ready"),
    "task_accepted",
]


def test_asked_answered_over_budget_raised_rejected_run_again_accepted(s: Scene) -> None:
    s.script(
        [{"cost": 0.4}, {"ask": {"text": "Which one?", "options": ["a", "b"]}}],
        [{"cost": 0.7}, {"say": "not reached"}],
        [{"evidence": {"QA-DECISION.md": "PASS"}}, {"summary": "done at last"}],
        [{"cost": 0.2}, {"finish": {"result": "as a table"}}],
    )
    s.intent(on_budget_exceeded="ask")
    task_id = s.submit(budget=1.0)
    with s.working():
        task = s.rests("blocked")
        assert (task.blocked_by, task.spent) == ("question", 400_000)
        s.do(c.AnswerTask(task_id, "a"))

        task = s.rests("blocked", spent=1_100_000)
        assert (task.blocked_by, task.spent) == ("budget", 1_100_000)
        s.do(c.RaiseBudget(task_id, 2_000_000))

        s.rests("ready")
        assert s.result() == {"text": "done", "summary": "done at last", "turns": 0}
        s.do(c.RejectTask(task_id, "Show it as a table.", run=True))

        s.rests("ready", rounds=1)
        assert s.result()["text"] == "as a table"
        s.do(c.AcceptTask(task_id))
        s.rests("completed", rounds=1)

    assert s.names() == STORY
    [session] = s.sessions()
    asked, answered, raised, rejected = session["prompts"]
    assert asked.startswith('Fix this: {\n "bug": "it is broken"\n}')
    assert answered == "You asked: Which one?\nThe answer: a"
    assert raised == "Your budget was raised. Please continue where you left off."
    assert rejected.startswith("Show it as a table.\n")
    assert [run["cost"] for run in s.runs()] == [400_000, 700_000, 0, 200_000]
    assert {run["session_id"] for run in s.runs()} == {session["id"]}
