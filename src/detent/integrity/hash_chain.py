"""The chain of seals: SHA-256 over the digests of all events, closed range by range, and its check.

Sealing is no part of a write: the keeper seals what is committed, every second. The chain makes it
evident that an event was changed after it was sealed. The check names events that were sealed late
or not at all. A writer of the whole database can also rewrite the chain, and a tail that was cut
off is seen only with an anchor that is kept elsewhere.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

from detent.errors import Broken, Refused
from detent.kernel.events import SYSTEM, LimitsNoted, Record
from detent.store.codec import event_digest
from detent.store.log_walk import BATCH, batches
from detent.store.port import (
    LATE,
    SEALED,
    TOMBSTONES,
    TRIMMED,
    Changes,
    Entry,
    Logged,
    Reading,
    Seal,
    Store,
    Writing,
)

#: The value of the chain before the first event.
START = bytes(32)
#: Events in one seal at most.
MOST = 10_000
#: An event that has no seal after this time was not sealed while a keeper ran.
LATE_US = 60_000_000

Progress = Callable[[str, int], None]


class Anchor(NamedTuple):
    """What an earlier check has seen: the chain's value at the end of a seal."""

    position: int
    chain: str


class Break(NamedTuple):
    """Where chain and log disagree: the end of the range, what differs, both values."""

    position: int
    what: str
    wanted: Any
    found: Any


class Unsealed(NamedTuple):
    """Events that the chain does not speak for.

    `what` is `missing` (no seal yet), `late` (sealed over a minute after the oldest was written) or
    `removed` (there were seals up to `position`, and they are gone).
    """

    what: str
    position: int
    events: int
    written_at: int | None
    sealed_at: int | None


class Chain(NamedTuple):
    """The chain up to a position, and everything that is wrong on the way there."""

    position: int
    value: bytes
    events: int
    breaks: list[Break]
    unsealed: list[Unsealed]


# ---- sealing -----------------------------------------------------------------------------------


def next_seal(view: Reading, most: int = MOST) -> Seal | None:
    """The seal for what was committed since the last one; None if nothing was."""
    last = view.last_seal()
    after, value = (last.to_position, last.chain) if last else (0, START)
    if after < _sealed(view):
        raise Broken(
            f"The seals after position {after} were removed; new ones would hide that.",
            hint="Run `detent verify`, which says what to check.",
        )
    events = view.events(after, most)
    if not events:
        return None
    first, end = events[0].position, events[-1].position
    return Seal(first, end, len(events), chained(value, events), view.now())


def put(tx: Writing, seal: Seal) -> None:
    """Write a seal, and up to where there are seals."""
    tx.put_seal(seal)
    tx.put_rows("system_state", {SEALED: {"position": seal.to_position}})


def _sealed(view: Reading) -> int:
    """Up to where the log was sealed, as the last sealing has noted; 0 in older databases."""
    row = view.rows("system_state").get(SEALED)
    return int(row["position"]) if row else 0


def seal_all(store: Store) -> int:
    """Seal the log to its end. How many seals were made; others may be sealing at the same time."""
    made = 0
    while True:
        with store.read() as view:
            seal = next_seal(view)
        if seal is None:
            return made
        try:
            with store.write() as tx:
                put(tx, seal)
            made += 1
        except Refused as error:
            if error.code != "version_conflict":
                raise


def chained(value: bytes, events: Iterable[Logged]) -> bytes:
    """The chain after these events. It does not depend on where seals end."""
    for event in events:
        value = sha256(value + _digest(event)).digest()
    return value


def _digest(event: Logged) -> bytes:
    """What the data says; a digest that was kept counts only where the data was blanked."""
    return event_digest(event._replace(digest=None) if event.data else event)


# ---- checking ----------------------------------------------------------------------------------


def trimmed(view: Reading) -> int:
    """The position up to which the log was trimmed; 0 if it never was."""
    row = view.rows("system_state").get(TRIMMED)
    return int(row["position"]) if row else 0


def check(view: Reading, progress: Progress | None = None) -> Chain:
    """Follow the chain from the beginning, or from where the log was trimmed, to the last seal.

    A range that differs is named once: the next one is checked from what its seal says.
    """
    position, value, count, found = 0, START, 0, list[Break]()
    base, accepted = trimmed(view), view.rows("system_state").get(LATE) or {}
    unsealed = list[Unsealed]()
    if base:
        position, value = _begin_after(view, base, found)
    for seal in _seals(view, position):
        ranged = _Range(value)
        for events in batches(view, position, upto=seal.to_position):
            ranged.add(events)
            if progress is not None:
                progress("chain", events[-1].position)
        found += _differing(seal, ranged)
        late = ranged.oldest is not None and seal.at - ranged.oldest > LATE_US
        if late and accepted.get(str(seal.to_position)) != seal.chain.hex():
            written = (ranged.oldest, seal.at)
            unsealed.append(Unsealed("late", seal.to_position, ranged.count, *written))
        position, value, count = seal.to_position, seal.chain, count + ranged.count
    tail = _tail(view, position, progress)
    unsealed += _not_sealed(view, position, tail)
    return Chain(position, value, count + tail.count, found, unsealed)


class _Range:
    """What is added up of the events of one seal."""

    def __init__(self, value: bytes) -> None:
        self.value = value
        self.first = self.last = self.count = 0
        self.oldest: int | None = None

    def add(self, events: Sequence[Logged]) -> None:
        self.first = self.first or events[0].position
        self.last = events[-1].position
        self.count += len(events)
        self.value = chained(self.value, events)
        oldest = min(event.at for event in events)
        self.oldest = oldest if self.oldest is None else min(self.oldest, oldest)


def _tail(view: Reading, position: int, progress: Progress | None) -> _Range:
    """The events after the last seal."""
    tail = _Range(START)
    for events in batches(view, position):
        tail.add(events)
        if progress is not None:
            progress("chain", events[-1].position)
    return tail


def _not_sealed(view: Reading, position: int, tail: _Range) -> Iterator[Unsealed]:
    if _sealed(view) > position:
        yield Unsealed("removed", _sealed(view), tail.count, tail.oldest, None)
    elif tail.oldest is not None and view.now() - tail.oldest > LATE_US:
        yield Unsealed("missing", tail.last, tail.count, tail.oldest, None)


def accept(store: Store, after: int = 0) -> None:
    """Seal what has no seal, and take the late seals after a position as they are.

    For an operator who has checked what `check` names, and for events that came in with their old
    times. The chain's value is noted, so that other seals in their place are named again.
    """
    with store.write() as tx:
        last = tx.last_seal()
        tx.put_rows("system_state", {SEALED: {"position": last.to_position if last else 0}})
    seal_all(store)
    with store.read() as view:
        late = [each for each in check(view).unsealed if each.position > after]
        values = {
            str(seal.to_position): seal.chain.hex()
            for each in late
            for seal in view.seals(each.position - 1, 1)
        }
    with store.write() as tx:
        known = tx.changing("system_state").get(LATE) or {}
        tx.put_rows("system_state", {LATE: {**known, **values}})


def _begin_after(view: Reading, base: int, found: list[Break]) -> tuple[int, bytes]:
    """Where the chain goes on after a trim: at the seal that ends there, which was kept."""
    kept = [seal for seal in view.seals(base - 1, 1) if seal.to_position == base]
    if not kept:
        found.append(Break(base, "seal", "the one at which the log was trimmed", None))
    for left in view.events(0, 1, upto=base):
        found.append(Break(left.position, "event", "nothing, because it was trimmed", left.name))
    return base, kept[0].chain if kept else START


def _differing(seal: Seal, found: _Range) -> Iterator[Break]:
    if found.count != seal.events:
        yield Break(seal.to_position, "count", seal.events, found.count)
    if found.count and found.first != seal.from_position:
        yield Break(seal.to_position, "from_position", seal.from_position, found.first)
    if found.value != seal.chain:
        yield Break(seal.to_position, "chain", seal.chain.hex(), found.value.hex())


def _seals(view: Reading, after: int) -> Iterator[Seal]:
    while seals := view.seals(after, BATCH):
        yield from seals
        after = seals[-1].to_position


def compare(view: Reading, anchor: Anchor) -> list[Break]:
    """Whether the log still holds what an earlier check saw. Seals of trimmed ranges are kept."""
    if not anchor.position:
        return []  # it saw an empty log
    last = view.last_seal()
    end = 0 if last is None else last.to_position
    if end < anchor.position:
        return [Break(anchor.position, "anchor", "a log that reaches here: its tail was cut", end)]
    seals = view.seals(anchor.position - 1, 1)
    if not seals or seals[0].to_position != anchor.position:
        return [Break(anchor.position, "anchor", "a seal that ends here", None)]
    value = seals[0].chain.hex()
    if value != anchor.chain:
        return [Break(anchor.position, "anchor", anchor.chain, value)]
    return []


# ---- trimming ----------------------------------------------------------------------------------


def can_trim(view: Reading) -> int:
    """Up to where the log can go: whole seals, before the first event of what still exists.

    The last event always stays, so that no position is given twice.
    """
    live = _first_live(view)
    end = 0
    for seal in _seals(view, trimmed(view)):
        if seal.to_position >= live:
            break
        end = seal.to_position
    return end


def _first_live(view: Reading) -> int:
    """The first event that was neither blanked nor is a tombstone, or else the last one."""
    head = view.head()
    for events in batches(view):
        for event in events:
            if event.position == head or _is_live(event):
                return event.position
    return 0


def _is_live(event: Logged) -> bool:
    """Whether the log needs it. What events of pauses and limits say is noted again by a trim."""
    return bool(event.data) and event.name not in TOMBSTONES and event.stream != SYSTEM


def trim(store: Store) -> int:
    """Remove what `can_trim` finds, and say so in the database. How many events went."""
    with store.write() as tx:
        limits = tx.changing("limits")
        upto = can_trim(tx)
        if not upto or not _holds_others(tx, upto):
            return 0
        if tx.events(0, 1, stream=SYSTEM, upto=upto):
            _note_limits(tx, limits)
        tx.put_rows("system_state", {TRIMMED: {"position": upto, "at": tx.now()}})
        return tx.trim(upto)


def _holds_others(view: Reading, upto: int) -> bool:
    """Whether there is more in it than events of limits, which would only be noted again."""
    return any(event.stream != SYSTEM for events in batches(view, upto=upto) for event in events)


def _note_limits(tx: Writing, limits: Mapping[str, Any]) -> None:
    """The pauses and limits that hold, as an event at the end of the log."""
    record = Record(SYSTEM, None, LimitsNoted(limits), tx.now(), "detent")
    tx.save(Changes([Entry(SYSTEM, tx.version_of(SYSTEM) + 1, "", record)]))
