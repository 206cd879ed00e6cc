"""A review as lines for a terminal: what was asked, what it cost, and the diff with comments."""

import json
from collections.abc import Iterator

from detent.cli.annotated_diff import AnnotatedDiff, where_text
from detent.cli.diff_lines import Json, file_heading, hunk_heading, line_texts
from detent.cli.output import Styled
from detent.quantity import quantity

NOTE_STYLE, DRAFT_STYLE = "yellow", "magenta"
INDENT = "    "


def review_lines(review: Json, diff: AnnotatedDiff | None) -> Iterator[Styled]:
    """All lines of a review."""
    yield from summary_lines(review)
    yield Styled("", "")
    if diff is None:
        yield Styled("This task has no diff.", "")
    elif review["diff"]["too_large"]:
        yield Styled(f"The diff has {review['diff']['size']:,} bytes, too many to show it.", "")
        yield Styled(f"Save it: detent evidence {review['diff']['run_id']} --save DIR", "")
    else:
        yield from diff_lines(diff)


# ---- the summary -----------------------------------------------------------------------------


def summary_lines(review: Json) -> Iterator[Styled]:
    """What was asked, what it cost, what the tests and the checker say."""
    yield Styled(review["title"] or review["intent"], "bold")
    yield Styled(f"{review['task_id']}  {review['intent']}  {review['state']}", "")
    yield from _value("asked", _asked(review["asked"]["payload"]))
    criteria = review["asked"]["acceptance_criteria"]
    for each in criteria if isinstance(criteria, list) else [criteria]:
        yield from _value("criterion", each)
    yield from _value("round", _round(review))
    yield from _value("cost", _cost(review))
    yield from _value("tests", _tests(review))
    yield from _check(review["check"])
    yield from _value("result", _result(review["result"]))
    if review["diff"] is not None:
        yield from _value("diff", _diff(review))


def _asked(payload: object) -> object:
    """The fields of a payload, one below the other. The criteria are listed by themselves."""
    if not isinstance(payload, dict):
        return payload
    shown = {name: value for name, value in payload.items() if name != "acceptance_criteria"}
    return "\n".join(f"{name}: {_shown(value)}" for name, value in shown.items())


def _shown(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _value(name: str, value: object) -> Iterator[Styled]:
    if value in (None, "", [], {}):
        return
    first, *rest = _shown(value).split("\n")
    yield Styled(f"{name + ':':<11}{first}", "")
    for line in rest:
        yield Styled(f"{'':<11}{line}", "")


def _round(review: Json) -> str:
    limit = review["rounds_limit"]
    most = "" if limit is None else f" of at most {limit}"
    return f"{review['rounds'] + 1} ({quantity(review['rounds'], 'request')} for changes{most})"


def _cost(review: Json) -> str:
    tokens = f"{review['tokens_in']:,} tokens in, {review['tokens_out']:,} out"
    seconds = review["duration_ms"] / 1_000
    took = f"{seconds:.1f} s" if seconds < 60 else f"{seconds / 60:.1f} min"
    return f"${review['cost_usd']:.4f}, {tokens}, {took}"


def _tests(review: Json) -> str:
    """The counts of tests, and the files that have them."""
    counts = ((review["test_counts"][name], name) for name in ("failed", "passed"))
    known = ", ".join(f"{count:,} {name}" for count, name in counts if count is not None)
    files = ", ".join(each["file"] for each in review["tests"])
    return f"{known} ({files})" if known else files


def _check(check: Json | None) -> Iterator[Styled]:
    if check is None:
        return
    verdicts = {True: "accepts the work", False: "does not accept the work", None: check["state"]}
    yield from _value("checker", f"{check['checker']} {verdicts[check['accept']]}")
    result = check["result"] if isinstance(check["result"], dict) else {}
    findings = result.get("findings")
    commented = result.get("line_comments")
    notes = {each["finding"]: each for each in commented} if isinstance(commented, list) else {}
    for number, each in enumerate(findings if isinstance(findings, list) else [findings], 1):
        yield from _value("finding", _finding(each, notes.get(number, {})))


def _finding(finding: object, note: Json) -> object:
    """A finding of a checker; if it names a line and is no comment, with the reason."""
    fields = finding if isinstance(finding, dict) else {}
    text = fields.get("text", fields.get("message"))
    if text is None and isinstance(fields.get("ok"), bool) and "criterion" in fields:
        text = "fulfilled" if fields["ok"] else "not fulfilled"
    if not isinstance(text, str):
        return finding
    line = fields.get("line", fields.get("start"))
    about = str(fields.get("file", fields.get("criterion", ""))).rstrip(".:")
    where = f"{about}: " if line is None else f"{about}:{line}: "
    why = note.get("no_comment")
    shown = f"{where}{text}" if about else text
    return shown if why is None else f"{shown} (no comment: {why})"


def _result(result: object) -> object:
    """The summary of the work, or the last message of the agent."""
    fields = result if isinstance(result, dict) else {}
    texts = (fields.get("summary"), fields.get("text"))
    return next((each for each in texts if isinstance(each, str) and each), result)


def _diff(review: Json) -> str:
    files = review["diff"]["files"]
    added, removed = (sum(each[name] for each in files) for name in ("added", "removed"))
    comments = quantity(review["open_comments"], "open comment")
    return (
        f"{review['diff']['sha256']}, {quantity(len(files), 'file')}, +{added} -{removed}, "
        f"{comments}"
    )


# ---- the diff --------------------------------------------------------------------------------


def diff_lines(diff: AnnotatedDiff) -> Iterator[Styled]:
    """The diff with the comments and drafts below their lines."""
    for part in diff.parts():
        if part.kind == "file":
            yield Styled("", "")
            yield from file_heading(part.value)
        elif part.kind == "hunk":
            yield hunk_heading(part.value)
        elif part.kind == "line":
            yield from line_texts(part.value)
        elif part.kind == "comment":
            yield from _comment(part.value)
        elif part.kind == "draft":
            yield from _text("your draft", part.value["text"], DRAFT_STYLE)
        else:
            yield Styled("", "")
            yield Styled("Comments and drafts on lines that this diff does not show:", "bold")


def _comment(comment: Json) -> Iterator[Styled]:
    resolved = ", resolved" if comment["state"] == "resolved" else ""
    if comment["place"] is None:
        where = f"{where_text(comment['anchor'])}, round {comment['round']}, outdated"
        yield Styled(f"{INDENT}{where}{resolved}", NOTE_STYLE)
        for line in comment["anchor"]["quoted"]:
            yield Styled(f"{INDENT}> {line}", "")
    elif comment["place"]["start"] != comment["place"]["end"] or resolved:
        yield Styled(f"{INDENT}{where_text(comment['place'])}{resolved}", NOTE_STYLE)
    yield from _text(comment["author"], comment["text"], NOTE_STYLE)
    for reply in comment["replies"]:
        yield from _text(f"  {reply['author']}", reply["text"], NOTE_STYLE)


def _text(author: str, text: str, style: str) -> Iterator[Styled]:
    first, *rest = text.split("\n")
    yield Styled(f"{INDENT}{author}: {first}", style)
    indent = " " * (len(author) - len(author.lstrip()))
    for line in rest:
        yield Styled(f"{INDENT}{indent}  {line}", style)
