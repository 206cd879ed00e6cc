"""An installation for tests of operations: a store in a test's directory, and a virtual clock."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from detent.engine import Claimed, Engine
from detent.engine.claims import ClaimRequest
from detent.kernel import commands as c
from detent.operations.context import Core
from detent.operations.registry import Caller, Scope, call
from detent.settings import Settings
from detent.store.sqlite import SqliteStore
from detent.testing.clock import VirtualClock

START_US = 1_800_000_000_000_000
INTENTS: dict[str, dict[str, Any]] = {"runQA": {"command": ["true"]}, "review": {"agent": "x"}}
OWNER = Caller("owner")
OURS = Caller("ours", frozenset(Scope), project="ours")
WORKER = c.Actor("worker:w")


class LocalInstallation:
    """A core with its clock; calls operations by name."""

    def __init__(self, core: Core, clock: VirtualClock) -> None:
        self.core, self.clock = core, clock

    def call(self, name: str, caller: Caller = OWNER, /, **arguments: Any) -> Any:
        return call(name, self.core, caller, **arguments)

    def submit(self, **fields: Any) -> str:
        made = self.call("submit_task", **{"intent": "runQA", "run": True, **fields})
        return str(made["id"])

    def claim(self, worker: str = "w", **ask: Any) -> list[Claimed]:
        return self.core.engine.claim(ClaimRequest(worker, "nonce", 10, **ask))

    def report(self, command: c.Command) -> Any:
        return self.core.engine.do(command, WORKER)

    def complete(self, claimed: Claimed) -> None:
        self.report(c.CompleteRun(claimed.grant, str(claimed.job.run_id), None, 0))

    def put(self, table: str, rows: dict[str, Any]) -> None:
        self.core.engine.transaction(lambda tx: tx.put_rows(table, rows))

    def rows(self, table: str) -> Any:
        with self.core.store.read() as view:
            return view.rows(table)


@contextmanager
def local_installation(directory: Path, **settings: Any) -> Iterator[LocalInstallation]:
    clock = VirtualClock(START_US)
    chosen = Settings(store_data_dir=str(directory), **settings)
    store = SqliteStore(directory / "detent.db", clock=clock)
    try:
        yield LocalInstallation(Core(store, Engine(store), chosen, INTENTS), clock)
    finally:
        store.close()
