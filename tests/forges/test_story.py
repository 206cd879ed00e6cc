"""The whole story at every forge. Deliveries arrive twice and in any order; processes are killed.

A labelled issue becomes a task, an agent opens a pull request, CI fails twice, a reviewer comments
on two lines, a conflict appears, and it is merged. Each transition is in the log once, and each
comment at the forge once.
"""

import random
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from detent.kernel import commands as c
from detent.store.types import Query
from tests.agents.repository import git
from tests.agents.scene import Step
from tests.forges.case_world import CaseWorld, case_world
from tests.forges.forge_cases import CASES
from tests.forges.story_processes import LEASE_MS, Processes
from tests.worker.waiting import until
from verification.github.github_people import Delivery

RUNS: list[list[Step]] = [
    [{"write": {"code.py": "a = 1\nb = 20\nc = 3\n"}}, {"commit": "first"}],
    [{"write": {"hanging": ""}}, {"hang": 3}],  # the worker is killed meanwhile
    [
        {"git": ["clean", "-fdq"]},
        {"write": {"code.py": "a = 1\nb = 21\nc = 3\n"}},
        {"commit": "second"},
    ],
    [{"write": {"code.py": "a = 1\nb = 22\nc = 3\n"}}, {"commit": "third"}],
    [
        {"write": {"code.py": "a = 1\nb = 23\nc = 30\n"}},
        {"commit": "fourth"},
        {"reply": "I have changed it."},
    ],
    [
        {"git": ["fetch", "--quiet", "origin", "main"]},
        {"git": ["merge", "--quiet", "--no-edit", "-X", "ours", "FETCH_HEAD"]},
    ],
]

WORK = ["task_started", "task_ready"]
PUBLISHED = ["task_accepting", *WORK, "task_accepted", "task_opened"]
LOST = ["task_started", "task_blocked", "task_unblocked"]
COMMENTS = ["comment_added"] * 2
REPLIES = ["comment_replied"] * 2
TRANSITIONS = [
    *("task_created", "task_queued", "task_started", "session_opened", "task_ready"),
    *("task_accepting", *LOST, *WORK, "task_accepted", "task_opened"),
    *("task_checks_failed", *LOST, *WORK, *PUBLISHED),
    *("task_checks_failed", *WORK, *PUBLISHED),
    *(*COMMENTS, "task_changes_requested", "task_started", *REPLIES, "task_ready", *PUBLISHED),
    *("task_conflicted", *WORK, *PUBLISHED),
    *("task_approved", "task_merged"),
]
#: A process is killed before its request arrives, or before the response.
BOTH, ONCE = ("after", "before"), ("after",)
#: By forge, the requests that change something, and when their process was killed.
GIT = {"POST /git/acme/app.git/git-receive-pack": BOTH}
KILLED = {
    "github": {
        **GIT,
        "POST /repos/acme/app/pulls": ONCE,
        "POST /repos/acme/app/statuses/N": BOTH,
        "POST /repos/acme/app/pulls/N/comments/N/replies": BOTH,
        "PUT /repos/acme/app/pulls/N/merge": ONCE,
    },
    "gitlab": {
        **GIT,
        "POST /api/vN/projects/acme%2Fapp/merge_requests": ONCE,
        "POST /api/vN/projects/acme%2Fapp/statuses/N": BOTH,
        "POST /api/vN/projects/acme%2Fapp/merge_requests/N/discussions/dN/notes": BOTH,
        "PUT /api/vN/projects/acme%2Fapp/merge_requests/N/merge": ONCE,
    },
}


class Story:
    """The world, its processes, and what kills them."""

    def __init__(self, w: CaseWorld, processes: Processes) -> None:
        self.w, self.processes = w, processes
        self.seen: Counter[str] = Counter()
        self.killed: list[str] = []
        self.old: list[Delivery] = []
        self.order = random.Random(17)

    def on_request(self, when: str, what: str) -> None:
        """Kill the process that sends a request which changes something.

        The first request of each kind is carried out and its response is lost; the second one is
        lost itself.
        """
        kind = re.sub(r"[0-9a-f]{40}|(?<!%)\d+", "N", what)
        if kind.startswith("GET") or kind.endswith(("/graphql", "/git-upload-pack")):
            return
        self.seen[f"{when} {kind}"] += 1
        turn = self.seen[f"{when} {kind}"]
        if (when, turn) in (("after", 1), ("before", 2)):
            self.killed.append(f"{when} {kind}")
            self.processes.kill("worker" if "git-receive-pack" in kind else "keeper")
            raise ConnectionAbortedError

    def revive(self) -> None:
        """Start what was killed; its lease is over, as if the time had passed."""
        for kind in ("keeper", "worker"):
            if not self.processes.is_alive(kind):
                if kind == "worker":
                    self._reclaim()
                self.processes.start(kind)

    def _reclaim(self) -> None:
        core = self.w.s.core
        with core.store.read() as view:
            rows = view.page(Query("jobs", {"task_id": self.w.task_id, "state": "running"}))
        for row in rows:
            core.engine.do(c.ReclaimJob(row["id"], row["fence"]), c.Actor("clock"))

    def reaches(self, state: str, rounds: int = 0) -> None:
        """Deliver what waits, twice and in any order, until the task is in a state.

        All earlier deliveries arrive again meanwhile, as if they had been delayed.
        """
        people = self.w.case.people
        new, people.waiting = people.waiting, []
        queue = [*new, *new, *map(self.w.case.again, self.old)]
        self.order.shuffle(queue)
        self.old += new

        def look() -> bool:
            self.revive()
            if queue:
                self.w.post(queue.pop())
            task = self.w.task()
            return not queue and task is not None and (task.state, task.rounds) == (state, rounds)

        try:
            until(look, f"the task is {state}")
        except AssertionError as error:
            raise AssertionError(f"{error}: {self.w.task()} {self.killed}") from None


@pytest.fixture(params=CASES)
def story(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Story]:
    forge: str = request.param
    given = {f"{forge}_interval_ms": 3_600_000, "lease_ms": LEASE_MS}
    with case_world(forge, tmp_path, **given) as w:
        names = [each for each in w.s.core.settings.__slots__ if each.startswith(f"{forge}_")]
        settings = {name: getattr(w.s.core.settings, name) for name in names}
        settings |= {"worker_heartbeat_ms": 200, "worker_poll_ms": 50, "worker_grace_ms": 300}
        script = {"runs": RUNS, "repo": str(w.case.clone)}
        processes = Processes(tmp_path, forge, settings, script)
        try:
            yield Story(w, processes)
        finally:
            w.case.server.hook = lambda *_: None
            processes.stop()


def test_from_an_issue_to_a_merged_request(story: Story) -> None:
    w, case = story.w, story.w.case
    w.agent()  # the gateway knows the intent
    for kind in ("worker", "keeper"):
        story.processes.start(kind)
    case.server.hook = story.on_request

    case.open_issue("b is wrong", "It must be 20.", "detent")
    story.reaches("open")
    case.check("tests", "failed", "E  assert b == 21")
    story.reaches("running", 1)
    work = w.s.core.settings.data_dir / "workspaces" / w.task_id / "work"
    until((work / "hanging").exists, "the agent works")
    story.processes.kill("worker")
    story.reaches("open", 1)
    case.check("tests", "failed", "E  assert b == 22")
    story.reaches("open", 2)
    case.check("tests", "passed")
    with case.server.lock:  # a review is published with its comments
        case.comment_on_line("code.py", 2, "This should be 23.")
        case.comment_on_line("code.py", 3, "And this 30.")
        case.review("changes_requested", text="Two remarks.")
    story.reaches("open", 3)
    w.change({"code.py": "a = 1\nb = 99\nc = 3\n"})
    story.reaches("open", 4)
    case.check("tests", "passed")
    case.review("approved")
    story.reaches("merged", 4)

    assert w.events() == TRANSITIONS
    directory = case.repo.directory
    assert git(directory, "show", "main:code.py") == "a = 1\nb = 23\nc = 30"
    merges = git(directory, "log", "--merges", "--first-parent", "--format=%h", "main")
    assert len(merges.splitlines()) == 1
    assert [[each.splitlines()[0] for each in it] for it in case.conversations()] == [
        ["This should be 23.", "I have changed it."],
        ["And this 30.", "I have changed it."],
    ]
    expected = KILLED[case.forge.name].items()
    assert sorted(story.killed) == sorted(f"{at} {what}" for what, when in expected for at in when)
    _same_session(w)


def _same_session(w: CaseWorld) -> None:
    """Each round of the agent begins with the reason, in the same session."""
    (session,) = w.s.sessions()
    prompts = session["prompts"]
    assert len(prompts) == len(RUNS)
    reasons = ("assert b == 21", "assert b == 22", "This should be 23.", "git merge FETCH_HEAD")
    for prompt, reason in zip((prompts[1], *prompts[3:]), reasons, strict=True):
        assert reason in prompt
    assert "code.py, line 2" in prompts[4]
    assert "code.py, line 3" in prompts[4]
    assert "Two remarks." in prompts[4]
