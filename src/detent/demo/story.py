"""The story, act by act. Each says what happens, which command shows it, and waits until it is so.

Speaks through `say` alone; what it starts and asks goes through the stage.
"""

import shlex
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from detent.demo import demo_app, demo_project
from detent.demo.expected_events import CLAIMS, holds
from detent.demo.processes import Stage
from detent.errors import Refused
from detent.settings import SERVER_FILE

PAUSE_S = 5.0
#: How long the work waits in the browser for somebody to accept it.
REVIEW_S = 30.0
BAR = "-" * 72
#: How many parts are remembered before the worker is killed.
SOME_PARTS = 3


@dataclass(frozen=True, slots=True)
class Manner:
    """How the story is told."""

    say: Callable[[str], None]
    #: Open the browser at a link, or do without.
    open_page: Callable[[str], None] | None
    quick: bool = False
    #: A person answers, raises and accepts.
    manual: bool = False


class Story:
    """One telling of it."""

    def __init__(self, stage: Stage, manner: Manner) -> None:
        self.stage, self.manner = stage, manner
        self.say = manner.say
        self.tasks: dict[str, str] = {}

    def tell(self) -> dict[str, bool]:
        """From the first act to the check; what was claimed, and whether it is so."""
        self.begin()
        self.question()
        self.budget()
        self.switch()
        self.kill()
        self.review()
        return self.check()

    # -- acts ------------------------------------------------------------------------------

    def begin(self) -> None:
        stage = self.stage
        demo_project.furnish(stage.directory, stage.environment)
        self._act(
            "1. It starts", "`detent up`: gateway, worker and keeper on an empty SQLite file."
        )
        stage.start("up", "up", "--port", "0")
        stage.until((stage.data / SERVER_FILE).exists, "`detent up` does not become ready")
        stage.until(stage.is_served, "the gateway does not answer")
        self.say(f"It listens on {stage.url}. To look from another terminal:")
        self.say(f"  cd {stage.directory} && detent watch")
        if self.manner.open_page is not None:
            link = stage.link()
            self.say(f"The dashboard, by a link that works once, within a minute:\n  {link}")
            self.manner.open_page(link)
            self.say("Keep it beside this terminal: the inbox shows what waits for you.")
        self._pause()

    def question(self) -> None:
        self._act(
            "2. An agent asks",
            "A bug in the repository shop/ goes to an agent. It is a stand-in: it speaks as a\n"
            "coding agent does, works in a git worktree of its own, and costs nothing.",
        )
        task = self.tasks["fix"] = self._submit(
            "fixBug", "--set", "bug=total() adds negative prices", "--title", "Negative prices",
            "--budget", str(demo_project.BUDGET_USD),
        )  # fmt: skip
        self._blocked(task, "question")
        self.say("It is not sure, so it asks. The task is blocked; its worker is free meanwhile.")
        self._show("inbox", "--list")
        self._person("Answer it", "answer", task, demo_project.OPTIONS[0], event="task_answered")

    def budget(self) -> None:
        task = self.tasks["fix"]
        self._act(
            "3. The money is spent",
            "It continues in the same session. "
            f"It may spend ${demo_project.BUDGET_USD}; then it is stopped,"
            "\nand the task asks for more, because its intent says on_budget_exceeded = ask.",
        )
        self._blocked(task, "budget")
        self._show("why", task)
        amount = str(demo_project.RAISED_USD)
        self._person("Raise the budget", "raise", task, amount, event="budget_raised")
        self._happened(task, "task_ready", "the agent does not finish")
        self.say("Done: a commit on a branch of its own. It waits for review, in nobody's way.")
        self._show("costs", task)

    def switch(self) -> None:
        self._act(
            "4. A resource fails",
            "A plan of two steps: build, then call with a phone. A second process, `detent worker`,"
            "\nhas the Python code for it. phone-1 does not pick up.",
        )
        self._worker("worker-1")
        for name in ("phone-1", "phone-2"):
            self.stage.detent("resources", "put", name, "--capability", "phone")
        task = self.tasks["tryOut"] = self._submit("tryOut", "--lifecycle", "board")
        self._happened(task, "task_completed", "the plan does not end")
        self.say("The step failed with phone-1, avoided it, and took phone-2:")
        self._show("events", task, only="step_")

    def kill(self) -> None:
        self._act(
            "5. A worker is killed",
            f"A release is sent in {demo_app.PARTS} parts, each a durable step. "
            "In the middle of it the"
            "\nworker gets SIGKILL, as if its machine had lost power.",
        )
        stage = self.stage
        task = self.tasks["release"] = self._submit(
            "release", "--set", "version=1.4.0", "--lifecycle", "board"
        )
        stage.until(lambda: len(self._sent()) >= SOME_PARTS, "the release does not begin")
        stage.kill("worker-1")
        self.say(f"Killed. Parts sent so far: {', '.join(self._sent())}. Another worker starts.")
        self._worker("worker-2")
        self._happened(task, "task_completed", "nobody goes on with the release")
        self.say("The lease ran out, the new worker claimed it under a higher fence, and went on.")
        self.say(f"Parts in the order of sending: {', '.join(self._sent())}.")
        self.say("At most the part that was under way at the kill stands there twice.")
        self._show("runs", "--task", task)

    def review(self) -> None:
        task = self.tasks["fix"]
        self._act(
            "6. A person decides", "All the while the agent's work has waited to be looked at."
        )
        self._show("evidence", task)
        if self.manner.open_page is not None:
            page = self.stage.link(f"/inbox/{task}")
            self.say(f"In the browser you see the change and what it cost:\n  {page}")
        self._person("Accept it", "accept", task, event="task_accepted", patience_s=REVIEW_S)

    def check(self) -> dict[str, bool]:
        self._act("7. Is it true?", "What this demo has said, compared with the log:")
        events = {name: self.stage.events(task) for name, task in self.tasks.items()}
        found = {claim.name: holds(claim, events[claim.task]) for claim in CLAIMS}
        for claim in CLAIMS:
            self.say(f"  {'yes' if found[claim.name] else 'NO '}  {claim.sentence}")
        self._show("verify")
        return found

    # -- parts of acts ---------------------------------------------------------------------

    def _submit(self, *arguments: str) -> str:
        self.say(f"$ detent submit {shlex.join(arguments)}")
        task_id = self.stage.detent("submit", *arguments).strip()
        self.say(f"  {task_id}")
        return task_id

    def _show(self, *arguments: str, only: str = "") -> None:
        """A command and what it prints, then time to read it."""
        self.say(f"$ detent {shlex.join(arguments)}" + (f" | grep {only}" if only else ""))
        for line in self.stage.detent(*arguments).rstrip().splitlines():
            if only in line:
                self.say(f"  {line}")
        self._pause()

    def _person(self, what: str, *command: str, event: str, patience_s: float = 0.0) -> None:
        """What a person does, or the demo in a person's place once its patience is over."""
        task = self.tasks["fix"]

        def done() -> bool:
            return any(each["name"] == event for each in self.stage.events(task))

        if self.manner.manual:
            self.say(f"{what}, in the browser or in another terminal. The demo waits for you:")
            self.say(f"  cd {self.stage.directory} && detent {shlex.join(command)}")
        elif self._watched() and patience_s:
            self.say(f"{what} there. In {patience_s:.0f} s the demo does it for you.")
            if self.stage.within(done, patience_s):
                self.say("You did. Thank you.")
                return
            self._in_place_of(done, *command)
        else:
            self.say(f"{what}: the demo does it for you now (with --manual you do).")
            self._in_place_of(done, *command)
        self._happened(task, event, f"nobody did: {what.lower()}")

    def _in_place_of(self, done: Callable[[], bool], *command: str) -> None:
        """The command; that a person came first by a moment is as well."""
        try:
            self._show(*command)
        except Refused:
            if not done():
                raise

    def _watched(self) -> bool:
        """Whether somebody may be looking at the browser, and has the time."""
        return self.manner.open_page is not None and not self.manner.quick

    def _worker(self, name: str) -> None:
        self.stage.start(name, "worker", "--app", "detent.demo.demo_app:app")
        self.stage.until(lambda: self.stage.knows_intent("release"), f"{name} does not start")

    def _blocked(self, task_id: str, reason: str) -> None:
        def look() -> bool:
            return bool(self.stage.task(task_id)["blocked_by"] == reason)

        self.stage.until(look, f"the task is not blocked by its {reason}")

    def _happened(self, task_id: str, name: str, otherwise: str) -> None:
        """Wait for an event of a task; as long as a person likes, if one is asked to act."""

        def look() -> Mapping[str, Any] | None:
            events = self.stage.events(task_id)
            return next((each for each in events if each["name"] == name), None)

        deadline = {"deadline_s": None} if self.manner.manual else {}
        self.stage.until(look, otherwise, **deadline)

    def _sent(self) -> list[str]:
        file = self.stage.directory / demo_app.SENT
        return file.read_text().split() if file.exists() else []

    def _act(self, title: str, text: str) -> None:
        self.say(f"\n{BAR}\n{title}\n{BAR}\n{text}")

    def _pause(self) -> None:
        if not self.manner.quick:
            time.sleep(PAUSE_S)
