"""Answers to questions as other protocols send them: options by their texts. Pure."""

from collections.abc import Mapping
from typing import Any

import msgspec

Question = Mapping[str, Any]


def as_text(value: Any) -> str:
    """A value as text: a text is itself, anything else is JSON."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def by_label(question: Question) -> dict[str, Any]:
    """The options of a question by their texts."""
    return {as_text(each): each for each in question["options"]}


def is_yes_or_no(question: Question) -> bool:
    """Whether the options are True and False."""
    options = question["options"]
    return len(options) == 2 and all(isinstance(each, bool) for each in options)
