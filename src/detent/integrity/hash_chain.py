"""The hash chain over the log: SHA-256 over the digests of all events, in chain blocks.

A write does not extend the chain: the keeper adds a chain block for the committed events every
second. An event is sealed once a chain block covers it; a later change of the event breaks the
chain. The check reports events that were sealed late or not at all. It cannot detect a writer that
rewrites the events and the chain together, and it detects a removed end of the log only with an
anchor that is kept elsewhere.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import sha256
from typing import Any, NamedTuple

from detent.errors import Broken, Refused
from detent.kernel.events import INSTALLATION, SYSTEM, LimitsNoted, Record
from detent.store.codec import data_digest
from detent.store.log_walk import BATCH, batches, commits
from detent.store.logged_commit import LoggedCommit
from detent.store.port import ReadTransaction, Store, WriteTransaction
from detent.store.rows import END_OF_LOG
from detent.store.table_names import CHAINED_POSITION, LATE_BLOCKS, TOMBSTONES, TRIMMED
from detent.store.types import ChainBlock, Changes, LoggedEvent, NewEvent

#: The value of the chain before the first event.
START = bytes(32)
#: The maximum number of events in one chain block.
MAX_EVENTS = 10_000
#: An event that is sealed later than this was written while no keeper ran.
LATE_US = 60_000_000

Progress = Callable[[str, int], None]


class Anchor(NamedTuple):
    """The result of an earlier check: the chain's value at the end of a chain block."""

    position: int
    chain: str


class Break(NamedTuple):
    """A difference between chain and log: the end of the chain block, what differs, both values."""

    position: int
    what: str
    wanted: Any
    found: Any


class UnsealedEvents(NamedTuple):
    """Events that no chain block covered in time.

    `what` is `missing` (no chain block yet), `late` (the chain block was written more than a minute
    after the oldest event) or `removed` (the chain blocks up to `position` were deleted).
    """

    what: str
    position: int
    events: int
    written_at: int | None
    sealed_at: int | None


class Chain(NamedTuple):
    """The chain up to a position, and everything that is wrong before it."""

    position: int
    value: bytes
    events: int
    breaks: list[Break]
    unsealed: list[UnsealedEvents]


# ---- extending ---------------------------------------------------------------------------------


def next_chain_block(view: ReadTransaction, max_events: int = MAX_EVENTS) -> ChainBlock | None:
    """The chain block for the events committed since the last one; None if there are none.

    It ends with a commit, unless one commit has more events than a chain block may have.
    """
    last = view.last_chain_block()
    after, value = (last.to_position, last.chain) if last else (0, START)
    if after < _chained_position(view):
        raise Broken(
            f"The chain blocks after position {after} were removed. New ones would hide that.",
            hint="Run `detent verify`: it reports what is missing and what to check.",
        )
    sealed = _Range(value)
    for commit in view.commits(after, max_events):
        if sealed.count + commit.last - max(after, commit.first - 1) <= max_events:
            sealed.add(commit, after)
            continue
        if not sealed.count:
            begin = max(after, commit.first - 1)
            sealed.add(commit, begin, begin + max_events)
        break
    if not sealed.count:
        return None
    return ChainBlock(sealed.first, sealed.last, sealed.count, sealed.value, view.now())


def put(tx: WriteTransaction, block: ChainBlock) -> None:
    """Write a chain block, and the position up to which the log is sealed."""
    tx.put_chain_block(block)
    tx.put_rows("system_state", {CHAINED_POSITION: {"position": block.to_position}})


def _chained_position(view: ReadTransaction) -> int:
    """The position up to which the log was sealed, as recorded; 0 in older databases."""
    row = view.rows("system_state").get(CHAINED_POSITION)
    return int(row["position"]) if row else 0


def extend_chain(store: Store) -> int:
    """Add chain blocks up to the end of the log and return their number.

    Other processes may do the same at the same time.
    """
    made = 0
    while True:
        with store.read() as view:
            block = next_chain_block(view)
        if block is None:
            return made
        try:
            with store.write() as tx:
                put(tx, block)
            made += 1
        except Refused as error:
            if error.code != "version_conflict":
                raise


def chained(value: bytes, events: Iterable[LoggedEvent]) -> bytes:
    """The chain's value after these events; it does not depend on where chain blocks end."""
    return _chained(value, map(data_digest, events))


def _chained(value: bytes, digests: Iterable[bytes]) -> bytes:
    """The chain's value after these digests."""
    hashed = sha256
    for digest in digests:
        value = hashed(value + digest).digest()
    return value


# ---- checking ----------------------------------------------------------------------------------


def trimmed(view: ReadTransaction) -> int:
    """The position up to which the log was trimmed; 0 if it never was."""
    row = view.rows("system_state").get(TRIMMED)
    return int(row["position"]) if row else 0


def check(view: ReadTransaction, progress: Progress | None = None) -> Chain:
    """Check the chain from the beginning of the log, or from its trim position, to the end.

    A chain block that differs is reported once: the next one is checked from its stored value.
    """
    position, value, count, found = 0, START, 0, list[Break]()
    base, accepted = trimmed(view), view.rows("system_state").get(LATE_BLOCKS) or {}
    unsealed = list[UnsealedEvents]()
    if base:
        position, value = _begin_after(view, base, found)
    for block in _chain_blocks(view, position):
        ranged = _Range(value)
        for some in commits(view, position, block.to_position):
            ranged.add_all(some, position, block.to_position, progress)
        found += _differing(block, ranged)
        late = ranged.oldest is not None and block.at - ranged.oldest > LATE_US
        if late and accepted.get(str(block.to_position)) != block.chain.hex():
            written = (ranged.oldest, block.at)
            unsealed.append(UnsealedEvents("late", block.to_position, ranged.count, *written))
        position, value, count = block.to_position, block.chain, count + ranged.count
    tail = _tail(view, position, progress)
    unsealed += _not_sealed(view, position, tail)
    return Chain(position, value, count + tail.count, found, unsealed)


class _Range:
    """The count, the positions, the age and the chain value of the events of one chain block."""

    def __init__(self, value: bytes, *, hashed: bool = True) -> None:
        self.value = value
        self._hashed = hashed
        self.first = self.last = self.count = 0
        self.oldest: int | None = None

    def add_all(
        self, some: Iterable[LoggedCommit], after: int, upto: int, progress: Progress | None
    ) -> None:
        for commit in some:
            self.add(commit, after, upto)
        if progress is not None:
            progress("chain", self.last)

    def add(self, commit: LoggedCommit, after: int, upto: int = END_OF_LOG) -> None:
        """Add the events of a commit after a position, up to another one."""
        first, oldest = max(commit.first, after + 1), commit.oldest
        digests: Iterator[bytes]
        if after >= commit.first or upto < commit.last:
            events = commit.between(after, upto)
            count, digests = len(events), map(data_digest, events)
            oldest = min((event.at for event in events), default=oldest)
        else:
            count, digests = commit.size(), commit.digests()
        if self._hashed:
            self.value = _chained(self.value, digests)
        if count:
            self.first, self.last = self.first or first, first + count - 1
            self.count += count
            self.oldest = oldest if self.oldest is None else min(self.oldest, oldest)


def _tail(view: ReadTransaction, position: int, progress: Progress | None) -> _Range:
    """The events after the last chain block. There is nothing to compare their hash with."""
    tail = _Range(START, hashed=False)
    for some in commits(view, position):
        tail.add_all(some, position, END_OF_LOG, progress)
    return tail


def _not_sealed(view: ReadTransaction, position: int, tail: _Range) -> Iterator[UnsealedEvents]:
    if _chained_position(view) > position:
        yield UnsealedEvents("removed", _chained_position(view), tail.count, tail.oldest, None)
    elif tail.oldest is not None and view.now() - tail.oldest > LATE_US:
        yield UnsealedEvents("missing", tail.last, tail.count, tail.oldest, None)


def accept(store: Store, after: int = 0) -> None:
    """Seal every event, and accept the late chain blocks after a position.

    For an operator who has checked what `check` reports, and for imported events, which keep their
    old times. The value of each accepted chain block is recorded, so that another chain block in
    its place is reported again.
    """
    with store.write() as tx:
        last = tx.last_chain_block()
        tx.put_rows(
            "system_state", {CHAINED_POSITION: {"position": last.to_position if last else 0}}
        )
    extend_chain(store)
    with store.read() as view:
        late = [each for each in check(view).unsealed if each.position > after]
        values = {
            str(block.to_position): block.chain.hex()
            for each in late
            for block in view.chain_blocks(each.position - 1, 1)
        }
    with store.write() as tx:
        known = tx.rows_for_update("system_state").get(LATE_BLOCKS) or {}
        tx.put_rows("system_state", {LATE_BLOCKS: {**known, **values}})


def _begin_after(view: ReadTransaction, base: int, found: list[Break]) -> tuple[int, bytes]:
    """The chain's value at the trim position: that of the chain block that ends there."""
    kept = [block for block in view.chain_blocks(base - 1, 1) if block.to_position == base]
    if not kept:
        found.append(Break(base, "seal", "the chain block that ends at the trim position", None))
    for left in view.events(0, 1, upto=base):
        found.append(Break(left.position, "event", "no event, because it was trimmed", left.name))
    return base, kept[0].chain if kept else START


def _differing(block: ChainBlock, found: _Range) -> Iterator[Break]:
    if found.count != block.events:
        yield Break(block.to_position, "count", block.events, found.count)
    if found.count and found.first != block.from_position:
        yield Break(block.to_position, "from_position", block.from_position, found.first)
    if found.value != block.chain:
        yield Break(block.to_position, "chain", block.chain.hex(), found.value.hex())


def _chain_blocks(view: ReadTransaction, after: int) -> Iterator[ChainBlock]:
    while blocks := view.chain_blocks(after, BATCH):
        yield from blocks
        after = blocks[-1].to_position


def compare(view: ReadTransaction, anchor: Anchor) -> list[Break]:
    """Compare the log with the result of an earlier check. A trim keeps the chain blocks."""
    if not anchor.position:
        return []  # the log was empty
    last = view.last_chain_block()
    end = 0 if last is None else last.to_position
    if end < anchor.position:
        return [
            Break(
                anchor.position,
                "anchor",
                "a log that reaches this position: its end was removed",
                end,
            )
        ]
    blocks = view.chain_blocks(anchor.position - 1, 1)
    if not blocks or blocks[0].to_position != anchor.position:
        return [Break(anchor.position, "anchor", "a chain block that ends here", None)]
    value = blocks[0].chain.hex()
    if value != anchor.chain:
        return [Break(anchor.position, "anchor", anchor.chain, value)]
    return []


# ---- trimming ----------------------------------------------------------------------------------


def trim_position(view: ReadTransaction) -> int:
    """The position up to which the log can be trimmed; 0 if nothing can.

    It is the end of a chain block and of a commit, before the first event of work that still
    exists. The last event is never removed, so that no position is given twice.
    """
    live = _first_live(view)
    end = 0
    for block in _chain_blocks(view, trimmed(view)):
        if block.to_position >= live:
            break
        if view.commit_boundary(block.to_position) == block.to_position:
            end = block.to_position
    return end


def _first_live(view: ReadTransaction) -> int:
    """The position of the first event that is neither blanked nor a tombstone, else of the last."""
    head = view.head()
    for events in batches(view):
        for event in events:
            if event.position == head or _is_live(event):
                return event.position
    return 0


def _is_live(event: LoggedEvent) -> bool:
    """Whether the log needs it. What events of pauses and limits say is noted again by a trim."""
    return bool(event.data) and event.name not in TOMBSTONES and event.stream not in INSTALLATION


def trim(store: Store) -> int:
    """Remove the events up to `trim_position`, record that position, and return their number."""
    with store.write() as tx:
        limits = tx.rows_for_update("limits")
        upto = trim_position(tx)
        if not upto or not _holds_others(tx, upto):
            return 0
        if tx.events(0, 1, stream=SYSTEM, upto=upto):
            _note_limits(tx, limits)
        tx.put_rows("system_state", {TRIMMED: {"position": upto, "at": tx.now()}})
        return tx.trim(upto)


def _holds_others(view: ReadTransaction, upto: int) -> bool:
    """Whether there is more in it than events of limits, which would only be noted again."""
    return any(
        event.stream not in INSTALLATION for events in batches(view, upto=upto) for event in events
    )


def _note_limits(tx: WriteTransaction, limits: Mapping[str, Any]) -> None:
    """The pauses and limits that hold, as an event at the end of the log."""
    record = Record(SYSTEM, None, LimitsNoted(limits), tx.now(), "detent")
    tx.save(Changes([NewEvent(SYSTEM, tx.version_of(SYSTEM) + 1, "", record)]))
