"""Every cell of the five lifecycles against tables typed by hand.

Legal cells move to exactly the expected state. All others refuse, change nothing and name exactly
the events that would be legal. The rows in code are the expected rows: not one fewer, not one more.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator

import pytest

from detent.errors import DetentError, Refused
from detent.task_lifecycles import all_lifecycles
from tests.kernel.expected_tables import (
    BOARD_WHO,
    EXPECTED,
    JOB,
    JOB_EXTENSIONS,
    JOB_GRID,
    JOB_GRID_EVENTS,
    REVIEW_VERBS,
    Cell,
    Expected,
    grid_cells,
)

LIFECYCLES = all_lifecycles()

NAMES = tuple(EXPECTED)
GRID = [
    pytest.param(name, source, event, id=f"{name}-{source or 'creation'}-{event}")
    for name, expected in EXPECTED.items()
    for source in expected.sources
    for event in expected.events
]
STREAM_LENGTH = 6  # events; long enough to pass every back edge of every lifecycle once


def code_cells(name: str) -> list[Cell]:
    """The rows of a lifecycle in code, without the words that explain them."""
    return [Cell(row.source, row.event, row.target, row.extension) for row in LIFECYCLES[name].rows]


def differences(expected: Iterable[Cell], found: Iterable[Cell]) -> list[str]:
    """Every row that is missing and every row that is too much, doubled rows included."""
    wanted, had = Counter(expected), Counter(found)
    missing = [f"missing: {cell}" for cell in (wanted - had).elements()]
    surplus = [f"surplus: {cell}" for cell in (had - wanted).elements()]
    return missing + surplus


def words(who: object) -> set[str]:
    """The actors that a row names, whether they are written as one text or as several names."""
    text = who if isinstance(who, str) else " ".join(str(part) for part in _parts(who))
    return set(re.findall(r"[a-z]+", text))


def _parts(who: object) -> Iterable[object]:
    assert isinstance(who, Iterable)
    return who


def snapshot(name: str) -> tuple[object, ...]:
    """All that a refused event could have changed in a lifecycle."""
    lifecycle = LIFECYCLES[name]
    states = tuple(state.name for state in lifecycle.states)
    return tuple(code_cells(name)), dict(lifecycle.move), states, set(lifecycle.terminal)


def legal_streams(expected: Expected, length: int) -> Iterator[tuple[tuple[str, ...], str]]:
    """Every legal stream of 1 to `length` events, one for each way through the table."""
    reached: list[tuple[tuple[str, ...], str | None]] = [((), None)]
    for _ in range(length):
        longer: list[tuple[tuple[str, ...], str | None]] = []
        for stream, state in reached:
            for event in sorted(expected.legal(state)):
                target = expected.move[state, event]
                yield (*stream, event), target
                longer.append(((*stream, event), target))
        reached = longer


def test_there_are_exactly_the_five_lifecycles() -> None:
    assert set(LIFECYCLES) == {"board", "review", "job", "step", "run"}


@pytest.mark.parametrize("name", NAMES)
def test_states_beginning_and_ends(name: str) -> None:
    lifecycle, expected = LIFECYCLES[name], EXPECTED[name]
    assert lifecycle.name == name
    assert tuple(state.name for state in lifecycle.states) == expected.states
    assert lifecycle.initial == expected.initial
    assert set(lifecycle.terminal) == expected.terminal


@pytest.mark.parametrize("name", NAMES)
def test_rows_and_extension_marks_are_the_expected_ones(name: str) -> None:
    assert differences(EXPECTED[name].cells, code_cells(name)) == []


@pytest.mark.parametrize("name", NAMES)
def test_move_holds_exactly_the_legal_cells(name: str) -> None:
    assert dict(LIFECYCLES[name].move) == EXPECTED[name].move


@pytest.mark.parametrize(("name", "source", "event"), GRID)
def test_cell(name: str, source: str | None, event: str) -> None:
    lifecycle, expected = LIFECYCLES[name], EXPECTED[name]
    target = expected.move.get((source, event))
    if target is not None:
        assert lifecycle.next(source, event) == target
        return
    before = snapshot(name)
    with pytest.raises(Refused) as refused:
        lifecycle.next(source, event)
    assert sorted(refused.value.legal) == sorted(expected.legal(source))
    assert snapshot(name) == before


@pytest.mark.parametrize("name", NAMES)
def test_every_row_says_who_and_why(name: str) -> None:
    for row in LIFECYCLES[name].rows:
        assert words(row.who), f"{name}: {row.source} {row.event} names no actor"
        assert row.why.strip(), f"{name}: {row.source} {row.event} has no reason"


def test_who_moves_a_board_task() -> None:
    found = {(row.source, row.event): words(row.who) for row in LIFECYCLES["board"].rows}
    assert found == BOARD_WHO


def test_verbs_of_a_review_task_belong_to_the_gateway_or_a_person() -> None:
    for row in LIFECYCLES["review"].rows:
        if (row.source, row.event) in REVIEW_VERBS:
            assert words(row.who) & {"gateway", "person"}, f"{row.source} {row.event}: {row.who}"


@pytest.mark.parametrize("name", NAMES)
def test_a_deleted_row_is_noticed(name: str) -> None:
    rows = code_cells(name)
    for position, row in enumerate(rows):
        fewer = rows[:position] + rows[position + 1 :]
        assert differences(EXPECTED[name].cells, fewer) == [f"missing: {row}"]


@pytest.mark.parametrize("name", NAMES)
def test_an_added_row_is_noticed(name: str) -> None:
    rows, expected = code_cells(name), EXPECTED[name]
    added = 0
    for source in expected.sources:
        for event in expected.events:
            if (source, event) in expected.move:
                continue
            for target in expected.states:
                surplus = Cell(source, event, target, extension=True)
                assert differences(expected.cells, [*rows, surplus]) == [f"surplus: {surplus}"]
                added += 1
    illegal = len(expected.sources) * len(expected.events) - len(expected.move)
    assert added == illegal * len(expected.states)


@pytest.mark.parametrize("name", NAMES)
def test_a_doubled_row_is_noticed(name: str) -> None:
    rows = code_cells(name)
    for row in rows:
        assert differences(EXPECTED[name].cells, [*rows, row]) == [f"surplus: {row}"]


@pytest.mark.parametrize("name", NAMES)
def test_a_changed_target_or_mark_is_noticed(name: str) -> None:
    rows, expected = code_cells(name), EXPECTED[name]
    for position, row in enumerate(rows):
        changed = [row._replace(target=state) for state in expected.states if state != row.target]
        changed.append(row._replace(extension=not row.extension))
        for other in changed:
            found = [*rows[:position], other, *rows[position + 1 :]]
            assert differences(expected.cells, found) == [f"missing: {row}", f"surplus: {other}"]


@pytest.mark.parametrize("name", NAMES)
def test_both_folds_follow_every_legal_stream(name: str) -> None:
    lifecycle = LIFECYCLES[name]
    for stream, state in legal_streams(EXPECTED[name], STREAM_LENGTH):
        assert lifecycle.fold(stream) == state, stream
        assert lifecycle.derive(stream) == state, stream


@pytest.mark.parametrize("name", NAMES)
def test_the_strict_fold_refuses_every_illegal_next_event(name: str) -> None:
    lifecycle, expected = LIFECYCLES[name], EXPECTED[name]
    streams = [*legal_streams(expected, STREAM_LENGTH)]
    shortest = {state: stream for stream, state in reversed(streams)}
    assert set(shortest) == set(expected.states)
    for state, stream in shortest.items():
        for event in set(expected.events) - expected.legal(state):
            with pytest.raises(DetentError):
                lifecycle.fold((*stream, event))


def test_the_strict_fold_names_the_position_of_an_illegal_event() -> None:
    """The same mistake two events later is reported two positions later."""
    positions = []
    for legal in (["job_created"], ["job_created", "job_requeued", "job_requeued"]):
        with pytest.raises(DetentError) as refused:
            LIFECYCLES["job"].fold([*legal, "job_completed"])
        (number,) = re.findall(r"\d+", str(refused.value))
        positions.append(int(number))
    assert positions[1] - positions[0] == 2
    assert positions[0] in {1, 2}


def test_the_job_grid_is_nine_rows_of_ten_events_and_five_extensions() -> None:
    grid = grid_cells(JOB_GRID, JOB_GRID_EVENTS)
    assert len(JOB_GRID.strip().splitlines()) == 9
    assert len(JOB_GRID_EVENTS) == 10
    assert differences(grid, [cell for cell in code_cells("job") if not cell.extension]) == []
    assert differences(JOB_EXTENSIONS, [cell for cell in code_cells("job") if cell.extension]) == []


def test_the_lenient_fold_of_a_job_takes_the_last_event_legal_or_not() -> None:
    derive = LIFECYCLES["job"].derive
    target = {cell.event: cell.target for cell in JOB.cells}
    assert derive([]) == "queued"
    for first in JOB.events:
        assert derive([first]) == target[first]
        for last in JOB.events:
            assert derive([first, last]) == target[last]


def test_events_outside_the_table_never_move_a_job_in_the_lenient_fold() -> None:
    derive = LIFECYCLES["job"].derive
    strangers = ["plan_generated", "node_started", "tool_invocation_started"]
    assert derive(strangers) == "queued"
    for event in JOB.events:
        assert derive([event, *strangers]) == derive([event])
        assert derive([*strangers, event]) == derive([event])
