"""The body of a commit: what is written is read, split and blanked without a change of digests."""

import weakref

import pytest
from hypothesis import given
from hypothesis import strategies as st

from detent.kernel import events as e
from detent.store import commit_body, event_template, logged_commit
from detent.store.codec import data_digest, event_digest, event_rows, to_json
from detent.store.logged_commit import RecentCommits
from detent.store.types import LoggedEvent, NewEvent

AT = 1_000


def created(stream: str, payload: object = None) -> NewEvent:
    event = e.JobCreated("p", "dig", "P2", stream, None, None, payload, None, {})
    return NewEvent(stream, 1, "p", e.Record(stream, None, event, AT, "ann"))


def started(stream: str, version: int, at: int = AT) -> NewEvent:
    record = e.Record(stream, f"{stream}-r1", e.RunStarted(), at, "worker:w")
    return NewEvent(stream, version, "p", record)


def logged(events: list[NewEvent], position: int = 1) -> list[LoggedEvent]:
    rows = enumerate(event_rows(events), position)
    return [LoggedEvent._make((at, *row, None)) for at, row in rows]


EVENTS = [created("a", {"n": "é"}), started("a", 2), created("b"), started("a", 3, at=999)]


def test_events_are_read_as_they_were_written() -> None:
    (body,) = commit_body.encode(EVENTS, AT)
    assert (body.events, list(body.streams)) == (4, ["a", "b", "a"])
    assert commit_body.decode(body.text, AT, 7) == logged(EVENTS, 7)
    assert list(commit_body.streams_of(body.text)) == ["a", "b", "a"]


def test_events_of_one_stream_may_be_about_different_projects() -> None:
    """Those of `@system` are: a limit of a project, and one of all."""
    events = [started("a", 1), started("a", 2)._replace(project=""), started("a", 3)]
    (body,) = commit_body.encode(events, AT)
    assert commit_body.decode(body.text, AT, 7) == logged(events, 7)
    text = commit_body.from_logged(logged(events, 7), AT)
    assert commit_body.decode(text, AT, 7) == logged(events, 7)


def test_the_events_of_one_stream_keep_their_positions() -> None:
    (body,) = commit_body.encode(EVENTS, AT)
    own = commit_body.decode_streams(body.text, AT, 7, {"a"})
    assert own == [each for each in logged(EVENTS, 7) if each.stream == "a"]


def test_a_long_body_is_split_between_groups() -> None:
    payload = "x" * (commit_body.MAX_BYTES // 3)
    events = [each for name in "abcdef" for each in (created(name, payload), started(name, 2))]
    bodies = commit_body.encode(events, AT)
    assert [body.events for body in bodies] == [4, 4, 4]
    assert [body.streams for body in bodies] == [["a", "b"], ["c", "d"], ["e", "f"]]
    found, position = [], 1
    for body in bodies:
        found += commit_body.decode(body.text, AT, position)
        position += body.events
    assert found == logged(events)


def test_no_events_make_no_body() -> None:
    assert commit_body.encode([], AT) == []


def test_a_blanked_stream_keeps_its_digests_and_others_their_data() -> None:
    (body,) = commit_body.encode(EVENTS, AT)
    text = commit_body.blank(body.text, AT, {"a"})
    before, after = logged(EVENTS), commit_body.decode(text, AT, 1)
    assert [event_digest(each) for each in after] == [event_digest(each) for each in before]
    assert [each.data == "" for each in after] == [True, True, False, True]
    assert commit_body.blank(text, AT, {"a"}) == text
    assert commit_body.from_logged(after, AT) == text


def test_a_tombstone_keeps_its_data() -> None:
    gone = NewEvent("a", 2, "p", e.Record("a", None, e.JobDeleted("old"), AT, "keeper"))
    (body,) = commit_body.encode([created("a"), gone], AT)
    _, tombstone = commit_body.decode(commit_body.blank(body.text, AT, {"a"}), AT, 1)
    assert tombstone.data == logged([created("a"), gone])[1].data


def test_a_logged_event_becomes_the_same_body() -> None:
    (body,) = commit_body.encode(EVENTS, AT)
    assert commit_body.from_logged(logged(EVENTS), AT) == body.text


# ---- templates -------------------------------------------------------------------------------

ENTRIES = [
    [
        "job_created",
        1,
        None,
        "ann",
        f'{{"root_id":"{event_template.ID}","p":"{event_template.VALUE}"}}',
    ],
    ["run_started", 1, f"{event_template.ID}-r1", "worker:w", "{}"],
]


def with_template(names: str, value: str = '{"n":"é \ue000i"}') -> str:
    form = commit_body.template([[event_template.ID, 1, "p", ENTRIES]])
    rows = [f'["{name}",{value}]' for name in names]
    [(text, events, count)] = commit_body.encode_rows(form, 2, rows)
    assert (events, count) == (2 * len(names), len(names))
    return text


def filled(name: str, position: int, value: str = '{"n":"é \ue000i"}') -> list[LoggedEvent]:
    data = f'{{"root_id":"{name}","p":{value}}}'
    created_event = (position, name, 1, "p", "job_created", 1, None, AT, "ann", data, None)
    run = (f"{name}-r1", AT, "worker:w", "{}", None)
    return [
        LoggedEvent(*created_event),
        LoggedEvent(position + 1, name, 2, "p", "run_started", 1, *run),
    ]


def test_a_template_is_filled_with_each_row() -> None:
    body = with_template("abc")
    every = [*filled("a", 7), *filled("b", 9), *filled("c", 11)]
    assert commit_body.decode(body, AT, 7) == every
    assert commit_body.decode_streams(body, AT, 7, {"b"}) == filled("b", 9)
    assert list(commit_body.streams_of(body)) == ["a", "b", "c"]


def test_a_blanked_row_leaves_the_template() -> None:
    body = with_template("abc")
    before = commit_body.decode(body, AT, 1)
    blanked = commit_body.blank(body, AT, {"b"})
    after = commit_body.decode(blanked, AT, 1)
    assert list(map(event_digest, after)) == list(map(event_digest, before))
    assert [each.data for each in after if each.stream == "b"] == ["", ""]
    assert [each for each in after if each.stream != "b"] == [*filled("a", 1), *filled("c", 5)]
    assert commit_body.blank(blanked, AT, {"b"}) == blanked


def test_rows_of_a_template_are_split() -> None:
    form = commit_body.template([[event_template.ID, 1, "p", ENTRIES]])
    value = '"' + "é" * (commit_body.MAX_BYTES // 5) + '"'
    bodies = list(commit_body.encode_rows(form, 2, [f'["{name}",{value}]' for name in "abcde"]))
    assert [(events, rows) for _, events, rows in bodies] == [(4, 2), (4, 2), (2, 1)]
    found, position = [], 1
    for text, events, _ in bodies:
        found += commit_body.decode(text, AT, position)
        position += events
    assert found == [
        each for at, name in enumerate("abcde") for each in filled(name, 2 * at + 1, value)
    ]


texts = st.lists(
    st.sampled_from(
        ["a", "é", "%", "%s", '"', "\\", "\n", "{", "\0", "\\u0000", "\ue000i", "\ue000v"]
    )
).map("".join)
json_texts = texts.map(to_json)


@given(
    st.lists(st.tuples(texts, json_texts, json_texts), min_size=1, max_size=4),
    st.lists(st.sampled_from(["ID", "VALUE", "SECOND", "%", "%s", "é\\", "x"]), max_size=6),
    st.sampled_from([None, f"{event_template.ID}-r1", "100%s"]),
    st.sampled_from(["p", "%d", f"{event_template.MARK}i"]),
)
def test_digests_of_templates_are_those_of_their_events(
    rows: list[tuple[str, str, str]], pieces: list[str], subject: str | None, project: str
) -> None:
    marks = {
        "ID": event_template.ID,
        "VALUE": f'"{event_template.VALUE}"',
        "SECOND": f'"{event_template.SECOND}"',
    }
    data = "".join(marks.get(each, each) for each in pieces)
    entries = [["job_created", 1, subject, "100%", data], ["job_ended", 1, None, "b", "{}"]]
    form = commit_body.template([[f"{event_template.ID}-j1", 3, project, entries]])
    written = [f"[{to_json(name)},{value},{second}]" for name, value, second in rows]
    [(text, _, _)] = commit_body.encode_rows(form, 2, written)
    events = commit_body.decode(text, AT, 5)
    assert [each.position for each in events] == list(range(5, 5 + 2 * len(rows)))
    assert [each.data for each in events[::2]] == [expected(data, *row) for row in rows]
    assert [each.stream for each in events[::2]] == [f"{name}-j1" for name, _, _ in rows]
    parts = commit_body.decode_parts(text)
    assert commit_body.count_of(parts) == len(events)
    digests = commit_body.digests_of(parts, AT)
    assert list(digests) == list(map(data_digest, events))


def expected(data: str, name: str, value: str, second: str) -> str:
    """The data of a row, part by part: the first `VALUE` is replaced."""
    before, mark, after = data.partition(f'"{event_template.VALUE}"')
    filled_parts = [
        second.join(
            part.replace(event_template.ID, name)
            for part in each.split(f'"{event_template.SECOND}"')
        )
        for each in (before, after)
    ]
    return (value if mark else "").join(filled_parts)


# ---- commits that were read last -----------------------------------------------------------


@pytest.mark.parametrize(
    ("events", "size"), [(1, logged_commit.MAX_BYTES // 4), (logged_commit.MAX_EVENTS // 4, 10)]
)
def test_the_commits_that_are_kept_are_bounded(events: int, size: int) -> None:
    recent = RecentCommits()
    bodies = [bytes([each]) * size for each in range(10)]
    kept = weakref.WeakSet(recent.commit(1, 0, events, body) for body in bodies)
    assert len(kept) == 4
    assert recent.commit(1, 0, events, bodies[-1]) in kept
    recent.commit(1, 0, logged_commit.MAX_EVENTS + 1, b"")
    recent.commit(1, 0, 1, bytes(logged_commit.MAX_BYTES + 1))
    assert len(kept) == 4
