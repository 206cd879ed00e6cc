"""Prints the items of a transcript for a person: time, name and text, long parts folded."""

from collections.abc import Iterator, Mapping
from typing import Any

from detent.cli.output import Styled, print_line

#: How many lines of each kind are printed without --full; of other kinds, all.
FOLDED = {"thinking": 3, "tool_call": 3, "tool_result": 5, "edit": 20}
#: The longest line that is printed without --full.
WIDEST = 400
INDENT = " " * 9
STYLES = {
    "session": "dim",
    "thinking": "dim",
    "note": "dim",
    "error": "red bold",
    "tool_call": "cyan",
    "tool_result": "cyan dim",
    "edit": "magenta",
    "cost": "yellow",
}
DIFF_STYLES = {"+": "green", "-": "red", "@": "cyan"}


def print_item(item: Mapping[str, Any], *, full: bool) -> None:
    """Print one item; with `full`, nothing of it is left out."""
    amounts = " · ".join(_amounts(item))
    if amounts and item["kind"] != "cost":
        print_line(Styled(f"{INDENT}turn {item['turn']}: {amounts}", "yellow"))
    head, *rest = _lines(item)
    at = (item["at"] or "")[11:19]
    style = "red bold" if item["is_error"] else STYLES.get(item["kind"], "bold")
    name = Styled(_name(item), style)
    gap = "" if not name.text or not head.text else " "
    print_line(Styled(f"{at:<8} ", "dim"), name, Styled(gap, ""), _cut(head, full))
    most = len(rest) if full else FOLDED.get(item["kind"], len(rest) + 1) - 1
    for line in rest[:most]:
        print_line(Styled(INDENT, ""), _cut(line, full))
    left = len(rest) - most
    if left > 0:
        lines = "line" if left == 1 else "lines"
        print_line(Styled(f"{INDENT}… {left:,} more {lines} (--full)", "dim"))


def _cut(line: Styled, full: bool) -> Styled:
    if full or len(line.text) <= WIDEST:
        return line
    return Styled(f"{line.text[:WIDEST]}…", line.style)


def _name(item: Mapping[str, Any]) -> str:
    if item["kind"] in ("tool_call", "edit"):
        return str(item["tool"])
    if item["kind"] == "tool_result":
        return f"{item['tool'] or 'result'} →"
    if item["kind"] == "message":
        return f"{item['role'] or 'message'}:"
    return "" if item["kind"] == "text" else f"{item['kind']}:"


def _lines(item: Mapping[str, Any]) -> list[Styled]:
    """The lines of an item, at least one; the first is printed after its name."""
    kind, text = item["kind"], item["text"] or ""
    if kind == "edit":
        added, removed = _counts(item["diff"] or "")
        counts = f" +{added} −{removed}" if item["diff"] else ""
        return [Styled(f"{text}{counts}", ""), *_diff(item["diff"] or "")]
    if kind == "cost":
        return [Styled(" · ".join([text, *_amounts(item)]), "")]
    if kind == "tool_call":
        return [Styled(text, ""), *_input(text, item["input"] or "")]
    if kind == "tool_result":
        return list(_plain(item["output"] or "(no output)", "red" if item["is_error"] else "dim"))
    quiet = "dim" if kind in ("thinking", "session", "note") else ""
    return list(_plain(text, "red" if kind == "error" else quiet))


def _input(summary: str, given: str) -> Iterator[Styled]:
    """The input below the summary of a call, without the line that the summary repeats."""
    first, _, rest = given.partition("\n")
    below = rest if first == summary else given
    return _plain(below, "dim") if below else iter(())


def _plain(text: str, style: str) -> Iterator[Styled]:
    for line in text.rstrip("\n").split("\n"):
        yield Styled(line, style)


def _diff(diff: str) -> Iterator[Styled]:
    for line in diff.splitlines():
        if not line.startswith(("--- ", "+++ ")):
            yield Styled(line, DIFF_STYLES.get(line[:1], ""))


def _counts(diff: str) -> tuple[int, int]:
    lines = [line for line in diff.split("\n") if not line.startswith(("+++ ", "--- "))]
    return sum(each[:1] == "+" for each in lines), sum(each[:1] == "-" for each in lines)


def _amounts(item: Mapping[str, Any]) -> Iterator[str]:
    if item["cost_usd"] is not None:
        yield f"${item['cost_usd']:.4f}"
    if item["tokens_in"] is not None:
        yield f"{item['tokens_in']:,} tokens in"
    if item["tokens_out"] is not None:
        yield f"{item['tokens_out']:,} out"
