"""Virtual clients: they submit, cancel, signal, answer, judge, dismiss and retry.

Each does so through a process of its own, which may die before it answers. A request with a key is
repeated until it is answered.
"""

import random
from collections.abc import Callable, Generator, Iterator
from itertools import count
from typing import Any

from detent.engine import CommandRequest, CommandResult, Idempotency
from detent.engine.batch import Result
from detent.errors import DetentError, Unavailable
from detent.kernel import commands as c
from detent.kernel.commands import limit_commands as lc
from detent.operations import resources
from detent.operations.registry import Caller, Scope
from verification import settlement
from verification.simulation.injected_faults import Died, Violation
from verification.simulation.money_records import MAX_CALL
from verification.simulation.planned_work import INTENT, RESOURCES, document
from verification.simulation.run_records import ROLE
from verification.simulation.virtual_process import Process

PROJECT = "simulation"
KEY = "key:one at a time"
#: How long a pause with an end lasts at most.
LONGEST_PAUSE_US = 2_000_000
OPERATOR = Caller("operator", frozenset(Scope))
#: The possible answers to a question, by its kind.
ANSWERS = {"question": ("yes", "no"), "confirmation": ("confirm", "confirm", "refuse")}
#: How much of the work has a plan.
PLANNED = 0.5
#: With more live jobs than this, nothing is submitted until some have ended.
MAX_LIVE = 30
#: People look mostly at what is new.
RECENT = 15


class Client:
    """Picks what to do by chance, from its answers and from what waits for a person."""

    mortal = False

    def __init__(self, process: Process, rng: random.Random) -> None:
        self.process = process
        self.rng = rng
        self.tasks: list[str] = []
        self.jobs: list[str] = []
        self._serial = count(1)
        self._ways: dict[Callable[[], Iterator[None]], int] = {
            self._submit: 36,
            self._family: 3,
            self._cancel: 20,
            self._signal: 16,
            self._answer: 14,
            self._judge: 14,
            self._push: 10,
            self._together: 4,
            self._raise: 8,
            self._drain: 2,
            self._dismiss: 6,
            self._limit: 3,
        }

    def life(self) -> Generator[None]:
        while True:
            (way,) = self.rng.choices(list(self._ways), list(self._ways.values()))
            yield from way()
            yield

    def ask(self, *asks: CommandRequest) -> list[Result | None]:
        """The answers; None where it is unknown, because the process died on the way."""
        try:
            results = self.process.ask(*asks)
        except Died:
            self.process.restart()
            return [None] * len(asks)
        return [None if isinstance(each, Unavailable) else each for each in results]

    def do(self, command: c.Command, root_id: str | None = None) -> Result | None:
        return self.ask(CommandRequest(command, self.process.actor(root_id)))[0]

    # -- submitting ------------------------------------------------------------------------

    def _submit(self) -> Iterator[None]:
        if len(self.process.auditor.live) < MAX_LIVE:
            yield from self._place(self._new())

    def _place(self, command: c.SubmitTask | c.SubmitJob) -> Iterator[None]:
        key = Idempotency(PROJECT, f"key {self.process.name} {next(self._serial)}", "body")
        result = None
        while result is None:
            result = self.ask(CommandRequest(command, self.process.actor(), key))[0]
            yield
        if isinstance(result, CommandResult):
            (self.tasks if isinstance(command, c.SubmitTask) else self.jobs).append(result.value)
            self._ask_again(command, key, result)

    def _new(self) -> c.SubmitTask | c.SubmitJob:
        name = f"{self.process.name}-{next(self._serial)}"
        options = self._options(name)
        payload = {"seed": name}
        if self.rng.random() < 0.4:
            parent = self._one_of(self.jobs) if self.rng.random() < 0.15 else None
            key = KEY.removeprefix("key:") if self.rng.random() < 0.2 else None
            return c.SubmitJob(name, PROJECT, INTENT, "P2", payload, parent, key, options)
        lifecycle = self.rng.choice(("board", "review"))
        near = self.rng.random()
        parent = self._one_of(self.tasks) if near < 0.12 else None
        other = self._one_of(self.tasks) if 0.12 <= near < 0.35 else None
        return c.SubmitTask(
            *(name, PROJECT, lifecycle, INTENT, "cli"),
            payload=payload,
            parent_id=parent,
            depends_on=() if other is None else (other,),
            budget=self.rng.randint(1, 3 * MAX_CALL) if self.rng.random() < 0.55 else None,
            options=options,
            queue=self.rng.random() < 0.85,
        )

    def _family(self) -> Iterator[None]:
        """A task with a budget, and subtasks without one, some added while others are at work."""
        if len(self.process.auditor.live) >= MAX_LIVE:
            return
        parent = f"{self.process.name}-{next(self._serial)}"
        budget = self.rng.randint(MAX_CALL, 6 * MAX_CALL)
        known = (PROJECT, "board", INTENT, "cli")
        options = {**ROLE.options, "on_budget_exceeded": "ask"}
        yield from self._place(c.SubmitTask(parent, *known, budget=budget, options=options))
        for number in range(self.rng.randint(2, 4)):
            child = c.SubmitTask(
                f"{parent}-c{number}", *known, parent_id=parent, options=options, queue=True
            )
            yield from self._place(child)

    def _options(self, name: str) -> dict[str, Any]:
        """How often it may fail, what a spent budget does, and for some a plan, or a planner."""
        options: dict[str, Any] = dict(ROLE.options)
        options["on_budget_exceeded"] = self.rng.choice(("ask", "ask", "stop"))
        if self.rng.random() < 0.15:
            options["job_timeout_ms"] = 60_000
        drawn = self.rng.random()
        if drawn < PLANNED / 3:
            options["plan"] = document(name, 1)
        elif drawn < PLANNED:
            options["planner"] = True
        return options

    def _ask_again(self, command: c.Command, key: Idempotency, first: CommandResult) -> None:
        """P2: the same body gets the same answer, another body a refusal; neither does anything."""
        drawn = self.rng.random()
        if drawn > 0.3:
            return
        digest = "body" if drawn < 0.2 else "another body"
        again = self.ask(
            CommandRequest(command, self.process.actor(), key._replace(digest=digest))
        )[0]
        if again is None:
            return
        if digest == "body":
            same = isinstance(again, CommandResult) and again == CommandResult(
                first.value, repeated=True
            )
        else:
            same = isinstance(again, DetentError) and again.code == "idempotency_conflict"
        if not same:
            raise Violation(f"P2: {command} with {digest} was answered {again}, first {first}")

    # -- people ----------------------------------------------------------------------------

    def _one_of(self, names: list[str]) -> str | None:
        return self.rng.choice(names[-RECENT:]) if names else None

    def _cancel(self) -> Iterator[None]:
        if self.jobs and self.rng.random() < 0.4:
            self.do(c.CancelJob(self.rng.choice(self.jobs[-RECENT:])))
        elif self.tasks:
            self.do(c.CancelTask(self.rng.choice(self.tasks[-RECENT:])))
        yield

    def _signal(self) -> Iterator[None]:
        """What something waits for, or, early, what nothing waits for yet."""
        open_waits = self.process.auditor.run_records.waits.items()
        waits = [key for key, wait in open_waits if wait.kind == "signal"]
        if waits and self.rng.random() < 0.8:
            job_id, name = self.rng.choice(waits)
            self.do(c.SendSignal(job_id, f"go-{name}"))
        elif self.jobs:
            name = f"go-signal-{self.rng.randrange(3)}"
            self.do(c.SendSignal(self.rng.choice(self.jobs[-RECENT:]), name))
        yield

    def _answer(self) -> Iterator[None]:
        open_waits = self.process.auditor.run_records.waits.items()
        asked = [(*key, wait.kind) for key, wait in open_waits if wait.kind in ANSWERS]
        if asked:
            job_id, name, kind = self.rng.choice(asked)
            yield  # another client may answer or cancel meanwhile
            self.do(c.AnswerJob(job_id, self.rng.choice(ANSWERS[kind]), name))
        yield

    def _raise(self) -> Iterator[None]:
        """More money, mostly for what waits for it."""
        short = list(self.process.auditor.short_of_money())
        task_id = self._one_of(short) or self._one_of(self.tasks)
        if task_id is not None:
            account = self.process.auditor.money.accounts[task_id]
            self.do(c.RaiseBudget(task_id, account.spent + self.rng.randint(0, 2 * MAX_CALL)))
        yield

    def _drain(self) -> Iterator[None]:
        """A resource is drained for a while."""
        name = self.rng.choice(list(RESOURCES))
        self._operate(resources.drain_resource, name)
        yield
        yield
        self._operate(resources.undrain_resource, name)
        yield

    def _limit(self) -> Iterator[None]:
        """A pause, mostly with an end, or a rate; after a while it is ended, if it still holds."""
        name = self.rng.choice(("all", f"intent:{INTENT}", f"project:{PROJECT}", KEY))
        drawn = self.rng.random()
        if drawn < 0.6:
            for_us = self.rng.randrange(1, LONGEST_PAUSE_US) if drawn < 0.45 else None
            self.do(lc.SetPause(name, "by chance", for_us))
            yield
            yield
            if drawn >= 0.3:
                self._surely(lc.EndPause(name))
        elif name != "all":
            self.do(lc.SetLimit(name, rate=1, per_s=self.rng.choice((1, 5, 30))))
            for _ in range(6):
                yield
            self._surely(lc.EndLimit(name))
        yield

    def _surely(self, command: lc.LimitCommand) -> None:
        """Repeat until it is known to be done: nothing starts while a pause lasts without end."""
        while self.do(command) is None:
            continue

    def _operate(self, operation: Callable[..., Any], name: str) -> None:
        """As an operator would; whether it was done is looked up where it matters."""
        self.process.store.begin()
        try:
            operation(self.process.core, OPERATOR, name=name)
        except Died:
            self.process.restart()
        except Unavailable:
            pass

    def _judge(self) -> Iterator[None]:
        """Look, think, decide about what was seen. Now and then a run tries to judge itself."""
        world = self.process.auditor.world
        task_id = self._one_of(list(self.process.auditor.ready)) or self._one_of(self.tasks)
        if task_id is None:
            return
        seen = self.process.version(task_id)
        yield
        own = world.tasks[task_id].root_id if self.rng.random() < 0.1 else None
        if self.rng.random() < 0.6:
            result = self.do(c.AcceptTask(task_id, seen=seen), own)
        else:
            result = self.do(c.RejectTask(task_id, "again", seen, self.rng.random() < 0.7), own)
        if own is not None and isinstance(result, CommandResult):
            raise Violation(f"P12: a run judged its own {task_id}")
        yield

    def _dismiss(self) -> Iterator[None]:
        """Mostly what has failed below another; now and then a run tries it on its own tree."""
        tasks = self.process.auditor.world.tasks
        failed = [task.id for task in tasks.values() if task.parent_id and settlement.failed(task)]
        task_id = self._one_of(failed) if self.rng.random() < 0.8 else self._one_of(self.tasks)
        if task_id is None:
            return
        yield  # another client may run it again meanwhile
        own = tasks[task_id].root_id if self.rng.random() < 0.1 else None
        result = self.do(c.DismissSubtask(task_id, "not needed"), own)
        if own is not None and isinstance(result, CommandResult):
            raise Violation(f"P12: a run dismissed {task_id} of its own tree")
        yield

    def _push(self) -> Iterator[None]:
        """Run, retry, resume or unblock."""
        if self.jobs and self.rng.random() < 0.3:
            self.do(c.RetryJob(self.rng.choice(self.jobs[-RECENT:])))
        elif self.tasks:
            kinds = (c.RetryTask, c.RetryTask, c.QueueTask, c.ResumeTask, c.UnblockTask)
            self.do(self.rng.choice(kinds)(self.rng.choice(self.tasks[-RECENT:])))
        yield

    def _together(self) -> Iterator[None]:
        """Several people in one batch, at the same task: each is answered or refused alone."""
        task_id = self._one_of(self.tasks)
        if task_id is not None:
            kinds = [c.AcceptTask, c.RejectTask, c.CancelTask, c.RetryTask]
            self.rng.shuffle(kinds)
            self.ask(*(CommandRequest(kind(task_id), self.process.actor()) for kind in kinds[:3]))
        yield
