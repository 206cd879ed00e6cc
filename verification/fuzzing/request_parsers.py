"""Parsers of what arrives over HTTP: bodies, queries, headers, deliveries, and A2A and MCP."""

import json
import os
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, cast
from urllib.parse import parse_qsl

import msgspec
from starlette.requests import Request

from detent import http_requests
from detent.addresses import networks
from detent.gateway import auth, strict_json
from detent.gateway.feed_routes import query_from
from detent.gateway.operation_routes import version_from
from detent.gateway.sign_in_routes import _command_line, _packed, _unpacked
from detent.integrations.a2a import a2a_parameters, a2a_server
from detent.integrations.mcp.mcp_task_fields import answers_in, missing_arguments
from detent.integrations.mcp.mcp_tools import resource_from
from detent.integrations.slack.slack_blocks import FIELD
from detent.integrations.slack.slack_items import Reference, reference_from
from detent.integrations.slack.slack_replies import _button_click, _dialog_click
from detent.integrations.webhooks.outgoing_http import Response
from detent.integrations.webhooks.webhook_dispatcher import _retry_after_s
from detent.kernel.traceparent import parse_traceparent
from detent.operations import OPERATIONS
from detent.operations.context import Core
from detent.operations.cursor_pages import _read_cursor, _write_cursor
from detent.operations.forge_deliveries import HOOKS, receive
from detent.operations.history import moment_from
from detent.operations.input_models import input_of
from detent.settings import Settings
from detent.submission import request
from detent.submission.not_before import delay_from
from detent.worker.network_proxy import target_of
from verification.fuzzing.parser import (
    Parser,
    Violation,
    header,
    if_table,
    of_header,
    of_text,
    same,
    text,
)

LIMITS = strict_json.Limits.of(Settings())


def document(read: Callable[[Any], object]) -> Callable[[bytes], object]:
    """What reads the JSON of a request."""
    return lambda data: read(strict_json.decode(data, LIMITS))


def body(data: bytes) -> object:
    """The value of a body is that of its canonical text."""
    found = strict_json.decode(data, LIMITS)
    again = strict_json.decode(json.dumps(found).encode(), LIMITS)
    same(again, found, "a body, encoded and decoded")
    return found


# ---- operations ------------------------------------------------------------------------------

REQUESTS = (
    request.TaskRequest,
    request.JobRequest,
    request.BoardRequest,
    request.EnqueueRequest,
    request.SubtaskRequest,
)
NAMES = tuple(sorted(OPERATIONS))


def submission(data: bytes) -> object:
    """The first byte chooses the kind of request."""
    kind = REQUESTS[data[0] % len(REQUESTS)] if data else REQUESTS[0]
    found = strict_json.decode(data[1:], LIMITS)
    return request.read(kind, found) if isinstance(found, dict) else None


def operation(data: bytes) -> object:
    """The first byte chooses the operation; what follows is its body or its query string."""
    chosen = input_of(OPERATIONS[NAMES[(data[0] if data else 0) % len(NAMES)]])
    rest = data[1:]
    if chosen.in_query:
        return chosen.read(strict_json.once(parse_qsl(header(rest), keep_blank_values=True)))
    return chosen.read(strict_json.decode(rest, LIMITS))


def feed_query(data: bytes) -> object:
    return query_from(parse_qsl(header(data), keep_blank_values=True), None)


def entity_tag(given: str) -> object:
    """The route handles `*` before this."""
    return None if given.strip() == "*" else version_from(given)


def cursor(given: str) -> object:
    found = _read_cursor(given, "tasks", "-created_at")
    same(
        _read_cursor(_write_cursor("tasks", "-created_at", *found), "tasks", "-created_at"),
        found,
        "a cursor, written and read",
    )
    return found


def sign_in_cookie(given: str) -> object:
    found = _unpacked(given)
    same(_unpacked(_packed(*found)), found, "a cookie, written and read")
    return found[0].state.encode()


def sign_in_query(data: bytes) -> object:
    """The query of a command line that asks for a sign-in."""
    return _command_line(Request({"type": "http", "query_string": data, "headers": []}))


def traceparent(given: str) -> object:
    found = parse_traceparent(given)
    same(found and parse_traceparent(str(found)), found, "a trace context, written and read")
    return found


# ---- integrations ----------------------------------------------------------------------------

SECRET = "VARIABLE_OF_FUZZING"
REPOSITORY = "a/b"


def delivery(forge: str) -> Callable[[bytes], object]:
    """A delivery with the right secret: the first line names its event, the rest is its body."""
    hook = HOOKS[forge]
    settings = Settings(
        **{hook.secret: f"env:{SECRET}", hook.repositories: (f"{REPOSITORY}=fix",)}  # type: ignore[arg-type]
    )
    engine = SimpleNamespace(transaction=lambda *_, **__: "accepted")
    core = cast(Core, SimpleNamespace(settings=settings, engine=engine))
    signed = hook._replace(signed=lambda *_: True, ident=lambda _: "a delivery")

    def read(data: bytes) -> object:
        os.environ[SECRET] = "of the fuzzing"
        event, _, rest = data.partition(b"\n")
        return receive(core, signed, {"x-github-event": header(event)}, rest)

    return read


def signature(data: bytes) -> object:
    """Headers, one in each line. No one can sign without the secret, so none may be accepted."""
    lines = (line.partition(":") for line in header(data).split("\n"))
    given = {name.strip().lower(): value.strip() for name, _, value in lines}
    for hook in HOOKS.values():
        for secret in ("of the fuzzing", "whsec_b2YgdGhlIGZ1enppbmc="):
            if hook.signed(secret, given, b"{}"):
                raise Violation(f"{hook.forge} accepts {given}")
        hook.ident(given)
    return None


def slack_button(value: str) -> object:
    """The value of a button; the rest of the message is Slack's own."""
    pressed = {"action_id": "detent_accept", "action_ts": "1", "value": value}
    place = {"channel": {"id": "C"}, "user": {"id": "U"}, "container": {"message_ts": "1"}}
    found = _button_click({"actions": [pressed], **place}, "accept")
    if found is not None:
        again = reference_from(found.reference.encoded())
        same(again, found.reference, "a reference, written and read")
    return found


def slack_dialog(given: str) -> object:
    """The text that a person has written into a dialog."""
    reference = Reference("t1", 1)
    view = {
        "id": "V",
        "callback_id": "detent_reject",
        "state": {"values": {FIELD: {FIELD: {"value": given}}}},
        "private_metadata": json.dumps({"channel": "C", "reference": reference}),
    }
    return _dialog_click({"view": view, "user": {"id": "U"}})


def a2a_request(value: Any) -> object:
    method, params = a2a_server._request(value, "1.0")
    kinds = (
        a2a_parameters.SendParams,
        a2a_parameters.TaskParams,
        a2a_parameters.PushConfig,
        a2a_parameters.PushParams,
        a2a_parameters.ListParams,
    )
    return method, a2a_server._read(kinds[len(method) % len(kinds)], params)


QUESTIONS = {
    "questions": [
        {"key": "k", "name": "n", "text": "?", "options": ["a", "b"], "other": False},
        {"key": "y", "name": "m", "text": "?", "options": ["yes", "no"], "other": False},
    ]
}


def mcp_answers(value: Mapping[str, Any]) -> object:
    missing_arguments({"properties": {"a": {"type": "string"}}, "required": ["a"]}, value)
    return answers_in(QUESTIONS, value)


def retry_after(given: str) -> object:
    found = _retry_after_s(Response(503, {"retry-after": given}, b""), 1_700_000_000_000_000)
    if not 0 <= found <= 86_400:
        raise Violation(f"a delay of {found} s")
    return found


def problem(data: bytes) -> object:
    """The first byte chooses the HTTP status of the response that the client reads."""
    statuses = (400, 401, 403, 404, 409, 413, 422, 429, 500, 503)
    return http_requests.error_from(statuses[(data[0] if data else 0) % 10], data[1:])


ADDRESS = ("127.0.0.1", ":5680", "@", "[::1]")
JSON_SCRAPS = ('{"a":', "[", "]", "}", "1e999", "NaN", "\\u00", '"', "null", "true", "-0")
PARSERS = {
    "body": Parser(body, JSON_SCRAPS),
    "submission": Parser(
        submission,
        ('\0{"intent":"x"', ',"payload":{', "}", ',"priority":"P0"', ',"source":"api"', "null"),
    ),
    "operation": Parser(
        operation, ('{"task_id":"t"', ',"reason":"', '"}', "&limit=", "a=1", "null", "%00", ",")
    ),
    "feed-query": Parser(feed_query, ("cursor=", "&", "follow=false", "names=a,b", "%00", "-1")),
    "cursor": Parser(of_header(cursor), ("eyJ", "=", "W10", "-", "WyJ0YXNrcyIsIi1jcmVhdGVkX2F0")),
    "header": Parser(
        of_header(lambda given: auth.credentials({"authorization": given})), ("Bearer ", "detent_")
    ),
    "cookie": Parser(
        of_header(lambda given: auth.credentials({"cookie": given})), ("detent=", ";", "__Host-")
    ),
    "host": Parser(
        of_header(lambda given: auth.check_host({"host": given}, ["127.0.0.1:5680"])), ADDRESS
    ),
    "origin": Parser(
        of_header(
            lambda given: auth.check_origin({"origin": given}, "127.0.0.1:5680", required=True)
        ),
        ("http://", "null", *ADDRESS),
    ),
    "entity-tag": Parser(of_header(entity_tag), ('"7"', "W/", "*", '"', "9")),
    "sign-in-cookie": Parser(
        of_header(sign_in_cookie),
        ("W1siYSIsImIiLCJjIl0sbnVsbF0=", "W1si", "bnVsbF0=", "LFtd", "="),
        (ValueError, RecursionError, msgspec.MsgspecError),  # the caller refuses all of them
    ),
    "sign-in-query": Parser(
        sign_in_query, ("port=", "8080", "&state=", "&challenge=", "abcdefghijklmnopqrst")
    ),
    "traceparent": Parser(
        of_header(traceparent),
        ("00-", "0af7651916cd43dd8448eb211c80319c", "-b7ad6b7169203331-", "01", "ff-"),
    ),
    "not-before": Parser(
        of_text(delay_from), ("2030-01-01T12:00:00", "Z", "+01:00", "10m", "2h", "1d", "9")
    ),
    "moment": Parser(of_text(moment_from), ("0001-01-01", "T12:00:00", "Z", "+14:00", "9999-12")),
    "networks": Parser(
        of_text(lambda given: networks([given], "webhooks.allow")), ("10.", "0/8", "::", "/129")
    ),
    "github-delivery": Parser(
        delivery("github"),
        ("push\n", '{"repository":{"full_name":"a/b"}', ',"ref":"refs/heads/x"', "}", "delete\n"),
    ),
    "gitlab-delivery": Parser(
        delivery("gitlab"),
        ("\n", '{"project":{"path_with_namespace":"a/b"}', ',"object_kind":"push"', "}", ',"ref":'),
    ),
    "signature": Parser(
        signature,
        ("x-hub-signature-256: sha256=", "\n", "webhook-signature: v1,", "x-gitlab-token: "),
    ),
    "slack-button": Parser(of_text(slack_button), ('["t1",', "1,", "null", "]", '"q"')),
    "slack-dialog": Parser(of_text(slack_dialog), ("12.50", "$", "\n")),
    "a2a-request": Parser(
        document(a2a_request),
        (
            '{"jsonrpc":"2.0","method":"SendMessage"',
            ',"params":{"message":{',
            '"parts":[{"text":"x"}]',
            '"role":"ROLE_USER"',
            "}}",
            ',"messageId":"m"',
        ),
        (a2a_server.A2aError, *Parser(body, ()).errors),
    ),
    "mcp-answers": Parser(
        document(if_table(mcp_answers)),
        ('{"k":{"action":"accept"', ',"content":{"answer":"a"}', "}", '"y":', '{"confirm":true}'),
    ),
    "mcp-resource": Parser(of_text(resource_from), ("detent://tasks/", "t1", "/why", "/logs")),
    "retry-after": Parser(
        of_header(retry_after), ("Wed, 21 Oct 2015 07:28:00 GMT", "120", "-0000", "9999")
    ),
    "problem": Parser(
        problem, ('{"code":"invalid"', ',"detail":"x"', ',"hint":', "}", '"retry_after_s":', "[1]")
    ),
    "proxy-request": Parser(
        target_of,
        ("CONNECT a.example:443 HTTP/1.1\r\n", "GET http://a/", " HTTP/1.1", "\r\n", "[::1]"),
        (ValueError,),
    ),
    "text-of-a-query": Parser(lambda data: strict_json.plain(text(data), "a"), ("%00", "\0")),
}
