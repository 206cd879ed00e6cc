"""Messages and dialogs for Slack as Block Kit documents.

Texts of agents and people are escaped for mrkdwn, known secrets are redacted, and everything is cut
to Slack's limits.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from detent.integrations.slack.slack_items import (
    SEND,
    Details,
    Item,
    Offer,
    Reference,
    Settlement,
)
from detent.quantity import quantity
from detent.redaction import redact

Json = dict[str, Any]

#: Slack's limits: characters of a section, of a button, of a context and of a notification.
MAX_SECTION, MAX_LABEL, MAX_CONTEXT, MAX_TEXT = 3_000, 75, 2_000, 3_000
#: Slack's limits of a dialog: its title, the options of a list, the characters of an input.
MAX_TITLE, MAX_OPTIONS, MAX_INPUT = 24, 100, 3_000
#: Slack's limit of elements in one block.
MAX_ELEMENTS = 25
#: How many options of a question are buttons; more of them are a list in a dialog.
MAX_BUTTONS = 10
#: How much of the result of a task is shown.
MAX_RESULT = 1_500
CUT = "…"

#: The ids of the elements: a button, or a field of a dialog.
PREFIX = "detent:"
OPTION, ANSWER, ACCEPT, REJECT = "option", "answer", "accept", "reject"
RAISE, STOP, OPEN = "raise", "stop", "open"
FIELD = "field"

HEADINGS: Mapping[str, str] = {
    "question": "Question",
    "confirmation": "Confirmation",
    "review": "Review",
    "budget": "Budget used up",
    "failure": "Failed",
    "quarantine": "In quarantine",
    "subtask": "Subtask failed",
}
#: Actions without a button: the message names the commands.
COMMANDS = ("choose", "dismiss", "resume", "retry")


class Message(NamedTuple):
    """The text of the notification, and the blocks."""

    text: str
    blocks: list[Json]


# ---- texts -----------------------------------------------------------------------------------


def escaped(text: object, longest: int) -> str:
    """A text for mrkdwn: without links, mentions and control characters, and not too long."""
    found: list[str] = []
    left = longest
    for character in redact(str(text)):
        if not (character.isprintable() or character == "\n"):
            character = " "
        shown = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}.get(character, character)
        if len(shown) > left - len(CUT):
            return "".join(found) + CUT
        found.append(shown)
        left -= len(shown)
    return "".join(found)


def plain(text: object, longest: int) -> str:
    """A text without markup and control characters in one line; never empty, because Slack refuses
    empty texts."""
    shown = (each if each.isprintable() else " " for each in redact(str(text)))
    line = " ".join("".join(shown).split()) or "-"
    return line if len(line) <= longest else line[: longest - len(CUT)] + CUT


def _mrkdwn(text: str) -> Json:
    # With `verbatim`, Slack turns no text into a link or a mention.
    return {"type": "mrkdwn", "text": text, "verbatim": True}


def _plain_text(text: object, longest: int) -> Json:
    return {"type": "plain_text", "text": plain(text, longest), "emoji": False}


def _section(text: str) -> Json:
    return {"type": "section", "text": _mrkdwn(text)}


def _context(text: str) -> Json:
    return {"type": "context", "elements": [_mrkdwn(text)]}


# ---- messages --------------------------------------------------------------------------------


def open_message(item: Item, details: Details, dashboard: str, *, buttons: bool) -> Message:
    """The message of an item that waits, with buttons for its legal actions."""
    text = f"{HEADINGS[item.kind]}: {_name(item)}"
    blocks = [_section(headline(item)), *map(_section, _body(item, details))]
    commands = [f"`detent {each.action} {each.reference.id}`" for each in _commanded(details)]
    if commands:
        blocks.append(_context(escaped(f"Also possible: {', '.join(commands)}", MAX_CONTEXT)))
    blocks.append(_context(_origin(item)))
    elements = [*(_buttons(item, details) if buttons else ()), *_link(item, dashboard)]
    if elements:
        blocks.append({"type": "actions", "elements": elements[:MAX_ELEMENTS]})
    return Message(escaped(text, MAX_TEXT), blocks)


def settled_message(heading: str, settlement: Settlement) -> Message:
    """The message of an item that no longer waits; it has no buttons."""
    who = f" by {settlement.actor}" if settlement.actor else ""
    quoted = f": {settlement.quoted}" if settlement.quoted else ""
    outcome = f"*{settlement.what}*{escaped(f'{who}{quoted}', MAX_SECTION // 2)}"
    return Message(plain(f"{settlement.what}{who}", 150), [_section(heading), _section(outcome)])


def headline(item: Item) -> str:
    """The first section of an item's message; it remains when the item is settled."""
    return f"*{HEADINGS[item.kind]}*  {escaped(_name(item), 500)}"


def _name(item: Item) -> str:
    return str(item.row["title"] or item.row["intent"])


def _origin(item: Item) -> str:
    row = item.row
    version = "" if item.question is not None else f"  ·  version {item.version}"
    facts = f"{row['project']}  ·  {row['intent']}  ·  {row['priority']}  ·  {row['id']}{version}"
    return escaped(facts, MAX_CONTEXT)


def _body(item: Item, details: Details) -> Iterator[str]:
    detail = item.detail
    text = detail.get("text") or detail.get("error") or details.error
    if text:
        yield escaped(text, MAX_SECTION)
    options = detail.get("options") or ()
    if options and item.kind in ("question", "confirmation"):
        listed = "\n".join(f"{at}. {_one(each)}" for at, each in enumerate(options, 1))
        yield escaped(listed, MAX_SECTION)
    if item.kind == "budget":
        yield escaped(_budget(item.row), MAX_SECTION)
    if details.review is not None:
        yield escaped("\n".join(_review_lines(details.review)), MAX_SECTION)


def _one(value: object) -> str:
    return plain(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), 500)


def _budget(row: Mapping[str, Any]) -> str:
    spent = f"${row['spent'] / 1_000_000:.2f} spent"
    return spent if row["budget"] is None else f"{spent} of ${row['budget'] / 1_000_000:.2f}"


def _review_lines(review: Mapping[str, Any]) -> Iterator[str]:
    yield f"Round {review['rounds'] + 1}, cost ${review['cost_usd']:.4f}"
    diff = review["diff"]
    if diff is not None:
        files = diff["files"]
        added, removed = (sum(each[name] for each in files) for name in ("added", "removed"))
        named = ", ".join(plain(each["path"], 100) for each in files[:10])
        rest = f" and {len(files) - 10} more" if len(files) > 10 else ""
        yield f"{quantity(len(files), 'file')}, +{added} -{removed}: {named}{rest}"
        yield f"diff {diff['sha256'][:12]}"
    if review["check"] is not None:
        verdicts = {True: "accepts the work", False: "does not accept the work", None: "checks it"}
        yield f"Checker {review['check']['checker']} {verdicts[review['check']['accept']]}."
    if review["open_comments"]:
        yield quantity(review["open_comments"], "open comment")
    result = review["result"]
    text = result.get("text") if isinstance(result, Mapping) else result
    if text not in (None, "", {}):
        shown = text if isinstance(text, str) else json.dumps(text, ensure_ascii=False)
        yield shown if len(shown) <= MAX_RESULT else shown[:MAX_RESULT] + CUT


# ---- buttons ---------------------------------------------------------------------------------


def _commanded(details: Details) -> list[Offer]:
    return [each for each in details.offers if each.action in COMMANDS]


def _buttons(item: Item, details: Details) -> Iterator[Json]:
    at = 0
    for action, reference in sorted(details.offers, key=lambda each: each.action == "cancel"):
        if action == "answer":
            yield from _answer_buttons(item, reference)
        elif action == "accept":
            yield _button(ACCEPT, "Accept", reference, style="primary")
        elif action == "reject":
            yield _button(REJECT, "Reject…", reference, style="danger")
        elif action == "raise":
            at += 1
            above = "" if reference.id == item.stream else f" of {reference.id}"
            yield _button(f"{RAISE}:{at}", f"Raise budget{above}…", reference)
        elif action == "cancel":
            confirm = {
                "title": _plain_text("Stop this task?", 100),
                "text": _plain_text("The task and its subtasks are cancelled.", 300),
                "confirm": _plain_text("Stop", 30),
                "deny": _plain_text("Keep", 30),
            }
            yield _button(STOP, "Stop", reference, confirm=confirm)
        elif action.startswith(f"{SEND}:"):
            event = action.removeprefix(f"{SEND}:").removeprefix("task_")
            yield _button(action, event.replace("_", " ").capitalize(), reference)


def _answer_buttons(item: Item, reference: Reference) -> Iterator[Json]:
    options: Sequence[Any] = item.detail.get("options") or ()
    if len(options) <= MAX_BUTTONS:
        for at, each in enumerate(options, 1):
            yield _button(f"{OPTION}:{at}", f"{at}. {_one(each)}", reference)
    if not options or len(options) > MAX_BUTTONS or item.detail.get("other"):
        yield _button(ANSWER, "Answer…", reference)


def _button(name: str, label: str, reference: Reference, **more: Any) -> Json:
    return {
        "type": "button",
        "action_id": f"{PREFIX}{name}",
        "text": _plain_text(label, MAX_LABEL),
        "value": reference.encoded(),
        **more,
    }


def _link(item: Item, dashboard: str) -> Iterator[Json]:
    if dashboard and item.question is None:
        text = _plain_text("Open", MAX_LABEL)
        url = f"{dashboard}/tasks/{item.stream}"
        yield {"type": "button", "action_id": f"{PREFIX}{OPEN}", "text": text, "url": url}


# ---- dialogs ---------------------------------------------------------------------------------

TITLES: Mapping[str, tuple[str, str, str]] = {
    ANSWER: ("Answer", "Your answer", "Answer"),
    REJECT: ("Reject", "What has to change; the next run gets it", "Reject"),
    RAISE: ("Raise budget", "The new budget in dollars, such as 12.50", "Raise"),
}


def dialog(action: str, metadata: str, options: Sequence[Any] = ()) -> Json:
    """A dialog with one field: a text, an amount, or a list of options."""
    title, label, submit = TITLES[action]
    element: Json = {"type": "plain_text_input", "action_id": FIELD, "max_length": MAX_INPUT}
    element["multiline"] = action != RAISE
    if options:
        choices = [
            {"text": _plain_text(f"{at}. {_one(each)}", MAX_LABEL), "value": str(at)}
            for at, each in enumerate(options[:MAX_OPTIONS], 1)
        ]
        element = {"type": "static_select", "action_id": FIELD, "options": choices}
    return {
        "type": "modal",
        "callback_id": f"{PREFIX}{action}",
        "private_metadata": metadata,
        "title": _plain_text(title, MAX_TITLE),
        "submit": _plain_text(submit, MAX_TITLE),
        "close": _plain_text("Cancel", MAX_TITLE),
        "blocks": [
            {
                "type": "input",
                "block_id": FIELD,
                "label": _plain_text(label, MAX_SECTION),
                "element": element,
            }
        ],
    }
