"""The parts of the demo. Each explains what happens, waits for it, and shows it with a command.

Prints through `print_text` alone; starts and queries processes through `DemoProcesses` alone.
"""

import shlex
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from detent.demo import demo_app, demo_project
from detent.demo.expected_events import EXPECTATIONS, is_met
from detent.demo.processes import DemoProcesses
from detent.errors import Refused
from detent.settings import SERVER_FILE

PAUSE_S = 5.0
#: How long the demo waits for a person to accept the work in the browser.
REVIEW_WAIT_S = 30.0
RULE = "-" * 72
#: The worker is killed after it has sent this many parts.
PARTS_BEFORE_KILL = 3


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """How the demo is run."""

    print_text: Callable[[str], None]
    #: The command with which the reader's shell runs this detent.
    detent: str
    #: Opens the browser with a link; None for no browser.
    open_browser: Callable[[str], None] | None
    quick: bool = False
    #: A person answers the question, raises the budget and accepts the work.
    manual: bool = False


class DemoScript:
    """One run of the demo."""

    def __init__(self, processes: DemoProcesses, options: DemoOptions) -> None:
        self.processes, self.options = processes, options
        self.print_text = options.print_text
        self.tasks: dict[str, str] = {}

    def run(self) -> dict[str, bool]:
        """Run all parts; whether each expectation is met by the log."""
        self.begin()
        self.question()
        self.budget()
        self.switch()
        self.kill()
        self.review()
        return self.check()

    # -- the parts of the demo -------------------------------------------------------------

    def begin(self) -> None:
        processes = self.processes
        demo_project.write_project(processes.directory, processes.environment)
        self._heading(
            "1. Start",
            "`detent up` runs a gateway, a worker and a keeper (the scheduler and maintenance\n"
            "process) with an empty SQLite database.",
        )
        processes.start("up", "up", "--port", "0")
        processes.until((processes.data / SERVER_FILE).exists, "`detent up` does not become ready")
        processes.until(processes.is_served, "the gateway does not answer")
        self.print_text(f"The gateway listens on {processes.url}. To watch from another terminal:")
        self.print_text(f"  cd {processes.directory} && {self.options.detent} watch")
        if self.options.open_browser is not None:
            link = processes.link()
            self.print_text(
                f"The dashboard, with a login link that works once, within a minute:\n  {link}"
            )
            self.options.open_browser(link)
            self.print_text("Its inbox lists what waits for you.")
        self._pause()

    def question(self) -> None:
        self._heading(
            "2. An agent asks a question",
            "An agent gets a bug in the git repository shop/. The agent is simulated: it works\n"
            "like a coding agent, in a separate git worktree, but costs nothing.",
        )
        task = self.tasks["fix"] = self._submit(
            "fixBug", "--set", "bug=total() adds negative prices", "--title", "Negative prices",
            "--budget", str(demo_project.BUDGET_USD),
        )  # fmt: skip
        self._wait_until_blocked(task, "question")
        self.print_text(
            "The agent asks a question. The task is blocked, and its worker is free for other work."
        )
        self._show("inbox", "--list")
        self._act_as_person(
            "Answer the question", "answer", task, demo_project.OPTIONS[0], event="task_answered"
        )

    def budget(self) -> None:
        task = self.tasks["fix"]
        self._heading(
            "3. The budget is spent",
            "The agent continues in the same session. "
            f"It may spend ${demo_project.BUDGET_USD:.2f}; then it is stopped.\n"
            "The task waits for a higher budget, because its intent has on_budget_exceeded = ask.",
        )
        self._wait_until_blocked(task, "budget")
        self._show("why", task)
        amount = str(demo_project.RAISED_USD)
        self._act_as_person("Raise the budget", "raise", task, amount, event="budget_raised")
        self._wait_for_event(task, "task_ready", "the agent does not finish")
        self.print_text(
            "The agent has made a commit on a separate branch. The task waits for review."
        )
        self._show("costs", task)

    def switch(self) -> None:
        self._heading(
            "4. A resource fails",
            "A plan has two steps: `build`, then `call`, which needs a phone. A second process,\n"
            "`detent worker`, runs its Python code. phone-1 does not answer.",
        )
        self._start_worker("worker-1")
        for name in ("phone-1", "phone-2"):
            self.processes.detent("resources", "put", name, "--capability", "phone")
        task = self.tasks["tryOut"] = self._submit("tryOut", "--lifecycle", "board")
        self._wait_for_event(task, "task_completed", "the plan does not finish")
        self.print_text("The step failed with phone-1 and was retried with phone-2:")
        self._show("events", task, only="step_")

    def kill(self) -> None:
        self._heading(
            "5. A worker is killed",
            f"A release is sent in {demo_app.PARTS} parts; each part is a durable step. "
            "During the release,\nthe worker is killed with SIGKILL.",
        )
        processes = self.processes
        task = self.tasks["release"] = self._submit(
            "release", "--set", "version=1.4.0", "--lifecycle", "board"
        )
        processes.until(
            lambda: len(self._sent_parts()) >= PARTS_BEFORE_KILL, "the release does not begin"
        )
        processes.kill("worker-1")
        self.print_text(
            f"Killed. Parts sent so far: {', '.join(self._sent_parts())}. Another worker starts."
        )
        self._start_worker("worker-2")
        self._wait_for_event(task, "task_completed", "no worker continues the release")
        self.print_text(
            "The lease expired. The new worker claimed the job with a higher fence and continued."
        )
        self.print_text(
            f"Parts, in the order in which they were sent: {', '.join(self._sent_parts())}."
        )
        self.print_text("Only a part that was being sent at the kill can be listed twice.")
        self._show("runs", "--task", task)

    def review(self) -> None:
        task = self.tasks["fix"]
        self._heading(
            "6. A person reviews the work",
            "The work of the agent has waited for review since part 3.",
        )
        self._show("evidence", task)
        if self.options.open_browser is not None:
            page = self.processes.link(f"/inbox/{task}")
            self.print_text(f"The change and its cost in the dashboard:\n  {page}")
        self._act_as_person(
            "Accept the work", "accept", task, event="task_accepted", wait_s=REVIEW_WAIT_S
        )

    def check(self) -> dict[str, bool]:
        self._heading("7. Check", "The demo compares its statements with the event log:")
        events = {name: self.processes.events(task) for name, task in self.tasks.items()}
        found = {
            expectation.name: is_met(expectation, events[expectation.task])
            for expectation in EXPECTATIONS
        }
        for expectation in EXPECTATIONS:
            self.print_text(
                f"  {'yes' if found[expectation.name] else 'NO '}  {expectation.sentence}"
            )
        self._show("verify")
        return found

    # -- helpers ---------------------------------------------------------------------------

    def _submit(self, *arguments: str) -> str:
        self.print_text(f"$ detent submit {shlex.join(arguments)}")
        task_id = self.processes.detent("submit", *arguments).strip()
        self.print_text(f"  {task_id}")
        return task_id

    def _show(self, *arguments: str, only: str = "") -> None:
        """Print a command and its output, then pause."""
        self.print_text(f"$ detent {shlex.join(arguments)}" + (f" | grep {only}" if only else ""))
        for line in self.processes.detent(*arguments).rstrip().splitlines():
            if only in line:
                self.print_text(f"  {line}")
        self._pause()

    def _act_as_person(self, what: str, *command: str, event: str, wait_s: float = 0.0) -> None:
        """Wait for an action of a person, or run the command for the person."""
        task = self.tasks["fix"]

        def done() -> bool:
            return any(each["name"] == event for each in self.processes.events(task))

        if self.options.manual:
            self.print_text(
                f"{what} in the browser or in another terminal. The demo waits for you:"
            )
            self.print_text(f"  cd {self.processes.directory} && detent {shlex.join(command)}")
        elif self._has_viewer() and wait_s:
            self.print_text(f"{what} there. After {wait_s:.0f} s, the demo does it for you.")
            if self.processes.within(done, wait_s):
                self.print_text("You did it. Thank you.")
                return
            self._run_unless_done(done, *command)
        else:
            self.print_text(f"{what}: the demo does this for you (use --manual to do it yourself).")
            self._run_unless_done(done, *command)
        self._wait_for_event(task, event, f"the event {event} is missing after: {what.lower()}")

    def _run_unless_done(self, done: Callable[[], bool], *command: str) -> None:
        """Run the command; it may fail if a person has done the same a moment before."""
        try:
            self._show(*command)
        except Refused:
            if not done():
                raise

    def _has_viewer(self) -> bool:
        """Whether a person may be watching in the browser."""
        return self.options.open_browser is not None and not self.options.quick

    def _start_worker(self, name: str) -> None:
        self.processes.start(name, "worker", "--app", "detent.demo.demo_app:app")
        self.processes.until(
            lambda: self.processes.knows_intent("release"), f"{name} does not start"
        )

    def _wait_until_blocked(self, task_id: str, reason: str) -> None:
        def look() -> bool:
            return bool(self.processes.task(task_id)["blocked_by"] == reason)

        self.processes.until(look, f"the task is not blocked by its {reason}")

    def _wait_for_event(self, task_id: str, name: str, otherwise: str) -> None:
        """Wait for an event of a task; without a deadline if a person has to act."""

        def look() -> Mapping[str, Any] | None:
            events = self.processes.events(task_id)
            return next((each for each in events if each["name"] == name), None)

        deadline = {"deadline_s": None} if self.options.manual else {}
        self.processes.until(look, otherwise, **deadline)

    def _sent_parts(self) -> list[str]:
        file = self.processes.directory / demo_app.SENT
        return file.read_text().split() if file.exists() else []

    def _heading(self, title: str, text: str) -> None:
        self.print_text(f"\n{RULE}\n{title}\n{RULE}\n{text}")

    def _pause(self) -> None:
        if not self.options.quick:
            time.sleep(PAUSE_S)
