"""An installation without a gateway: a memory store, a simulated worker and a virtual clock."""

from collections.abc import Mapping
from typing import Any

from detent.engine import Claimed, Engine, due_timers
from detent.engine.claims import ClaimRequest
from detent.kernel import commands as c
from detent.operations.context import Core
from detent.operations.registry import OWNER, Caller, call
from detent.settings import Settings
from detent.store.memory import MemoryStore
from detent.testing.clock import VirtualClock

WORKER = c.Actor("worker:by-hand")
S_US = 1_000_000


class OperationsClient:
    """Calls operations as the owner, and sends commands as the worker."""

    def __init__(self, intents: Mapping[str, Mapping[str, Any]] | None = None) -> None:
        self.clock = VirtualClock()
        store = MemoryStore(self.clock)
        self.core = Core(store, Engine(store), Settings(), intents or {"build": {}})

    def call(self, operation: str, /, caller: Caller = OWNER, **arguments: Any) -> Any:
        return call(operation, self.core, caller, **arguments)

    def submit(self, **fields: Any) -> str:
        """Submit a task and queue it; returns its id."""
        made = self.call("submit_task", **{"intent": "build", "run": True, **fields})
        return str(made["id"])

    def task(self, task_id: str) -> Any:
        return self.call("show_task", task_id=task_id)

    def state(self, task_id: str) -> str:
        return str(self.task(task_id)["state"])

    def why(self, task_id: str) -> Any:
        return self.call("why", task_id=task_id)

    def reasons(self, task_id: str) -> dict[str, Any]:
        return {each["reason"]: each for each in self.why(task_id)["reasons"]}

    def events(self, task_id: str) -> list[str]:
        return [each["name"] for each in self.call("task_events", task_id=task_id)["events"]]

    # -- the worker ------------------------------------------------------------------------

    def claims(self, most: int = 10) -> list[Claimed]:
        return self.core.engine.claim(ClaimRequest("by-hand", "nonce", most))

    def claim(self) -> Claimed:
        (claimed,) = self.claims(1)
        return claimed

    def report(self, report: c.Command) -> Any:
        return self.core.engine.do(report, WORKER)

    def run_id(self, claimed: Claimed) -> str:
        assert claimed.job.run_id is not None
        return claimed.job.run_id

    def complete(self, claimed: Claimed | None = None, result: Any = None) -> None:
        held = claimed or self.claim()
        self.report(c.CompleteRun(held.grant, self.run_id(held), result, 0))

    def fail(self, claimed: Claimed | None = None, kind: str = "error", **more: Any) -> None:
        held = claimed or self.claim()
        self.report(c.FailRun(held.grant, self.run_id(held), kind, "it broke", 1, **more))

    def time_out(self) -> None:
        held = self.claim()
        self.report(c.TimeOutRun(held.grant, self.run_id(held)))

    def suspend(self, kind: str = "question", claimed: Claimed | None = None, **more: Any) -> None:
        held = claimed or self.claim()
        detail = more.pop("detail", {"text": "Which?"})
        self.report(c.SuspendRun(held.grant, self.run_id(held), kind, kind, detail=detail, **more))

    def reserve(self, claimed: Claimed) -> int | None:
        """The amount that is reserved for the run, in micro-dollars."""
        command = c.ReserveFunds(claimed.grant, claimed.job.run_id or "")
        amount: int | None = self.core.engine.do(command, c.Actor("worker:w1"))
        return amount

    def charge(self, claimed: Claimed, dollars: float, tokens: int = 0) -> Any:
        cost = round(dollars * 1_000_000)
        return self.report(
            c.ChargeRun(claimed.grant, self.run_id(claimed), cost, tokens, 2 * tokens)
        )

    # -- time ------------------------------------------------------------------------------

    def later(self, seconds: float) -> None:
        self.clock.set(self.clock.now + round(seconds * S_US))
        engine = self.core.engine
        engine.transaction(lambda tx: due_timers.run(tx, 1_000, engine.lifetimes))

    def head(self) -> int:
        with self.core.store.read() as view:
            return view.head()
