"""What Slack refuses in a call: tokens, arguments, blocks and views.

Blocks and views are checked with the models of slack_sdk and with the documented limits that the
models do not know.
"""

import warnings
from collections.abc import Collection, Mapping
from typing import Any
from urllib.parse import parse_qsl

import msgspec
from slack_sdk.errors import SlackObjectFormationError
from slack_sdk.models.blocks import Block
from slack_sdk.models.views import View

Json = dict[str, Any]

MAX_BLOCKS, MAX_ELEMENTS, MAX_VIEW_BLOCKS = 50, 25, 100
MAX_TEXT, MAX_METADATA, MAX_PRIVATE = 40_000, 8_000, 3_000
#: By method: the arguments that it takes, and those of them that are required. Methods that only
#: read take a form, not JSON.
FORM, JSON = "form", "json"
_MESSAGE = ("channel", "text", "blocks", "metadata", "parse", "link_names")
METHODS: Mapping[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
    "auth.test": (JSON, (), ()),
    "apps.connections.open": (JSON, (), ()),
    "chat.postMessage": (JSON, (*_MESSAGE, "unfurl_links", "unfurl_media"), ("channel",)),
    "chat.update": (JSON, (*_MESSAGE, "ts"), ("channel", "ts")),
    "chat.delete": (FORM, ("channel", "ts"), ("channel", "ts")),
    "chat.postEphemeral": (JSON, ("channel", "user", "text"), ("channel", "user", "text")),
    "conversations.history": (
        FORM,
        ("channel", "oldest", "limit", "cursor", "include_all_metadata"),
        ("channel",),
    ),
    "conversations.info": (FORM, ("channel",), ("channel",)),
    "views.open": (JSON, ("trigger_id", "view"), ("trigger_id", "view")),
}
LIMITS = {"private_metadata": MAX_PRIVATE, "callback_id": 255}


class Refusal(Exception):
    """A call that Slack refuses, with its error code."""

    def __init__(self, error: str, message: str = "", status: int = 200) -> None:
        super().__init__(error)
        self.error, self.message, self.status = error, message, status

    @property
    def document(self) -> Json:
        more = {"response_metadata": {"messages": [self.message]}} if self.message else {}
        return {"ok": False, "error": self.error, **more}


def arguments_of(method: str, headers: Mapping[str, str], body: bytes) -> Json:
    """The arguments of a call, if it may have them."""
    if method not in METHODS:
        raise Refusal("unknown_method")
    form, allowed, required = METHODS[method]
    media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
    given: Json = {}
    if media_type == "application/json":
        if form != JSON:
            raise Refusal("invalid_post_type", f"{method} takes a form")
        given = _object(body) if body else {}
    elif body:
        given = dict(parse_qsl(body.decode(), keep_blank_values=True))
    given.pop("token", None)
    for name in given.keys() - {*allowed}:
        raise Refusal("invalid_arguments", f"[ERROR] unknown argument {name}")
    for name in required:
        if given.get(name) in (None, "", []):
            raise Refusal("invalid_arguments", f"[ERROR] missing required field: {name}")
    return given


def _object(body: bytes) -> Json:
    try:
        return msgspec.json.decode(body, type=dict[str, Any])
    except msgspec.DecodeError:
        raise Refusal("invalid_json") from None


def check_message(given: Json) -> None:
    """Refuse a message that has no content or too much of it."""
    text, blocks = given.get("text"), given.get("blocks")
    if not text and not blocks:
        raise Refusal("no_text")
    if text is not None and len(text) > MAX_TEXT:
        raise Refusal("msg_too_long")
    if blocks is not None:
        check_blocks(blocks, MAX_BLOCKS)
    metadata = given.get("metadata")
    if metadata is not None:
        shape = {"event_type": str, "event_payload": dict}
        well = isinstance(metadata, dict) and metadata.keys() == shape.keys()
        if not well or not all(isinstance(metadata[name], kind) for name, kind in shape.items()):
            raise Refusal("invalid_metadata_format")
        if len(msgspec.json.encode(metadata)) > MAX_METADATA:
            raise Refusal("metadata_too_large")


def check_blocks(blocks: Any, most: int) -> None:
    if not isinstance(blocks, list):
        raise Refusal("invalid_blocks_format")
    if len(blocks) > most:
        raise Refusal("invalid_blocks", f"no more than {most} items allowed [json-pointer:/blocks]")
    for at, block in enumerate(blocks):
        where = f"[json-pointer:/blocks/{at}]"
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                parsed = Block.parse(block)
                if parsed is None:
                    raise Refusal("invalid_blocks", f"unsupported type: {where}")
                parsed.to_dict()  # validates
        except (SlackObjectFormationError, TypeError, UserWarning, KeyError) as error:
            raise Refusal("invalid_blocks", f"{error} {where}") from None
        _check_elements(block, where)
        _check_texts(block, where)
    ids = [block["block_id"] for block in blocks if "block_id" in block]
    if len(ids) != len(set(ids)):
        raise Refusal("invalid_blocks", "duplicate block_id")


def _check_elements(block: Json, where: str) -> None:
    elements = block.get("elements", [])
    if len(elements) > (10 if block["type"] == "context" else MAX_ELEMENTS):
        raise Refusal("invalid_blocks", f"too many elements {where}")
    ids = [each["action_id"] for each in elements if "action_id" in each]
    if len(ids) != len(set(ids)):
        raise Refusal("invalid_blocks", f"`action_id` is not unique {where}")


def _check_texts(value: Any, where: str) -> None:
    """Refuse empty and too long texts anywhere in a block."""
    if isinstance(value, dict):
        if value.get("type") in ("plain_text", "mrkdwn"):
            longest = 75 if where.endswith("/button") else 3_000
            if not 1 <= len(value.get("text", "")) <= longest:
                raise Refusal("invalid_blocks", f"must be 1 to {longest} characters {where}")
        for name, each in value.items():
            inner = f"{where}/button" if value.get("type") == "button" and name == "text" else where
            _check_texts(each, inner)
    elif isinstance(value, list):
        for each in value:
            _check_texts(each, where)


def check_view(view: Any) -> None:
    """Refuse a dialog that Slack would refuse."""
    if not isinstance(view, dict) or view.get("type") != "modal":
        raise Refusal("invalid_arguments", "[ERROR] view must be a modal")
    if len(view.get("title", {}).get("text", "")) > 24:
        raise Refusal("invalid_arguments", "[ERROR] must be less than 25 characters: title")
    for name, longest in LIMITS.items():
        if len(view.get(name, "")) > longest:
            raise Refusal("invalid_arguments", f"[ERROR] {name} is too long")
    blocks = view.get("blocks")
    if any(each.get("type") == "input" for each in blocks or ()) and "submit" not in view:
        raise Refusal("invalid_arguments", "[ERROR] submit is required with an input block")
    check_blocks(blocks, MAX_VIEW_BLOCKS)
    try:
        View(**view).validate_json()
    except (SlackObjectFormationError, TypeError) as error:
        raise Refusal("invalid_arguments", f"[ERROR] {error}") from None


def check_token(given: str, known: str, revoked: Collection[str], prefix: str) -> None:
    """Refuse a call without the token that it needs."""
    kind, _, token = given.partition(" ")
    if kind != "Bearer" or not token:
        raise Refusal("not_authed")
    if not token.startswith(prefix):
        raise Refusal("not_allowed_token_type")
    if token in revoked:
        raise Refusal("token_revoked")
    if token != known:
        raise Refusal("invalid_auth")
