"""Numbers with their nouns, for messages: `1 task`, `2 tasks`. Pure."""


def quantity(count: int, noun: str) -> str:
    """Return the number with the noun, which takes an `s` unless the number is one."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
