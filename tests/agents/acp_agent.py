"""An agent on the Python SDK of the Agent Client Protocol, which follows a script.

ACP_SCRIPT names a JSON file: `runs` has the steps of one prompt after the other, `loads` and
`resumes` say whether it continues sessions, `version` is the version of the protocol that it
speaks, and with `stays` it does not exit after its work. What it was asked is in the files of its
sessions, below ACP_STATE.
"""

import asyncio
import atexit
import json
import os
import sys
import time
import uuid
from pathlib import Path
from typing import Any

import acp
from acp import schema
from acp.exceptions import RequestError

SCRIPT: dict[str, Any] = json.loads(Path(os.environ["ACP_SCRIPT"]).read_text())
STATE = Path(os.environ["ACP_STATE"])
OPTIONS = [
    schema.PermissionOption(option_id="yes-id", name="Allow", kind="allow_once"),
    schema.PermissionOption(option_id="always-id", name="Allow always", kind="allow_always"),
    schema.PermissionOption(option_id="no-id", name="Reject", kind="reject_once"),
]


class ScriptedAgent:
    """Follows the script, one list of steps for each prompt of all its processes."""

    def on_connect(self, conn: acp.Client) -> None:
        self.client = conn

    async def initialize(self, protocol_version: int, **given: Any) -> schema.InitializeResponse:
        if SCRIPT.get("silent"):
            await asyncio.Event().wait()
        (STATE / "client.json").write_text(given["client_capabilities"].model_dump_json())
        return schema.InitializeResponse(
            protocol_version=SCRIPT.get("version", protocol_version),
            agent_capabilities=schema.AgentCapabilities(
                load_session=SCRIPT.get("loads", True),
                session_capabilities=schema.SessionCapabilities(
                    resume=schema.SessionResumeCapabilities() if SCRIPT.get("resumes") else None
                ),
                mcp_capabilities=schema.McpCapabilities(http=True),
            ),
        )

    async def new_session(
        self, cwd: str, mcp_servers: Any = None, **_: Any
    ) -> schema.NewSessionResponse:
        if SCRIPT.get("signed_in") is False:
            raise RequestError.auth_required()
        self.cwd = Path(cwd)
        session_id = uuid.uuid4().hex
        servers = [each.model_dump(mode="json") for each in mcp_servers or ()]
        self._store(session_id, {"prompts": [], "servers": servers})
        return schema.NewSessionResponse(session_id=session_id)

    async def load_session(self, cwd: str, session_id: str, **_: Any) -> schema.LoadSessionResponse:
        if not self._file(session_id).exists():
            raise RequestError.resource_not_found(session_id)
        self.cwd = Path(cwd)
        for text in json.loads(self._file(session_id).read_text())["prompts"]:
            await self._update(session_id, acp.update_user_message_text(text))
            await self._update(session_id, acp.update_agent_message_text("REPLAYED"))
        return schema.LoadSessionResponse()

    async def resume_session(
        self, cwd: str, session_id: str, **_: Any
    ) -> schema.ResumeSessionResponse:
        """Continue a session without its history."""
        assert self._file(session_id).exists()
        self.cwd = Path(cwd)
        return schema.ResumeSessionResponse()

    async def set_session_mode(
        self, mode_id: str, session_id: str, **_: Any
    ) -> schema.SetSessionModeResponse:
        if mode_id != "careful":
            raise RequestError.invalid_params({"mode": mode_id})
        known = _read(self._file(session_id))
        self._store(session_id, {**known, "mode": mode_id})
        return schema.SetSessionModeResponse()

    async def prompt(self, session_id: str, prompt: list[Any], **_: Any) -> schema.PromptResponse:
        known = json.loads(self._file(session_id).read_text())
        number = sum(len(each["prompts"]) for each in map(_read, STATE.glob("session-*.json")))
        known["prompts"].append(prompt[0].text)
        self._store(session_id, known)
        for step in SCRIPT["runs"][number]:
            ((name, value),) = step.items()
            reason = await getattr(self, f"do_{name}")(session_id, value)
            if reason is not None:
                return schema.PromptResponse(stop_reason=reason)
        usage = schema.Usage(total_tokens=30, input_tokens=20, output_tokens=10)
        return schema.PromptResponse(stop_reason="end_turn", usage=usage)

    async def cancel(self, session_id: str, **_: Any) -> None:
        (STATE / "cancelled").write_text(session_id)

    # -- steps -----------------------------------------------------------------------------

    async def do_say(self, session_id: str, text: str) -> None:
        await self._update(session_id, acp.update_agent_message_text(text))

    async def do_plan(self, session_id: str, entries: list[str]) -> None:
        made = [acp.plan_entry(each) for each in entries]
        await self._update(session_id, acp.update_plan(made))

    async def do_edit(self, session_id: str, text: str) -> None:
        """Write a file, and report it."""
        (self.cwd / "made.txt").write_text(text)
        content = [acp.tool_diff_content("made.txt", text, "")]
        start = acp.start_edit_tool_call("edit-1", "Write made.txt", "made.txt", text)
        await self._update(session_id, start)
        ended = acp.update_tool_call("edit-1", status="completed", content=content)
        await self._update(session_id, ended)

    async def do_permission(self, session_id: str, title: str) -> str | None:
        """Ask, and report the outcome as a message; a cancelled request ends the turn."""
        call = schema.ToolCallUpdate(
            tool_call_id="call-1", title=title, kind="execute", raw_input={"command": "rm -r build"}
        )
        given = await self.client.request_permission(
            session_id=session_id, tool_call=call, options=OPTIONS
        )
        if given.outcome.outcome == "cancelled":
            return "cancelled"
        await self.do_say(session_id, f"chosen: {given.outcome.option_id}")
        return None

    async def do_write_outside(self, session_id: str, path: str) -> None:
        """Ask the client to write a file, although it does not offer that."""
        try:
            await self.client.write_text_file(session_id=session_id, path=path, content="x")
        except RequestError as error:
            await self.do_say(session_id, f"refused: {error.code}")

    async def do_cost(self, session_id: str, amount: float) -> None:
        cost = schema.Cost(amount=amount, currency="USD")
        update = schema.UsageUpdate(session_update="usage_update", used=1, size=9, cost=cost)
        await self._update(session_id, update)

    async def do_hang(self, session_id: str, _: bool) -> None:
        """Never end, also if it is cancelled."""
        (STATE / "hanging").write_text(str(os.getpid()))
        await asyncio.Event().wait()

    async def do_stop(self, session_id: str, reason: str) -> str:
        return reason

    async def do_fail(self, session_id: str, text: str) -> None:
        raise RequestError.internal_error({"details": text})

    async def do_print(self, session_id: str, text: str) -> None:
        """Print something that is no message."""
        sys.stdout.buffer.write(text.encode() + b"\n")
        sys.stdout.buffer.flush()

    async def do_exit(self, session_id: str, code: int) -> None:
        os.write(2, b"out of ideas\n")
        os._exit(code)

    # -- what it stores --------------------------------------------------------------------

    async def _update(self, session_id: str, update: Any) -> None:
        await self.client.session_update(session_id=session_id, update=update)

    def _file(self, session_id: str) -> Path:
        return STATE / f"session-{session_id}.json"

    def _store(self, session_id: str, content: Any) -> None:
        self._file(session_id).write_text(json.dumps(content))


def _read(file: Path) -> Any:
    return json.loads(file.read_text())


if __name__ == "__main__":
    if SCRIPT.get("stays"):
        atexit.register(time.sleep, 600)
    asyncio.run(acp.run_agent(ScriptedAgent(), use_unstable_protocol=True))  # type: ignore[arg-type]
