"""Writes the index of docs/decisions from the title and status of every page there."""

import re
from pathlib import Path

DECISIONS = Path(__file__).resolve().parent.parent / "docs" / "decisions"
HEADER = """\
# Decisions

One page per decision that has real alternatives: the question, the choice, the reason, and what
follows. A decision that no longer holds is not rewritten: a new page replaces it, and both say so.
To add one, copy the newest page, take the next number and run `./dev generate`.

Rulings about the lifecycles (0001 to 0045) are one table:
[lifecycle rulings](../reference/lifecycle-rulings.md).

| number | decision | status |
|---|---|---|
"""
PAGE = re.compile(r"\A# (?P<number>\d{4}): (?P<title>.+)\n\nStatus: (?P<status>.+)\n")


def index() -> str:
    """The index page: one row per decision, in order of their numbers."""
    return HEADER + "".join(_row(page) for page in sorted(DECISIONS.glob("[0-9]*.md")))


def _row(page: Path) -> str:
    match = PAGE.match(page.read_text(encoding="utf-8"))
    if match is None or not page.name.startswith(match["number"] + "-"):
        raise SystemExit(f'{page}: starts with "# NNNN: title", an empty line and "Status: …"')
    return f"| {match['number']} | [{match['title']}]({page.name}) | {match['status']} |\n"
