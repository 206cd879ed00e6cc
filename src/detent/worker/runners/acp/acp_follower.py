"""Follows the process of an ACP agent: passes its messages to the conversation, and ends both."""

import time
from collections.abc import Callable
from threading import Lock
from typing import Any

from detent.app.run_interface import Stop
from detent.transcript import json_fields as fields
from detent.worker.active_run import ActiveRun
from detent.worker.runners.acp.conversation import Conversation
from detent.worker.runners.agent.agent_process import AgentFollower, Meter
from detent.worker.runners.agent.output_parser import MAX_TEXT, Reader
from detent.worker.runners.follower import TAIL_BYTES
from detent.worker.runners.process_group import Group
from detent.worker.runners.program import Program

#: The share of the grace in which the agent may end its turn by itself, before SIGTERM.
CANCEL_SHARE = 0.5
DOLLARS = "USD"


class AcpFollower(AgentFollower):
    """Reads the messages of an ACP agent as they arrive."""

    def __init__(
        self,
        program: Program,
        group: Group,
        run: ActiveRun,
        *,
        reader: Reader,
        meter: Meter,
        size: Callable[[], None],
        conversation: Conversation,
    ) -> None:
        super().__init__(
            program,
            group,
            run,
            reader=reader,
            meter=meter,
            on_session=lambda _: None,  # the conversation reports it
            size=size,
        )
        self.conversation = conversation
        conversation.log = self._write
        self._writing = Lock()
        self._terminate_at_s: float | None = None
        self._new_message = True
        self._message_id: Any = None

    def __enter__(self) -> "AcpFollower":
        super().__enter__()
        assert self.process.stdin is not None
        self.process.stdin.close()  # the conversation has a descriptor of its own
        self.conversation.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.conversation.close()
        super().__exit__(*error)

    # -- messages --------------------------------------------------------------------------

    def take(self, output: int, chunk: bytes) -> None:
        if output == self.outputs[0]:
            for line, whole in self.lines.feed(chunk):
                self._read_line(line, whole)
        else:
            self._write(chunk)
            self.reader.complain(chunk.decode("utf-8", "replace"))

    def _write(self, data: bytes) -> None:
        """Append to the output; the conversation writes to it too, from its own thread."""
        with self._writing:
            self.run.files.write(data)
            self.last = (self.last + data)[-TAIL_BYTES:]

    def _read_line(self, line: bytes, whole: bool) -> None:
        message = fields.decoded(line) if whole else None
        if message is not None and not self.conversation.receive(dict(message)):
            return  # an earlier run has this part of the session in its output
        self._write(line + b"\n")
        if message is not None and message.get("method") == "session/update":
            self._read_update(fields.mapping(message, "params", "update"))
        super()._read_line(line, whole)

    def _read_update(self, update: Any) -> None:
        kind = update.get("sessionUpdate")
        if kind == "agent_message_chunk":
            self._read_text(fields.mapping(update, "content").get("text"), update.get("messageId"))
        elif kind == "tool_call":
            self._new_message = True
        elif kind == "usage_update":
            self._read_cost(fields.mapping(update, "cost"))

    def _read_text(self, text: Any, message_id: Any) -> None:
        """A part of a message. Another id, or a tool call before it, begins the next message."""
        if isinstance(text, str):
            begins = self._new_message or message_id != self._message_id
            before = "" if begins else self.reader.facts.get("text", "")
            self.reader.facts["text"] = (before + text)[:MAX_TEXT]
            self._new_message, self._message_id = False, message_id

    def _read_cost(self, cost: Any) -> None:
        amount, currency = cost.get("amount"), cost.get("currency")
        if amount is None:
            return
        if currency != DOLLARS:
            self.meter.doubt(f"a cost in {currency!r} was ignored: only {DOLLARS} is counted")
            return
        self.meter.add([(amount, self.reader.agent.cost_counts)])

    # -- the end ---------------------------------------------------------------------------

    def finish(self) -> None:
        for line, whole in self.lines.end():
            self._read_line(line, whole)
        self.conversation.close()
        if self.conversation.error is not None:
            raise self.conversation.error
        self._take_facts()
        self.meter.charge(now=True)

    def check(self) -> None:
        if self._terminate_at_s is not None and time.monotonic() >= self._terminate_at_s:
            self._terminate_at_s = None
            self.group.terminate()
        self._take_facts()
        if self.conversation.facts is not None and self._ended_s is None:
            self._ended_s = time.monotonic()  # however it ended, the process has to exit soon
        super().check()

    def _take_facts(self) -> None:
        facts = self.conversation.facts
        if facts and not self.reader.ended:
            self.reader.facts.update(facts)
            self.meter.tokens = (facts.get("tokens_in", 0), facts.get("tokens_out", 0))

    def _stop(self) -> None:
        """Cancel the turn, then SIGTERM and SIGKILL. Without a lease, end the process now."""
        over = self.conversation.facts is not None or self.run.stopped is Stop.LOST
        if over or self.kill_at_s is not None:
            super()._stop()
            return
        self.conversation.cancel()
        now_s, grace_s = time.monotonic(), self.run.grace_s
        self._terminate_at_s = now_s + grace_s * CANCEL_SHARE
        self.kill_at_s = now_s + grace_s
