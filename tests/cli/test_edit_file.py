"""The text of a diff that a person edits: what was written is read again, whatever it contains."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detent.cli.annotated_diff import AnnotatedDiff, Lines, lines_of
from detent.cli.draft_requests import requests_of
from detent.cli.edit_file import BAR, Edits, Note, UnreadableEdits, normal, parse, write

SHA = "0123456789abcdef" * 4
EXAMPLES = settings(max_examples=150, deadline=None)


def line(kind: str, text: str, before: int | None, after: int | None) -> dict[str, Any]:
    numbers = {"before": before, "after": after}
    return {"kind": kind, "text": text, **numbers, "no_newline": False}


def file(path: str, *lines: dict[str, Any]) -> dict[str, Any]:
    numbers = {"before_start": 1, "before_count": 1, "after_start": 1, "after_count": 1}
    hunk = {**numbers, "heading": "", "lines": list(lines)}
    return {"path": path, "old_path": None, "hunks": [hunk]}


def note(note_id: str, text: str, place: Lines | None, **fields: Any) -> dict[str, Any]:
    where = None if place is None else place._asdict()
    anchor = {"diff": SHA, **(place or Lines("gone.py", "after", 1, 1))._asdict()}
    base = {"id": note_id, "text": text, "reply_to": None, "place": where, "anchor": anchor}
    return {**base, **fields}


def comment(note_id: str, text: str, place: Lines | None) -> dict[str, Any]:
    return note(note_id, text, place, state="open", author="ann", replies=[], round=1)


LINES = [
    line("context", "a = 1", 1, 1),
    line("removed", "b = 2", 2, None),
    line("added", "b = 3", None, 2),
    line("added", f"    1     1 {BAR}", None, 3),
    line("context", "", 3, 4),
]
FILES = [file("app.py", *LINES), file("new\nfile 1: x.py", *LINES), file("logo.png")]
PLAIN = AnnotatedDiff("t1", f"Fix {BAR} it", SHA, FILES, (), ())

# ---- every set of comments -------------------------------------------------------------------

HOSTILE = (
    *("@3", "@before 1-2", "@resolve", "\\@3", "\\\\", "# Heading", "> quoted", "", "  ", "a\rb\r"),
    *(f"{BAR} file 1: app.py", f"    1     1 {BAR} a = 1", f"\\{BAR}", f"{BAR} draft d0"),
    *(f"{BAR} Not in this diff:", f" {BAR}", f"{BAR} diff {SHA}", "-b = 2", "+b = 3", "\u2028"),
)
TEXTS = st.lists(st.sampled_from(HOSTILE) | st.text(st.characters(codec="utf-8")), max_size=5).map(
    "\n".join
)
WRITTEN = TEXTS.filter(lambda text: bool(text.strip()))
PATHS = st.sampled_from([each["path"] for each in FILES[:2]])
SIDES = st.sampled_from(["before", "after"])
RANGES = st.tuples(st.integers(1, 3), st.integers(1, 3)).map(sorted).map(tuple)
PLACES = st.none() | st.builds(
    lambda path, side, both: Lines(path, side, *both), PATHS, SIDES, st.just((0, 0)) | RANGES
)


@st.composite
def annotated(draw: st.DrawFn) -> AnnotatedDiff:
    places = draw(st.lists(PLACES, max_size=3))
    comments = [comment(f"c{n}", draw(TEXTS), each) for n, each in enumerate(places)]
    drafts = [
        note(f"d{n}", draw(WRITTEN), each)
        for n, each in enumerate(draw(st.lists(PLACES, max_size=4)))
    ]
    replies = [
        note(f"r{n}", draw(WRITTEN), None, anchor=None, reply_to=each["id"])
        for n, each in enumerate(comments)
        if draw(st.booleans())
    ]
    return PLAIN._replace(comments=comments, drafts=[*drafts, *replies])


@EXAMPLES
@given(annotated(), TEXTS)
def test_every_set_of_comments_survives(diff: AnnotatedDiff, general: str) -> None:
    edits = parse(diff, write(diff, general))
    expected = {
        Note(normal(each["text"]), lines_of(each), each["reply_to"], each["id"])
        for each in diff.drafts
    }
    assert set(edits.notes) == expected
    assert len(edits.notes) == len(diff.drafts)
    assert edits == Edits(normal(general), edits.notes)
    # A text without a change needs no request.
    assert list(requests_of(diff, edits)) == []


# ---- what a person writes --------------------------------------------------------------------


def edited(diff: AnnotatedDiff, after: str, text: str) -> str:
    """The text of a diff with lines added below the line that contains `after`."""
    before, found, rest = write(diff).partition(after)
    assert found
    line_end, _, below = rest.partition("\n")
    return f"{before}{found}{line_end}\n{text}\n{below}"


def written(after: str, text: str, diff: AnnotatedDiff = PLAIN) -> Edits:
    return parse(diff, edited(diff, after, text))


@pytest.mark.parametrize(
    ("after", "text", "expected", "place"),
    [
        (f"{BAR}+b = 3", "Why 3?\r\n- a list\n", "Why 3?\n- a list", ("after", 2, 2)),
        (f"{BAR}-b = 2", "Keep it.", "Keep it.", ("before", 2, 2)),
        (f"{BAR}-b = 2", "@1-2\nKeep both.", "Keep both.", ("before", 1, 2)),
        (f"{BAR} a = 1", "\n@before 1\nOld.", "Old.", ("before", 1, 1)),
        (f"{BAR} file 1", "Split it.", "Split it.", ("after", 0, 0)),
        (f"{BAR}+b = 3", "@ann, look", "@ann, look", ("after", 2, 2)),
    ],
)
def test_added_lines_are_comments_on_the_line_above(
    after: str, text: str, expected: str, place: tuple[str, int, int]
) -> None:
    assert written(after, text).notes == (Note(expected, Lines("app.py", *place)),)


def test_text_below_a_comment_is_a_reply_and_may_resolve_it() -> None:
    diff = PLAIN._replace(comments=[comment("c1", "Why?", Lines("app.py", "after", 2, 2))])
    below = "ann: Why?"
    assert written(below, "Because.", diff).notes == (Note("Because.", None, "c1"),)
    assert written(below, "@resolve", diff) == Edits(resolved=("c1",))
    both = written(below, "@reopen\nStill wrong.", diff)
    assert (both.reopened, both.notes) == (("c1",), (Note("Still wrong.", None, "c1"),))


def test_a_draft_is_moved_changed_or_deleted() -> None:
    draft = note("d1", "Why?", Lines("app.py", "after", 2, 2))
    diff = PLAIN._replace(drafts=[draft])
    whole = write(diff)
    changed = list(requests_of(diff, parse(diff, whole.replace("\nWhy?\n", "\nWhy 3?\n"))))
    assert [each.arguments["text"] for each in changed] == ["Why 3?"]
    assert changed[0].arguments["draft_id"] == "d1"
    moved = list(requests_of(diff, parse(diff, whole.replace("\nWhy?\n", "\n@1\nWhy?\n"))))
    assert [each.arguments["start"] for each in moved] == [1]
    assert parse(diff, whole.replace("\nWhy?\n", "\n")).deleted_drafts == ("d1",)
    # Lines that were cut away delete nothing, and neither does an empty file.
    assert parse(diff, whole.replace(f"{BAR} draft d1\nWhy?\n", "")) == Edits()
    assert parse(diff, "") == Edits()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (edited(PLAIN, f"{BAR}+b = 3", "@7\nWhy?"), "the diff does not show app.py:7"),
        (edited(PLAIN, f"{BAR}+b = 3", "@3-2\nWhy?"), "the diff does not show app.py:3-2"),
        (edited(PLAIN, f"{BAR}+b = 3", "@1-999999999\nWhy?"), "does not show app.py:1-999999999"),
        (edited(PLAIN, f"{BAR}+b = 3", "@2"), "the comment has no text"),
        (edited(PLAIN, f"{BAR}+b = 3", "@resolve"), "@resolve belongs below a comment"),
        (edited(PLAIN, f"{BAR} @@", "Why?"), "below no line of the diff and no comment"),
        (edited(PLAIN, f"{BAR}+b = 3", f"{BAR} draft x\nWhy?"), "there is no draft x"),
        (write(PLAIN).replace("b = 3", "b = 4"), "this is no line of the diff"),
        (write(PLAIN).replace(SHA, "f" * 64), "about the diff ffffffffffff, not 0123456789ab"),
        (
            edited(PLAIN, f"{BAR}+b = 3", "Why?").replace(f"{BAR} file 2", "file 2"),
            f"the line '{BAR} file 2: new file 1: x.py' is missing",
        ),
    ],
)
def test_what_cannot_be_understood_is_named_and_not_used(text: str, problem: str) -> None:
    with pytest.raises(UnreadableEdits, match=r".") as refused:
        parse(PLAIN, text)
    assert problem in str(refused.value)
    assert all(each.line >= 1 for each in refused.value.problems)
