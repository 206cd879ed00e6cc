"""One process of an agent: reads its output lines, charges its cost while it runs, and ends it.

`exit_status` decides what its end means.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any

from detent.app.failures import Failure
from detent.app.run_interface import Stop
from detent.errors import DetentError, Refused
from detent.kernel import commands as c
from detent.kernel.budget import cost_from, settle
from detent.redaction import redact
from detent.worker.active_run import ActiveRun
from detent.worker.engine_client import EngineClient
from detent.worker.runners.agent.output_parser import Lines, Reader
from detent.worker.runners.follower import Follower
from detent.worker.runners.process_group import Group
from detent.worker.runners.program import Program

#: How often token counts are charged if the cost is unchanged, and the workspace is measured.
CHARGE_S, SIZE_S = 5.0, 5.0
LOOK_MS = 500
LONGEST_MODEL = 200


class Meter:
    """Computes the cost of a run from the totals that the agent's process reports."""

    def __init__(self, run: ActiveRun, client: EngineClient, model: str | None = None) -> None:
        self.run, self.client = run, client
        #: The model that the agent reports, else the configured one.
        self.model = model
        #: The cost of the session before this run, and the highest cost that this run has added.
        self.base = self.highest = 0
        #: The cost of this run in its earlier sessions.
        self.before = 0
        self.tokens = (0, 0)
        self.exceeded = False
        self.doubts: list[str] = []
        self._charged: tuple[int, int, int] = (0, 0, 0)
        self._charged_s = 0.0

    def begin(self, session_cost: int) -> None:
        """Begin a session, or continue one that has already cost this amount."""
        self.before, self.highest = self.cost, 0
        self.base = session_cost
        self.doubts.clear()

    @property
    def cost(self) -> int:
        return self.before + self.highest

    def add(self, amounts: Sequence[tuple[Any, str]]) -> None:
        """Amounts in dollars, each with the name of its total. An invalid amount is ignored."""
        for given, counts in amounts:
            try:
                amount = cost_from(given)
            except DetentError as error:
                self.doubt(f"a reported cost was ignored: {error}")
                continue
            own = {"session": amount - self.base, "run": amount, "line": self.highest + amount}
            settled = settle(self.highest, own[counts])
            if settled.went_back:
                self.doubt(f"the total cost went back to {given}; what was spent stays spent")
            self.highest = settled.total

    def doubt(self, text: str) -> None:
        if len(self.doubts) < 5:
            self.doubts.append(text)

    def charge(self, *, now: bool = False) -> None:
        """Charge the run for new cost, if there is any."""
        known = (self.cost, *self.tokens)
        if known == self._charged:
            return
        money = known[0] != self._charged[0]
        if money or now or time.monotonic() - self._charged_s >= CHARGE_S:
            charge = c.ChargeRun(self.run.held.grant, self.run.run_id, *known, self.model)
            self.exceeded |= execute_while_held(self.client, self.run, charge) == "exceeded"
            self._charged, self._charged_s = known, time.monotonic()


def execute_while_held(client: EngineClient, run: ActiveRun, command: c.Command) -> Any:
    """Execute a command of the run; None, and the run stops, if its lease is lost."""
    try:
        if run.held.expired():
            return None
        return client.execute(command, lease_over=run.held.expired)
    except Refused as refusal:
        if refusal.code != "stale_fence":
            raise
        run.held.stop(Stop.LOST)
        return None


class AgentFollower(Follower):
    """Reads the output lines of an agent as they arrive."""

    def __init__(
        self,
        program: Program,
        group: Group,
        run: ActiveRun,
        *,
        reader: Reader,
        meter: Meter,
        on_session: Callable[[str], None],
        size: Callable[[], None],
    ) -> None:
        super().__init__(program, group, run)
        self.reader, self.meter = reader, meter
        self.on_session, self.size = on_session, size
        self.lines = Lines()
        self.failure: Failure | None = None
        self._session: Any = None
        self._size_s = time.monotonic() + SIZE_S
        self._ended_s: float | None = None
        self._output_s = time.monotonic()
        self._cut = False

    def take(self, output: int, chunk: bytes) -> None:
        super().take(output, chunk)
        self._output_s = time.monotonic()
        if output == self.outputs[0]:
            for line, whole in self.lines.feed(chunk):
                self._read_line(line, whole)
        else:
            self.reader.complain(chunk.decode("utf-8", "replace"))

    def finish(self) -> None:
        """The process has exited: read the rest of its output, and charge its cost."""
        for line, whole in self.lines.end():
            self._read_line(line, whole)
        self.meter.charge(now=True)

    def _read_line(self, line: bytes, whole: bool) -> None:
        if not whole or not self.reader.read(line):
            return
        facts = self.reader.facts
        session = facts.get("session_id")
        if isinstance(session, str) and session and session != self._session:
            self._session = session
            self.on_session(session)
        amounts, self.reader.costs = self.reader.costs, []
        self.meter.add(amounts)
        self.meter.tokens = (facts.get("tokens_in", 0), facts.get("tokens_out", 0))
        if facts.get("model"):
            self.meter.model = redact(facts["model"])[:LONGEST_MODEL]

    def check(self) -> None:
        """Check money, disk space, and a process that stays after its end or waits too long."""
        super().check()
        if self.run.stopped is not None or self._cut:
            return
        self.meter.charge()
        now_s = time.monotonic()
        if self.reader.ended and self._ended_s is None:
            self._ended_s = now_s
        self.reader.was_silent = self._is_silent(now_s)
        late = self._lingers(now_s) or self.reader.has_waited
        if self.meter.exceeded or late or self._too_big(now_s):
            self._cut = True
            self._stop()

    def _lingers(self, now_s: float) -> bool:
        patience_s = self.reader.agent.linger_s
        return self._ended_s is not None and now_s - self._ended_s > patience_s

    def _is_silent(self, now_s: float) -> bool:
        """Whether it reported that it repeats a request, and has printed nothing for too long."""
        silent_s = now_s - self._output_s
        return self.reader.is_repeating and silent_s > self.reader.agent.longest_silent_retry_s

    def _too_big(self, now_s: float) -> bool:
        if now_s < self._size_s:
            return False
        self._size_s = now_s + SIZE_S
        try:
            self.size()
        except Failure as failure:
            self.failure = failure
            return True
        return False

    def _timeout_ms(self) -> int | None:
        asked = super()._timeout_ms()
        return LOOK_MS if asked is None else min(asked, LOOK_MS)
