"""The conversation with one ACP agent: open a session, send the prompt, answer its requests.

It runs on an event loop in a thread of its own. The follower of the process passes the agent's
messages to it and takes its facts, in the form of the facts of an agent that prints lines. detent
offers no access to files and no terminals: the agent uses its own, inside of its sandbox.
"""

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from importlib.metadata import version
from importlib.util import find_spec
from threading import Thread
from typing import Any, NamedTuple, cast

import acp
from acp import schema
from acp.client.connection import ClientSideConnection
from acp.exceptions import RequestError

from detent.trace_propagation import HEADER, VARIABLE
from detent.worker.runners.acp.permission_request import Choice, PermissionRequests

PERMISSION, LOAD = "session/request_permission", "session/load"
METHOD_NOT_FOUND, AUTH_REQUIRED = -32601, -32000
#: The stop reason of a turn that ended by itself.
END_TURN = "end_turn"
MAX_ERROR = 2_000
#: The maximum number of messages that wait; more are ignored, so that no agent fills the memory.
MAX_WAITING = 1_000

Message = dict[str, Any]
Facts = dict[str, Any]
McpServer = schema.HttpMcpServer | schema.SseMcpServer | schema.AcpMcpServer | schema.McpServerStdio


class Opening(NamedTuple):
    """What the conversation begins with; `resume_id` is the session to continue, if any."""

    directory: str
    prompt: str
    resume_id: str | None
    environment: Mapping[str, str]
    #: The session mode, which the agent defines; None for the agent's own choice.
    mode: str | None = None


class Unfit(Exception):
    """The agent cannot be used for this; `subtype` is the reason of the end."""

    def __init__(self, subtype: str, text: str) -> None:
        super().__init__(text)
        self.subtype = subtype


class Conversation:
    """Talks with one process of an agent."""

    def __init__(
        self,
        stdin: int,
        opening: Opening,
        requests: PermissionRequests,
        on_session: Callable[[str], None],
    ) -> None:
        self.opening, self.requests, self.on_session = opening, requests, on_session
        #: Called with each line that detent sends and that the output of the run shows.
        self.log: Callable[[bytes], None] = lambda _: None
        #: How the conversation ended; None until then. Empty if the process ended first.
        self.facts: Facts | None = None
        #: An error of detent itself, which is raised in the thread of the run.
        self.error: Exception | None = None
        self._loop = asyncio.new_event_loop()
        self._cancelled = asyncio.Event()
        self._transport = StdinTransport(stdin, self._log_answer)
        self._session_id: str | None = None
        self._main: asyncio.Task[None] | None = None
        self._thread = Thread(target=self._run, name="acp-conversation", daemon=True)

    # -- called by the follower ------------------------------------------------------------

    def start(self) -> None:
        self._thread.start()

    def receive(self, message: Message) -> bool:
        """Pass a message of the agent; return False if it repeats an earlier part of the session.

        While an agent loads a session, it sends the whole history of it.
        """
        replayed = self._transport.is_replay(message)
        taken = taken_from(message)
        if taken is not None and self._transport.messages.qsize() < MAX_WAITING:
            self._call(self._transport.messages.put_nowait, taken)
        return not replayed

    def cancel(self) -> None:
        """Ask the agent to end its turn; a session that is not open yet is given up."""
        self._call(self._cancel)

    def close(self) -> None:
        """The process has ended: wait for the end of the conversation."""
        self._call(self._transport.messages.put_nowait, None)
        if self._thread.ident is not None:
            self._thread.join()

    def _call(self, function: Callable[..., None], *given: Any) -> None:
        with suppress(RuntimeError):  # the loop is closed: the conversation has ended
            self._loop.call_soon_threadsafe(function, *given)

    # -- on the event loop -----------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._begin())
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
        finally:
            self._loop.close()

    async def _begin(self) -> None:
        self._main = asyncio.current_task()
        facts: Facts = {}
        client = cast(acp.Client, AcpClient(self._decide))
        agent = acp.connect_to_agent(client, self._transport)
        try:
            facts = await self._talk(agent)
        except Unfit as unfit:
            facts = _failed(unfit.subtype, str(unfit))
        except RequestError as error:
            facts = _failed(_subtype(error), _words(error))
        except ValueError as error:  # of pydantic, which validates responses
            facts = _failed("invalid_message", f"a response of the agent is not valid: {error}")
        except (ConnectionError, OSError, asyncio.CancelledError):
            facts = {}  # its exit code and its last output say why
        except Exception as error:
            self.error = error
        finally:
            await agent.close()
            self.facts = facts

    async def _talk(self, agent: ClientSideConnection) -> Facts:
        opened = await agent.initialize(
            protocol_version=acp.PROTOCOL_VERSION,
            client_capabilities=schema.ClientCapabilities(),
            client_info=schema.Implementation(name="detent", version=version("detent")),
        )
        if opened.protocol_version != acp.PROTOCOL_VERSION:
            raise Unfit(
                "protocol_version",
                f"the agent speaks version {opened.protocol_version} of the Agent Client Protocol, "
                f"and detent speaks version {acp.PROTOCOL_VERSION}.",
            )
        able = opened.agent_capabilities or schema.AgentCapabilities()
        session_id = await self._open_session(agent, able)
        await self._report_session(session_id)
        await self._set_mode(agent, session_id)
        self._session_id = session_id
        ended = await agent.prompt(
            session_id=session_id, prompt=[acp.text_block(self.opening.prompt)]
        )
        return _end_of_turn(ended)

    async def _open_session(
        self, agent: ClientSideConnection, able: schema.AgentCapabilities
    ) -> str:
        cwd, known = self.opening.directory, self.opening.resume_id
        servers = mcp_servers(self.opening.environment, able)
        if known is None:
            made = await agent.new_session(cwd=cwd, mcp_servers=servers)
            return str(made.session_id)
        ways: list[Callable[..., Awaitable[object]]] = []
        if able.session_capabilities is not None and able.session_capabilities.resume:
            ways.append(agent.resume_session)
        if able.load_session:
            ways.append(agent.load_session)
        problem = "the agent cannot load an earlier session."
        for way in ways:
            try:
                await way(cwd=cwd, session_id=known, mcp_servers=servers)
                return known
            except RequestError as error:
                if error.code == AUTH_REQUIRED:
                    raise
                problem = _words(error)
        raise Unfit("no_session", problem)

    async def _report_session(self, session_id: str) -> None:
        try:
            await asyncio.to_thread(self.on_session, session_id)
        except Exception as error:
            self.error = error  # an OSError too is one of detent, not of the connection
            raise ConnectionError from error

    async def _set_mode(self, agent: ClientSideConnection, session_id: str) -> None:
        mode = self.opening.mode
        if mode is None:
            return
        try:
            await agent.set_session_mode(session_id=session_id, mode_id=mode)
        except RequestError as error:
            raise Unfit("mode", f"it refuses the session mode {mode!r}: {_words(error)}") from None

    async def _decide(self, call: Message, choices: list[Choice]) -> str | None:
        return await self.requests.decide(call, choices, self._cancelled)

    def _cancel(self) -> None:
        self._cancelled.set()
        if self._main is None or self._main.done():
            return
        if self._session_id is None:
            self._main.cancel()
        else:
            self._cancelling = self._loop.create_task(self._send_cancel(self._session_id))

    async def _send_cancel(self, session_id: str) -> None:
        message = {"jsonrpc": "2.0", "method": "session/cancel"}
        with suppress(OSError):
            await self._transport.send({**message, "params": {"sessionId": session_id}})

    def _log_answer(self, message: Message) -> None:
        outcome = message.get("result")
        if "method" not in message and isinstance(outcome, dict) and "outcome" in outcome:
            self.log(_line(message))


class AcpClient:
    """The methods that the agent may call: it may request permission."""

    def __init__(self, decide: Callable[[Message, list[Choice]], Any]) -> None:
        self._decide = decide

    async def request_permission(
        self,
        session_id: str,  # noqa: ARG002 - there is only one session
        tool_call: schema.ToolCallUpdate,
        options: list[schema.PermissionOption],
        **_: Any,
    ) -> schema.RequestPermissionResponse:
        call = tool_call.model_dump(mode="json", by_alias=True, exclude_none=True)
        choices = [Choice(each.option_id, each.name, each.kind) for each in options]
        chosen = await self._decide(call, choices)
        if chosen is None:
            denied = schema.DeniedOutcome(outcome="cancelled")
            return schema.RequestPermissionResponse(outcome=denied)
        allowed = schema.AllowedOutcome(outcome="selected", option_id=chosen)
        return schema.RequestPermissionResponse(outcome=allowed)


class StdinTransport:
    """Sends messages to the process, and receives those that the follower has read."""

    def __init__(self, stdin: int, sent: Callable[[Message], None]) -> None:
        self.messages: asyncio.Queue[Message | None] = asyncio.Queue()
        self._stdin, self._sent = os.dup(stdin), sent
        self._open, self._sending = True, asyncio.Lock()
        #: The id of the request that loads a session, until it is answered.
        self._loading: Any = None

    def is_replay(self, message: Message) -> bool:
        """Whether the message is a part of the session that is being loaded."""
        if self._loading is None:
            return False
        if "method" not in message and message.get("id") == self._loading:
            self._loading = None
        return "method" in message

    async def send(self, message: Message) -> None:
        if message.get("method") == LOAD:
            self._loading = message["id"]
        async with self._sending:
            if not self._open:
                raise ConnectionError("the process of the agent gets no more messages")
            await asyncio.to_thread(_write, self._stdin, _line(message))
        self._sent(message)

    async def receive(self) -> Message | None:
        """The next response or request; a method that detent does not offer is refused here."""
        while True:
            message = await self.messages.get()
            if message is None or message.get("method", PERMISSION) == PERMISSION:
                return message
            error = {"code": METHOD_NOT_FOUND, "message": "Method not found"}
            refusal = {"jsonrpc": "2.0", "id": message["id"], "error": error}
            with suppress(OSError):
                await self.send(refusal)

    async def close(self) -> None:
        """Close the standard input of the process, which ends most agents."""
        if self._open:
            self._open = False
            os.close(self._stdin)


def taken_from(message: Message) -> Message | None:
    """What the conversation takes of a message; None for a notification and for an invalid one.

    Of a request that is refused, only its id and its method are taken.
    """
    request_id, method = message.get("id"), message.get("method")
    if isinstance(request_id, bool) or not isinstance(request_id, int | str):
        return None
    if method == PERMISSION:
        return message
    if method is not None:
        return {"id": request_id, "method": method}
    error = message.get("error")
    if error is None or isinstance(error, dict):
        return message
    return {**message, "error": {"message": str(error)[:MAX_ERROR]}}


def mcp_servers(environment: Mapping[str, str], able: schema.AgentCapabilities) -> list[McpServer]:
    """detent's MCP server with the token of the run; none without a gateway or the extra `mcp`."""
    url, token = environment.get("DETENT_URL"), environment.get("DETENT_TOKEN")
    trace = environment.get(VARIABLE)
    if not url or not token or find_spec("mcp") is None:
        return []
    if able.mcp_capabilities is not None and able.mcp_capabilities.http:
        named = {"Authorization": f"Bearer {token}"} | ({HEADER: trace} if trace else {})
        headers = [schema.HttpHeader(name=name, value=text) for name, text in named.items()]
        address = f"{url.rstrip('/')}/mcp"
        return [schema.HttpMcpServer(type="http", name="detent", url=address, headers=headers)]
    given = {"DETENT_URL": url, "DETENT_TOKEN": token} | ({VARIABLE: trace} if trace else {})
    variables = [schema.EnvVariable(name=name, value=text) for name, text in given.items()]
    start = ["-m", "detent", "mcp"]
    return [schema.McpServerStdio(name="detent", command=sys.executable, args=start, env=variables)]


# ---- facts -----------------------------------------------------------------------------------


def _end_of_turn(ended: schema.PromptResponse) -> Facts:
    facts: Facts = {"end": True, "subtype": ended.stop_reason}
    facts["is_error"] = ended.stop_reason != END_TURN
    usage = ended.usage
    if usage is not None:
        # Agents differ in whether the tokens of a cache are part of the input.
        rest = usage.total_tokens - usage.output_tokens - (usage.thought_tokens or 0)
        facts["tokens_in"] = max(usage.input_tokens, rest)
        facts["tokens_out"] = usage.output_tokens
    return facts


def _failed(subtype: str, error: str) -> Facts:
    return {"end": True, "is_error": True, "subtype": subtype, "error": error[:MAX_ERROR]}


def _subtype(error: RequestError) -> str:
    return "auth_required" if error.code == AUTH_REQUIRED else "error"


def _words(error: RequestError) -> str:
    more = "" if error.data is None else f": {json.dumps(error.data, ensure_ascii=False)}"
    return f"{error}{more}"


def _line(message: Message) -> bytes:
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


def _write(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]
