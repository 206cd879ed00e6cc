"""Requests for permission of an ACP agent: each is asked in the inbox while the agent waits.

The person who answers chooses one of the agent's own options. A request without an answer (refused,
expired, or the run must end) has the outcome `cancelled` of the protocol.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from detent.app.agent_config import Agent
from detent.kernel import commands as c
from detent.redaction import redact
from detent.transcript import json_fields as fields
from detent.transcript.acp import edit_items, tool_name
from detent.transcript.tool_call import arguments
from detent.worker.active_run import ActiveRun
from detent.worker.engine_client import EngineClient
from detent.worker.runners.agent.agent_process import execute_while_held

#: How often the answer is looked for.
POLL_S = 0.25
LONGEST_TEXT = 4_000
MAX_OPTIONS = 20
#: How many requests of a run can be open; more are cancelled.
MAX_OPEN = 50
#: The option that detent adds if the agent offers no way to refuse; its outcome is `cancelled`.
REFUSE = "Refuse"


class Choice(NamedTuple):
    """An option of the agent: its id, the name that people see, and whether it allows or rejects
    (`allow_once`, `allow_always`, `reject_once`, `reject_always`)."""

    id: str
    name: str
    kind: str


class PermissionRequests:
    """The requests for permission of one run."""

    def __init__(self, agent: Agent, run: ActiveRun, client: EngineClient) -> None:
        self.agent, self.run, self.client = agent, run, client
        self._count = self._open = 0

    async def decide(
        self, call: Mapping[str, Any], choices: Sequence[Choice], cancelled: asyncio.Event
    ) -> str | None:
        """The id of the chosen option; None if the request is cancelled."""
        if self.agent.permissions != "ask":
            return chosen_by_policy(self.agent.permissions, choices)
        if self._open >= MAX_OPEN:
            return None
        self._open += 1
        try:
            return await self._answer(call, choices, cancelled)
        finally:
            self._open -= 1

    async def _answer(
        self, call: Mapping[str, Any], choices: Sequence[Choice], cancelled: asyncio.Event
    ) -> str | None:
        self._count += 1
        wait = f"permission:{self.run.run_id}:{self._count}"
        named = named_options(choices)
        await asyncio.to_thread(self._ask, wait, question_text(call), list(named))
        while not cancelled.is_set() and self.run.stopped is None:
            outcome = await asyncio.to_thread(self._outcome, wait)
            if outcome is not None:
                return named.get(str(outcome["value"]))
            self.run.record_activity()  # the agent is waiting for a person, not idle
            try:
                await asyncio.wait_for(cancelled.wait(), POLL_S)
            except TimeoutError:
                continue
        return None

    def _ask(self, wait: str, text: str, options: Sequence[str]) -> None:
        limit_s = self.agent.permission_timeout_s
        due_at = None
        if limit_s is not None:
            due_at = self.client.now(self.run.held.expired) + round(limit_s * 1_000_000)
        detail = {"text": redact(text), "options": [redact(each) for each in options]}
        command = c.RequestPermission(
            self.run.held.grant, self.run.run_id, wait, due_at=due_at, detail=detail
        )
        execute_while_held(self.client, self.run, command)

    def _outcome(self, wait: str) -> Mapping[str, Any] | None:
        """How the wait ended: `outcome` and `value`."""
        key = (self.run.held.grant.job_id, wait)
        found = self.client.query(lambda view: list(view.checkpoints([key])), self.run.held.expired)
        return found[0].value if found else None


def named_options(choices: Sequence[Choice]) -> dict[str, str | None]:
    """By the name that people see, the id of the option; None for an option that detent adds."""
    named: dict[str, str | None] = {}
    for each in choices[:MAX_OPTIONS]:
        name = redact(each.name)
        named[name if name and name not in named else f"{name} ({each.id})"] = each.id
    if not any(each.kind.startswith("reject") for each in choices):
        named[REFUSE] = None
    return named


def chosen_by_policy(policy: str, choices: Sequence[Choice]) -> str | None:
    """The first option that allows or rejects this once, else the first that does so always."""
    wanted = "allow" if policy == "allow" else "reject"
    for kind in (f"{wanted}_once", f"{wanted}_always"):
        for each in choices:
            if each.kind == kind:
                return each.id
    return None


def question_text(call: Mapping[str, Any]) -> str:
    """What the agent wants to do: the title of the tool call, and its edits or its input."""
    title = fields.text(call, "title") or tool_name(call)
    edits = [each.diff for each in edit_items(call) if each.diff]
    more = "\n".join(edits) or arguments(call.get("rawInput")) or ""
    text = f"May the agent do this? {title}" + (f"\n\n{more}" if more else "")
    return text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}\n[…]"
