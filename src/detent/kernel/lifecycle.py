"""A lifecycle as data: states, rows, and a table-driven machine with a strict and a lenient fold.

A transition that is not in the table does not exist. An illegal event changes nothing, and its
refusal names the legal events. `flaws()` lints a table. Pure.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from detent.errors import Invalid, Refused
from detent.kernel.state_shapes import Look


@dataclass(frozen=True, slots=True)
class State:
    """One state: its name, what it means, and how it is shown."""

    name: str
    meaning: str
    look: Look


@dataclass(frozen=True, slots=True)
class Row:
    """One transition. `source` is None for creation.

    `extension` marks a row beyond the models that the table follows; its `why` gives the reason.
    `reopens` declares the exception that a row leads out of a terminal state.
    """

    source: str | None
    event: str
    target: str
    who: str
    why: str
    extension: bool = False
    reopens: bool = False

    @property
    def people(self) -> list[str]:
        """Return the people who may send its event: `person` for all, or `person:NAME`."""
        senders = self.who.split(", ")
        return [each for each in senders if each == "person" or each.startswith("person:")]


def rows_from(
    sources: Iterable[str], event: str, target: str, who: str, why: str, *, extension: bool = False
) -> tuple[Row, ...]:
    """Return the same row for several source states."""
    return tuple(Row(source, event, target, who, why, extension) for source in sources)


def normalise(name: str) -> str:
    """Return the lower-case spelling of a name; input may use any letter case of ASCII."""
    return name.lower() if name.isascii() else name


@dataclass(frozen=True, slots=True)
class Lifecycle:
    """A table of transitions with lookups.

    `move[(state, event)]` is the next state; `targets[event]` is the target from any state.
    Creating one never fails, so that `flaws()` can report its mistakes.
    """

    name: str
    title: str
    states: tuple[State, ...]
    initial: str
    terminal: tuple[str, ...]
    rows: tuple[Row, ...]
    move: Mapping[tuple[str | None, str], str] = field(init=False, repr=False, compare=False)
    targets: Mapping[str, str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        move = {(row.source, row.event): row.target for row in self.rows}
        object.__setattr__(self, "move", move)
        object.__setattr__(self, "targets", {row.event: row.target for row in self.rows})

    @property
    def id(self) -> str:
        """By which it is found: the name."""
        return self.name

    @property
    def state_names(self) -> tuple[str, ...]:
        return tuple(state.name for state in self.states)

    @property
    def events(self) -> tuple[str, ...]:
        """Return every event of the table, in its order."""
        return tuple(self.targets)

    def state(self, name: str) -> State:
        """Return the state of that name, in any letter case."""
        wanted = normalise(name)
        for state in self.states:
            if state.name == wanted:
                return state
        raise self._unknown("state", name, self.state_names)

    def is_terminal(self, state: str) -> bool:
        return self.state(state).name in self.terminal

    def legal(self, state: str | None) -> tuple[str, ...]:
        """Return the legal events of a state (None: before creation), in the table's order."""
        source = None if state is None else self.state(state).name
        return tuple(dict.fromkeys(row.event for row in self.rows if row.source == source))

    def next(self, state: str | None, event: str) -> str:
        """Return the state after one event; refuse an illegal event with the legal ones."""
        target = self.move.get((state, event))
        if target is not None:
            return target
        source = None if state is None else self.state(state).name
        known = normalise(event)
        if known not in self.targets:
            raise self._unknown("event", event, self.events)
        target = self.move.get((source, known))
        if target is None:
            raise self.illegal(source, known)
        return target

    def fold(self, events: Iterable[str]) -> str:
        """Return the state after a stream of events, which must follow the table (strict).

        An illegal event raises Refused with its position, counted from 0. Events that are not in
        the table are skipped. Without any state event the result is the initial state.
        """
        move = self.move
        state: str | None = None
        for position, event in enumerate(events):
            target = move.get((state, event))
            state = target or self._slow_step(state, event, position)
        return state or self.initial

    def derive(self, events: Iterable[str]) -> str:
        """Return the target of the last event of the table, legal or not (lenient)."""
        targets = self.targets
        state = self.initial
        for event in events:
            state = targets.get(event) or targets.get(normalise(event), state)
        return state

    def flaws(self) -> list[str]:
        """Return the mistakes in the table, one sentence each."""
        return [sentence for check in _CHECKS for sentence in check(self)]

    def _slow_step(self, state: str | None, event: str, position: int) -> str | None:
        """One step of `fold` for an event that is unknown, illegal, or in another letter case."""
        known = normalise(event)
        if known not in self.targets:
            return state
        target = self.move.get((state, known))
        if target is None:
            raise self.illegal(state, known, position)
        return target

    def illegal(
        self,
        state: str | None,
        event: str,
        position: int | None = None,
        message: str | None = None,
    ) -> Refused:
        """Return the refusal of an event, with the legal events; `message` has words of its own."""
        legal = self.legal(state)
        place = "" if position is None else f" at position {position}"
        origin = "before creation" if state is None else f"in state {state}"
        allowed = f"Legal events: {', '.join(legal)}." if legal else "The state is final."
        details: dict[str, object] = {"lifecycle": self.name, "state": state, "event": event}
        if position is not None:
            details["position"] = position
        by_table = f"{event}{place} is not legal {origin} of the {self.name} lifecycle. {allowed}"
        return Refused(
            message or by_table,
            code="illegal_transition",
            legal=legal,
            details=details,
        )

    def _unknown(self, kind: str, given: str, known: Iterable[str]) -> Invalid:
        listed = tuple(known)
        return Invalid(
            f"The {self.name} lifecycle has no {kind} {given!r}. Known: {', '.join(listed)}.",
            code=f"unknown_{kind}",
            field=kind,
            given=given,
            allowed=listed,
        )


# The checks of `flaws`. Each yields sentences about one kind of mistake.


def _names(lifecycle: Lifecycle) -> Iterator[str]:
    snake = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
    for kind, names in (
        ("lifecycle", (lifecycle.name,)),
        ("state", lifecycle.state_names),
        ("event", lifecycle.events),
    ):
        for name in names:
            if not snake.fullmatch(name):
                yield f"The {kind} name {name!r} is not lower-case snake_case."


def _duplicate_states(lifecycle: Lifecycle) -> Iterator[str]:
    for name, count in Counter(lifecycle.state_names).items():
        if count > 1:
            yield f"The state {name} is declared {count} times."


def _no_states(lifecycle: Lifecycle) -> Iterator[str]:
    if not lifecycle.states:
        yield "There are no states."
    elif lifecycle.initial not in lifecycle.state_names:
        yield f"The initial state {lifecycle.initial!r} is not among the states."


def _terminal_states(lifecycle: Lifecycle) -> Iterator[str]:
    if not lifecycle.terminal:
        yield "There is no terminal state."
    known = set(lifecycle.state_names)
    for name, count in Counter(lifecycle.terminal).items():
        if name not in known:
            yield f"The terminal state {name!r} is not among the states."
        if count > 1:
            yield f"The terminal state {name} is named {count} times."


def _unexplained(lifecycle: Lifecycle) -> Iterator[str]:
    for row in lifecycle.rows:
        for what, text in (("who", row.who), ("why", row.why)):
            if not text.strip():
                yield f"The row {_named(row)} does not say {what}."


def _unknown_states(lifecycle: Lifecycle) -> Iterator[str]:
    known = {None, *lifecycle.state_names}
    for row in lifecycle.rows:
        for name in (row.source, row.target):
            if name not in known:
                yield f"The row {_named(row)} names the unknown state {name!r}."


def _ambiguous_rows(lifecycle: Lifecycle) -> Iterator[str]:
    for (source, event), count in Counter((r.source, r.event) for r in lifecycle.rows).items():
        if count > 1:
            yield f"There are {count} rows for {event} from {source or 'creation'}."


def _ambiguous_targets(lifecycle: Lifecycle) -> Iterator[str]:
    targets_of: dict[str, dict[str, None]] = {}
    for row in lifecycle.rows:
        targets_of.setdefault(row.event, {})[row.target] = None
    for event, targets in targets_of.items():
        if len(targets) > 1:
            listed = ", ".join(targets)
            yield f"The event {event} leads to several states ({listed}): the folds would differ."


def _creation(lifecycle: Lifecycle) -> Iterator[str]:
    created = [row for row in lifecycle.rows if row.source is None]
    if not created:
        yield "No row creates it: one row must have no source."
    for row in created:
        if row.target != lifecycle.initial:
            yield f"The row {_named(row)} creates it in another state than {lifecycle.initial!r}."


def _ways_out_of_the_end(lifecycle: Lifecycle) -> Iterator[str]:
    terminal = set(lifecycle.terminal)
    for row in lifecycle.rows:
        ended = row.source in terminal
        if ended and not row.reopens:
            yield f"The row {_named(row)} leads out of a terminal state without `reopens`."
        if row.reopens and not ended:
            yield f"The row {_named(row)} is declared to reopen a state that is not terminal."


def _unreachable(lifecycle: Lifecycle) -> Iterator[str]:
    forward: dict[str | None, set[str | None]] = {}
    for row in lifecycle.rows:
        forward.setdefault(row.source, set()).add(row.target)
    reached = closure({None}, forward)
    for name in lifecycle.state_names:
        if name not in reached:
            yield f"The state {name} cannot be reached."


def _traps(lifecycle: Lifecycle) -> Iterator[str]:
    backward: dict[str | None, set[str | None]] = {}
    for row in lifecycle.rows:
        backward.setdefault(row.target, set()).add(row.source)
    can_end = closure(set(lifecycle.terminal), backward)
    for name in lifecycle.state_names:
        if lifecycle.terminal and name not in can_end:
            yield f"No terminal state can be reached from {name}."


_CHECKS: tuple[Callable[[Lifecycle], Iterator[str]], ...] = (
    _names,
    _no_states,
    _duplicate_states,
    _terminal_states,
    _unknown_states,
    _creation,
    _ambiguous_rows,
    _ambiguous_targets,
    _ways_out_of_the_end,
    _unreachable,
    _traps,
    _unexplained,
)


def _named(row: Row) -> str:
    return f"{row.source or '(creation)'} → {row.event} → {row.target}"


def closure(
    start: Iterable[str | None], edges: Mapping[str | None, set[str | None]]
) -> set[str | None]:
    """Return everything that can be reached from `start`, including itself."""
    reached = set(start)
    open_ends = list(reached)
    while open_ends:
        new = edges.get(open_ends.pop(), set()) - reached
        reached |= new
        open_ends += new
    return reached
