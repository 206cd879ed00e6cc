"""The model server: replies to agent command lines on loopback, by a script for each case.

A case is the first part of the path. A request that the real API refuses is refused and recorded as
a problem, and so is one that lacks an earlier turn, a tool's result or a text that it must contain.
"""

import itertools
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from verification.model_apis.model_script import (
    JSON,
    Account,
    Answer,
    Call,
    Malformed,
    ModelApi,
    ModelError,
    Refuse,
    Reply,
    Request,
    Say,
    Stall,
    Step,
    Turn,
)

#: The reply to a request without tools: titles, summaries and other side requests.
ASIDE = Step(Say("A local test"))
#: How often a stalled response checks whether it may end.
STALL_S = 0.05


@dataclass
class Case:
    """One script, and what has happened to it."""

    api: ModelApi
    steps: list[Step]
    requests: list[Request] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    #: A text in the message of a refusal that is no problem.
    expected_problem: str | None = None
    #: The number of the next step, and of the replies that were sent.
    at: int = 0
    #: What every later request of the session must contain, in this order.
    remembered: list[Turn] = field(default_factory=list)
    seen: list[str] = field(default_factory=list)
    #: When the rate limit ends that was reported first, in Unix seconds.
    reset_s: int = 0
    stalled: threading.Event = field(default_factory=threading.Event)
    advanced: threading.Event = field(default_factory=threading.Event)

    @property
    def is_over(self) -> bool:
        return self.at >= len(self.steps)


class ModelServer:
    """Cases by name, and the socket on which they are served."""

    def __init__(self) -> None:
        self.cases: dict[str, Case] = {}
        self.stray: list[str] = []
        self.url = ""
        self._lock = threading.Lock()
        self._ids = itertools.count(1)

    def add(self, name: str, api: ModelApi, *steps: Step) -> Case:
        """Serve a script below `/name`."""
        self.cases[name] = case = Case(api, list(steps))
        return case

    def advance(self, name: str) -> None:
        """Go on to the step after a refusal, a malformed stream or a stall."""
        with self._lock:
            self.cases[name].at += 1
            self.cases[name].stalled.clear()
            self.cases[name].advanced.set()

    # -- requests --------------------------------------------------------------------------

    def reply(self, name: str, request: Request) -> tuple[Case | None, Answer]:
        case = self.cases.get(name)
        if case is None:
            self.stray.append(f"{request.method} /{name}{request.path}")
            return None, Answer(404, JSON, (b"{}",))
        with self._lock:
            case.requests.append(request)
            try:
                return case, self._reply(case, request)
            except ModelError as error:
                if case.expected_problem is None or case.expected_problem not in str(error):
                    case.problems.append(f"{request.method} {request.path}: {error}")
                return case, case.api.refusal(error)

    def _reply(self, case: Case, request: Request) -> Answer:
        api = case.api
        if not api.is_for_model(request):
            raise ModelError(404, "this path is not served")
        api.check(request)
        tools = api.tools(request.body)
        call_id = f"call_{next(self._ids):08d}"
        if not tools:
            return api.answer(request, ASIDE, call_id)
        if case.is_over:
            raise ModelError(400, "the script has no more replies")
        step = self._step(case, request)
        turns = list(api.turns(request.body))
        self._check_memory(case, step, turns)
        return self._answer(case, step, request, tools, call_id)

    def _step(self, case: Case, request: Request) -> Step:
        """The step of this request, which must be sent with the step's account."""
        step, *later = case.steps[case.at :]
        key, path = case.api.key_of(request), request.path

        def is_sent_with(account: Account) -> bool:
            return account.key == key and path.startswith(account.path)

        if isinstance(step.reply, Refuse) and later:
            following = later[0].account
            if following is not None and is_sent_with(following):
                case.at, step = case.at + 1, later[0]
        if step.account is not None and not is_sent_with(step.account):
            raise ModelError(401, f"step {case.at} is for another account than {key} at {path}")
        return step

    def _check_memory(self, case: Case, step: Step, turns: list[Turn]) -> None:
        """The request contains all earlier turns, every result, and the texts of its step."""
        if step.fresh:
            case.remembered.clear()
            case.seen.clear()
        missing = _missing(case.remembered, turns)
        if missing is not None:
            raise ModelError(400, f"the request lacks an earlier turn: {missing}")
        texts = [each.text for each in turns]
        for text in (*case.seen, *step.sees):
            if not any(text in each for each in texts):
                raise ModelError(400, f"the request does not contain {text!r}")
        case.seen += step.sees
        known = {each.call_id for each in case.remembered if each.kind == "result"}
        results = [each for each in turns if each.kind == "result"]
        case.remembered += [each for each in results if each.call_id not in known]

    def _answer(
        self, case: Case, step: Step, request: Request, tools: set[str], call_id: str
    ) -> Answer:
        reply: Reply = step.reply
        if isinstance(reply, Call):
            if reply.tool not in tools:
                raise ModelError(400, f"{reply.tool} is not one of the tools: {sorted(tools)}")
            case.remembered.append(Turn("assistant", "call", "", call_id))
        elif isinstance(reply, Say):
            case.remembered.append(Turn("assistant", "text", reply.text))
        if isinstance(reply, Refuse) and reply.reset_in_s is not None:
            case.reset_s = case.reset_s or int(time.time()) + reply.reset_in_s
            step = replace(step, reply=replace(reply, reset_s=case.reset_s))
        if isinstance(reply, Stall):
            case.advanced.clear()
            case.stalled.set()
        if not isinstance(reply, Refuse | Malformed | Stall):
            case.at += 1
        return case.api.answer(request, step, call_id)


def _missing(remembered: list[Turn], turns: list[Turn]) -> Turn | None:
    """The first turn that is not there, in the order in which they were."""
    rest = iter(turns)
    for want in remembered:
        if not any(_same(want, each) for each in rest):
            return want
    return None


def _same(want: Turn, found: Turn) -> bool:
    if want.kind == "text":
        return found.kind == "text" and want.text in found.text
    return (found.kind, found.call_id) == (want.kind, want.call_id)


# ---- HTTP ------------------------------------------------------------------------------------


@contextmanager
def serving(server: ModelServer) -> Iterator[ModelServer]:
    """Serve on a free port of loopback."""
    http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(server))
    http.daemon_threads = True
    server.url = f"http://127.0.0.1:{http.server_address[1]}"
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield server
    finally:
        for case in server.cases.values():
            case.advanced.set()
        http.shutdown()
        http.server_close()
        thread.join()


def _handler(server: ModelServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            _, name, rest = f"{urlsplit(self.path).path}//".split("/", 2)
            body = self._body()
            headers = {key.lower(): value for key, value in self.headers.items()}
            request = Request(self.command, f"/{rest.rstrip('/')}", headers, body)
            case, answer = server.reply(name, request)
            try:
                self._send(answer, case)
            except OSError:
                self.close_connection = True  # the client was killed, or has given up

        do_GET = do_HEAD = do_DELETE = do_PUT = do_POST  # noqa: N815

        def _body(self) -> dict[str, Any]:
            data = self.rfile.read(int(self.headers.get("content-length") or 0))
            try:
                found = json.loads(data or b"{}")
            except ValueError:
                return {}
            return found if isinstance(found, dict) else {}

        def _send(self, answer: Answer, case: Case | None) -> None:
            self.send_response(answer.status)
            for key, value in answer.headers.items():
                self.send_header(key, value)
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            for chunk in answer.chunks:
                self._chunk(chunk)
            while answer.stalls and case is not None and not case.advanced.wait(STALL_S):
                self._chunk(b": \n\n")  # fails once the client is gone
            self.wfile.write(b"0\r\n\r\n")

        def _chunk(self, data: bytes) -> None:
            self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
            self.wfile.flush()

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    return Handler
