"""The results of the comparison in the terminal, and as the tables of the page.

Pure: every cell is made from what the repetitions of a trial returned. If they differ, the cell
says how often each happened. A tool that could not be tried has its reason.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

Outcome = Mapping[str, Any]
Row = Mapping[str, Any]


class Column(NamedTuple):
    """One column of a table: which trial it reads, and how it shows the outcome."""

    title: str
    trial: str
    cell: Callable[[Outcome], str]
    #: A figure of each repetition, whose range is shown behind the text.
    seconds: Callable[[Outcome], float | None] = lambda _outcome: None


def handed_over(outcome: Outcome) -> str:
    """How the job of a lost worker came to another one."""
    if outcome["again_s"] is None:
        return "never"
    return "by a restart, after" if outcome["restarted"] else "after"


def again_s(outcome: Outcome) -> float | None:
    """How long that took."""
    seconds: float | None = outcome["again_s"]
    return seconds


def stale(outcome: Outcome) -> str:
    """Whether the result of the stopped worker was accepted."""
    if outcome["accepted"] is None:
        return "no second run"
    return "**accepted**" if outcome["accepted"] else "rejected"


def effects(outcome: Outcome) -> str:
    return f"{outcome['effects']}"


def first_part(outcome: Outcome) -> str:
    """Whether the part that was finished before the kill was done again."""
    if outcome["again_s"] is None:
        return "–"
    return "kept" if outcome["first_parts"] == 1 else "**repeated**"


def job(outcome: Outcome) -> str:
    """What became of the job of a killed worker."""
    return (
        "done" if outcome["ended"] and outcome["effects"] else f"**not done** ({outcome['state']})"
    )


def twice(outcome: Outcome) -> str:
    return "**yes**" if outcome["effects"] > 1 or outcome["again"] else "no"


def together(outcome: Outcome) -> str:
    return _repeated(outcome["together"], outcome["keys"])


def repeated(name: str) -> Callable[[Outcome], str]:
    def cell(outcome: Outcome) -> str:
        refused = outcome[f"{name}_refused"]
        error = f" (refused: {refused.partition(':')[0]})" if refused else ""
        return _repeated(outcome[name], 1) + error

    return cell


def _repeated(count: int, of: int) -> str:
    return f"**{count} of {of} repeated**" if count else "once"


TABLES: Mapping[str, tuple[Column, ...]] = {
    "stopped": (
        Column("handed over", "stopped", handed_over, again_s),
        Column("resumed during the second run: stale result", "stopped", stale),
        Column("side effects", "stopped", effects),
        Column("resumed after the second run: stale result", "stopped-late", stale),
        Column("side effects", "stopped-late", effects),
    ),
    "killed": (
        Column("run again", "killed", handed_over, again_s),
        Column("job", "killed", job),
        Column("finished part", "killed", first_part),
        Column("side effects", "killed", effects),
        Column("run twice if it takes longer than the lease", "long", twice),
    ),
    "duplicates": (
        Column("two clients together", "duplicates", together),
        Column("while the job runs", "duplicates", repeated("running")),
        Column("after its end", "duplicates", repeated("ended")),
    ),
}


def markdown(document: Row, table: str) -> Iterator[str]:
    """One of the tables for the page."""
    rows = _rows(document, table)
    for number, row in enumerate(rows):
        yield f"| {' | '.join(row)} |"
        if number == 0:
            yield "|---" * len(row) + "|"


def settings(document: Row) -> Iterator[str]:
    """Versions and settings, and the tools that could not be tried."""
    yield "| | version | settings | key | source |"
    yield "|---|---|---|---|---|"
    for each in document["systems"]:
        link = f"[settings]({_from_the_page(each['source'])})"
        version = each["version"] or f"detent {document['machine']['detent']}"
        cells = (each["name"], version, each["settings"], each["key"], link)
        yield f"| {' | '.join(cell or '–' for cell in cells)} |"
    yield ""
    failed = list(_failures(document))
    yield from failed or ["Every trial of every tool ended."]


def _from_the_page(source: str) -> str:
    """The address of a source; a page of these docs is relative to the page of the comparison."""
    return f"../{source.removeprefix('docs/')}" if source.startswith("docs/") else source


def lines(document: Row) -> Iterator[str]:
    """All tables for a terminal."""
    for table in TABLES:
        rows = [[cell.replace("**", "") for cell in row] for row in _rows(document, table)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        yield ""
        for row in rows:
            padded = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
            yield "  ".join(padded).rstrip()
    yield ""
    yield from _failures(document)


def _rows(document: Row, table: str) -> list[Sequence[str]]:
    columns = TABLES[table]
    wanted = {each.trial for each in columns}
    shown = [each for each in document["systems"] if wanted & each["trials"].keys()]
    return [
        ["", *(each.title for each in columns)],
        *([system["name"], *(_cell(system, each) for each in columns)] for system in shown),
    ]


def _cell(system: Row, column: Column) -> str:
    """What happened in all repetitions, or how often each thing happened."""
    outcomes = system["trials"].get(column.trial, [])
    texts = Counter(column.cell(each) for each in outcomes)
    shown = [
        text + _seconds(column, [each for each in outcomes if column.cell(each) == text])
        for text in texts
    ]
    if len(shown) > 1:
        counts = zip(shown, texts.values(), strict=True)
        shown = [f"{text} ({count} of {len(outcomes)})" for text, count in counts]
    return ", ".join(shown) or "–"


def _seconds(column: Column, outcomes: Sequence[Outcome]) -> str:
    found = [seconds for each in outcomes if (seconds := column.seconds(each)) is not None]
    if not found:
        return ""
    least, most = f"{min(found):.0f}", f"{max(found):.0f}"
    return f" {least} s" if least == most else f" {least} – {most} s"


def repetitions(document: Row) -> str:
    """How often the trials were run."""
    counts = {len(each) for system in document["systems"] for each in system["trials"].values()}
    return " to ".join(map(str, sorted({min(counts), max(counts)})))


def _failures(document: Row) -> Iterator[str]:
    for system in document["systems"]:
        for trial, reason in system["failed"].items():
            yield f"Not tried: {system['name']}, {trial}: {reason}."
