"""An installation and a Notion server with one clock, for tests of the sync."""

import itertools
from collections.abc import Callable
from typing import Any

import httpx2

from detent.engine import Engine
from detent.engine.claims import ClaimRequest
from detent.integrations.notion.notion_api import Notion
from detent.integrations.notion.notion_sync import Sync, Synced
from detent.kernel import commands as c
from detent.operations.context import Core
from detent.settings import Settings
from detent.store.memory import MemoryStore
from detent.testing.clock import VirtualClock
from verification.notion.notion_server import NotionServer

PERSON = c.Actor("person")


class World:
    """An installation, a Notion server, and a clock for both; tests can fail any request."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []
        self.server = NotionServer(clock=lambda: self.now)
        store = MemoryStore(VirtualClock())
        settings = Settings(notion_parent=self.server.parent)
        self.core = Core(store, Engine(store), settings, {"dig": {}})
        #: Called with the number of a request, before it is sent and after its response.
        self.hook: Callable[[str, int], None] = lambda *_: None
        self._count = itertools.count()

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds

    def sync(self) -> Sync:
        """The sync of a new process, a little later."""
        self.now += 10
        self._count = itertools.count()
        inner = self.server.transport()

        def answer(request: httpx2.Request) -> httpx2.Response:
            number = next(self._count)
            self.hook("before", number)
            response = inner.handle_request(request)
            self.hook("after", number)
            return response

        notion = Notion(
            "http://notion.test",
            self.server.token,
            transport=httpx2.MockTransport(answer),
            sleep=self.sleep,
            clock=lambda: self.now,
        )
        return Sync(self.core, notion)

    def run(self) -> Synced:
        return self.sync().run()

    def rows(self, title: str) -> dict[str, Any]:
        found = self.server.rows(f"detent {title}")
        made = {row["ID"]: row for row in found}
        assert len(made) == len(found), "a page exists twice"
        return made

    # -- work ------------------------------------------------------------------------------

    def submit(self, task_id: str, **more: Any) -> None:
        fields = {"project": "p", "lifecycle": "board", "intent": "dig", "source": "cli", **more}
        self.core.engine.do(c.SubmitTask(task_id, **fields), PERSON)

    def complete(self) -> str:
        (claimed,) = self.core.engine.claim(ClaimRequest("w", "nonce", 1))
        run = claimed.job.run_id or ""
        self.core.engine.do(c.CompleteRun(claimed.grant, run, None, 0), PERSON)
        return run

    def set_state(self, **values: Any) -> None:
        self.core.engine.transaction(lambda tx: tx.put_rows("system_state", values))
