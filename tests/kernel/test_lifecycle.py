"""The machine that all lifecycles share: lookups, refusals, both folds, flaws, export and back."""

import json
from dataclasses import FrozenInstanceError, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from detent.errors import Invalid, NotFound, Refused
from detent.kernel.lifecycle import Lifecycle, Row, State, normalise, rows_from
from detent.kernel.lifecycle_json import export, read
from detent.kernel.state_shapes import APPEARANCES, Look
from detent.task_lifecycles import all_lifecycles
from detent.task_lifecycles import find as lifecycle

GATE = Lifecycle(
    name="gate",
    title="A gate",
    states=(
        State("shut", "no one can pass", Look.WAITING),
        State("open", "anybody can pass", Look.ACTIVE),
        State("gone", "there is no gate any more", Look.ENDED),
    ),
    initial="shut",
    terminal=("gone",),
    rows=(
        Row(None, "gate_built", "shut", "person", "a room needs one"),
        Row("shut", "gate_opened", "open", "person", "a visitor came"),
        Row("open", "gate_shut", "shut", "system", "the wind", extension=True),
        *rows_from(("shut", "open"), "gate_removed", "gone", "person", "the room is gone"),
    ),
)

LIFECYCLES = all_lifecycles()
FOREIGN = ("plan_generated", "node_started", "gate_painted", "")
EVERY = [*LIFECYCLES.values(), GATE]


@st.composite
def legal_streams(draw: st.DrawFn) -> tuple[Lifecycle, list[str], str]:
    """A walk along the rows, with foreign events and letter cases mixed in, and where it ends."""
    chosen = draw(st.sampled_from(EVERY))
    events: list[str] = []
    state: str | None = None
    for _ in range(draw(st.integers(0, 30))):
        events += draw(st.lists(st.sampled_from(FOREIGN), max_size=2))
        ways = [row for row in chosen.rows if row.source == state]
        if not ways:
            break
        row = draw(st.sampled_from(ways))
        events.append(draw(st.sampled_from([row.event, row.event.upper(), row.event.title()])))
        state = row.target
    return chosen, events, state or chosen.initial


@given(legal_streams())
def test_both_folds_end_where_a_legal_walk_ends(walk: tuple[Lifecycle, list[str], str]) -> None:
    chosen, events, end = walk
    assert chosen.fold(events) == end
    assert chosen.derive(events) == end


@st.composite
def any_streams(draw: st.DrawFn) -> tuple[Lifecycle, list[str]]:
    """Events of one lifecycle in any order, foreign ones among them."""
    chosen = draw(st.sampled_from(EVERY))
    return chosen, draw(st.lists(st.sampled_from([*chosen.events, *FOREIGN]), max_size=12))


@given(any_streams())
def test_the_lenient_fold_is_decided_by_the_last_state_event(
    case: tuple[Lifecycle, list[str]],
) -> None:
    chosen, events = case
    target_of = {row.event: row.target for row in chosen.rows}
    targets = [target_of[event] for event in events if event in target_of]
    assert chosen.derive(events) == (targets[-1] if targets else chosen.initial)


@given(any_streams())
def test_the_strict_fold_stops_at_the_first_event_without_a_row(
    case: tuple[Lifecycle, list[str]],
) -> None:
    chosen, events = case
    state: str | None = None
    first_illegal = None
    for position, event in enumerate(events):
        if event in FOREIGN:
            continue
        ways = [r.target for r in chosen.rows if (r.source, r.event) == (state, event)]
        if not ways:
            first_illegal = position
            break
        state = ways[0]
    if first_illegal is None:
        assert chosen.fold(events) == (state or chosen.initial)
        return
    with pytest.raises(Refused) as refusal:
        chosen.fold(iter(events))
    assert refusal.value.details["position"] == first_illegal
    assert f"position {first_illegal} " in str(refusal.value)


def test_next_moves_in_any_letter_case() -> None:
    assert GATE.next(None, "gate_built") == "shut"
    assert GATE.next("SHUT", "Gate_Opened") == "open"
    assert GATE.move[("shut", "gate_opened")] == "open"


def test_only_ascii_letters_have_cases() -> None:
    kelvin_sign = "\u212a"
    assert kelvin_sign.lower() == "k"
    assert normalise(f"task_bloc{kelvin_sign}ed") != "task_blocked"
    assert normalise("TASK_BLOCKED") == "task_blocked"


def test_an_illegal_event_is_refused_with_what_is_legal() -> None:
    with pytest.raises(Refused) as refusal:
        GATE.next("shut", "gate_shut")
    assert refusal.value.code == "illegal_transition"
    assert refusal.value.legal == ("gate_opened", "gate_removed")
    for word in ("gate lifecycle", "state shut", "gate_opened, gate_removed"):
        assert word in refusal.value.message
    assert "position" not in refusal.value.details


def test_before_creation_only_creation_is_legal() -> None:
    with pytest.raises(Refused, match=r"before creation .* Legal events: gate_built\.") as refusal:
        GATE.next(None, "gate_opened")
    assert refusal.value.legal == GATE.legal(None) == ("gate_built",)


def test_a_terminal_state_says_that_it_is_final() -> None:
    with pytest.raises(Refused, match=r"The state is final\."):
        GATE.next("gone", "gate_opened")
    assert GATE.legal("gone") == ()
    assert GATE.is_terminal("Gone")
    assert not GATE.is_terminal("open")


def test_an_unknown_state_or_event_is_invalid_and_names_the_known_ones() -> None:
    with pytest.raises(Invalid) as state:
        GATE.next("ajar", "gate_opened")
    assert (state.value.code, state.value.field, state.value.given) == (
        "unknown_state",
        "state",
        "ajar",
    )
    assert state.value.allowed == ("shut", "open", "gone")
    with pytest.raises(Invalid, match="gate_built, gate_opened, gate_shut, gate_removed") as event:
        GATE.next("shut", "gate_painted")
    assert event.value.code == "unknown_event"
    with pytest.raises(Invalid):
        GATE.legal("ajar")
    with pytest.raises(Invalid):
        GATE.is_terminal("ajar")


def test_a_lifecycle_is_found_by_name_in_any_case_and_an_unknown_one_lists_the_known() -> None:
    assert lifecycle("JOB") is LIFECYCLES["job"]
    with pytest.raises(NotFound, match="board, review, job, step, run") as missing:
        lifecycle("gate")
    assert missing.value.known == ("board", "review", "job", "step", "run")


def test_a_lifecycle_cannot_be_changed() -> None:
    for name in ("initial", "rows", "move"):
        with pytest.raises(FrozenInstanceError):
            setattr(GATE, name, "open")


@pytest.mark.parametrize("each", EVERY, ids=lambda each: str(each.name))
def test_the_lifecycles_have_no_flaws(each: Lifecycle) -> None:
    assert each.flaws() == []


def test_every_state_says_what_it_means_and_has_a_look() -> None:
    for each in LIFECYCLES.values():
        assert all(state.meaning and state.look in APPEARANCES for state in each.states)
    shapes = [(look.shape, look.glyph) for look in APPEARANCES.values()]
    assert len(set(shapes)) == len(Look)  # distinguishable without colour


OPENED = Row("shut", "gate_opened", "open", "person", "a visitor came")
FLAWED = {
    "The lifecycle name 'Gate' is not lower-case": replace(GATE, name="Gate"),
    "The state name 'a b' is not lower-case": replace(
        GATE, states=(*GATE.states, State("a b", "", Look.BAD))
    ),
    "The event name 'gateOpened' is not": replace(
        GATE, rows=(*GATE.rows, replace(OPENED, event="gateOpened"))
    ),
    "There are no states.": replace(GATE, states=()),
    "The initial state 'ajar' is not": replace(GATE, initial="ajar"),
    "The state shut is declared 2 times.": replace(GATE, states=(*GATE.states, GATE.states[0])),
    "There is no terminal state.": replace(GATE, terminal=()),
    "The terminal state 'over' is not": replace(GATE, terminal=("gone", "over")),
    "The terminal state gone is named 2": replace(GATE, terminal=("gone", "gone")),
    "names the unknown state 'ajar'": replace(
        GATE, rows=(*GATE.rows, Row("open", "gate_pushed", "ajar", "person", "the wind"))
    ),
    "No row creates it": replace(GATE, rows=GATE.rows[1:]),
    "(creation) → gate_found → open creates it in another": replace(
        GATE, rows=(*GATE.rows, Row(None, "gate_found", "open", "person", "it was there"))
    ),
    "There are 2 rows for gate_opened from shut.": replace(GATE, rows=(*GATE.rows, OPENED)),
    "gate_opened leads to several states (open, shut)": replace(
        GATE, rows=(*GATE.rows, Row("open", "gate_opened", "shut", "person", "a mistake"))
    ),
    "gone → gate_built → shut leads out of a terminal": replace(
        GATE, rows=(*GATE.rows, Row("gone", "gate_built", "shut", "person", "a new one"))
    ),
    "shut → gate_opened → open is declared to reopen": replace(
        GATE, rows=(GATE.rows[0], replace(OPENED, reopens=True), *GATE.rows[2:])
    ),
    "The state lost cannot be reached.": replace(
        GATE, states=(*GATE.states, State("lost", "no record exists", Look.BAD))
    ),
    "No terminal state can be reached from stuck.": replace(
        GATE,
        states=(*GATE.states, State("stuck", "it does not move", Look.BAD)),
        rows=(*GATE.rows, Row("open", "gate_stuck", "stuck", "system", "rust")),
    ),
    "shut → gate_opened → open does not say why.": replace(
        GATE, rows=(GATE.rows[0], replace(OPENED, why=" "), *GATE.rows[2:])
    ),
    "shut → gate_opened → open does not say who.": replace(
        GATE, rows=(GATE.rows[0], replace(OPENED, who=""), *GATE.rows[2:])
    ),
}


@pytest.mark.parametrize(("words", "flawed"), FLAWED.items(), ids=list(FLAWED))
def test_flaws_finds(words: str, flawed: Lifecycle) -> None:
    assert [flaw for flaw in flawed.flaws() if words in flaw]


def test_a_declared_way_out_of_a_terminal_state_is_no_flaw() -> None:
    rebuilt = Row("gone", "gate_built", "shut", "person", "a new one", reopens=True)
    assert replace(GATE, rows=(*GATE.rows, rebuilt)).flaws() == []


@pytest.mark.parametrize("each", EVERY, ids=lambda each: str(each.name))
def test_an_export_reads_back_as_the_same_table(each: Lifecycle) -> None:
    found = read(json.loads(json.dumps(export(each))))
    assert (found.name, found.title, found.rows) == (each.name, each.title, each.rows)
    assert (found.initial, found.terminal) == (each.initial, each.terminal)
    shown = [(state.name, state.meaning, state.look) for state in each.states]
    assert [(state.name, state.meaning, state.look) for state in found.states] == shown


def test_an_export_needs_no_more_than_the_table() -> None:
    table = {key: export(GATE)[key] for key in ("name", "states", "initial", "terminal", "rows")}
    assert read(table).move == GATE.move
    assert read(table).flaws() == []


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"name": 3}, "lifecycle.name"),
        ({"states": "shut"}, "lifecycle.states"),
        ({"states": ["shut", None]}, "lifecycle.states[1]"),
        ({"terminal": {}}, "lifecycle.terminal"),
        ({"rows": [3]}, "lifecycle.rows[0]"),
        ({"rows": [{"source": None, "target": "shut"}]}, "lifecycle.rows[0].event"),
        ({"rows": [{"event": "gate_built", "target": "shut"}]}, "lifecycle.rows[0].source"),
        ({"rows": [export(GATE)["rows"]]}, "lifecycle.rows[0]"),
        (
            {"rows": [{"source": None, "event": "e", "target": "shut", "extension": "no"}]},
            "lifecycle.rows[0].extension",
        ),
        ({"looks": {"shut": "pretty"}}, "lifecycle.looks.shut"),
        ({"meanings": []}, "lifecycle.meanings"),
    ],
)
def test_reading_the_wrong_type_names_the_place(change: dict[str, object], place: str) -> None:
    with pytest.raises(Invalid) as refusal:
        read({**export(GATE), **change})
    assert refusal.value.field == place
    assert place in refusal.value.message
