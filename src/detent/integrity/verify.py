"""Verifies the data: hash chain, anchor, rows, invariants and timers.

Checks first. Extends the hash chain only if nothing was found, and changes nothing else.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from detent.integrity import audit, equal_histories, hash_chain
from detent.integrity.audit import Difference, Folded
from detent.integrity.equal_histories import Checked
from detent.integrity.hash_chain import Anchor, Break, Progress, UnsealedEvents
from detent.store.log_walk import commits
from detent.store.port import ReadTransaction, Store
from detent.store.types import LoggedEvent


class Verdict(NamedTuple):
    """The result of a check: everything that differs, and events that were not sealed in time.

    `anchor` is the end of the hash chain.
    """

    position: int
    events: int
    anchor: Anchor
    differences: list[Difference]
    #: False if the log has grown during the check, so that timers could not be compared.
    timers_checked: bool
    unsealed: list[UnsealedEvents]

    @property
    def clean(self) -> bool:
        return not self.differences and not self.unsealed


def verify(
    store: Store,
    anchor: Anchor | None = None,
    progress: Progress | None = None,
    *,
    accept_unsealed: bool = False,
) -> Verdict:
    """Compare everything in one consistent view; if nothing differs, extend the hash chain.

    With `accept_unsealed`, events that were not sealed in time are accepted if nothing differs.
    """
    with store.read() as view:
        chain = hash_chain.check(view, progress)
        breaks = [*chain.breaks, *(hash_chain.compare(view, anchor) if anchor else ())]
        found = [_difference(each) for each in breaks]
        checked = equal_histories.check(view)
        folded = audit.fold(view, progress, _others(view, checked.right))
        found += _in_view(view, folded, checked)
        head = view.head()
    timers = _timers(store, folded, head)
    seen = Anchor(chain.position, chain.value.hex())
    differing, unsealed = found + (timers or []), chain.unsealed
    if not differing and (accept_unsealed or not unsealed):
        seen, unsealed = _extend(store, accept=bool(unsealed)), []
    return Verdict(head, chain.events, seen, differing, timers is not None, unsealed)


def _extend(store: Store, *, accept: bool) -> Anchor:
    if accept:
        hash_chain.accept(store)
    else:
        hash_chain.extend_chain(store)
    with store.read() as view:
        last = view.last_chain_block()
    return Anchor(last.to_position, last.chain.hex()) if last else Anchor(0, hash_chain.START.hex())


def _in_view(view: ReadTransaction, folded: Folded, checked: Checked) -> list[Difference]:
    offences = audit.offences(view, folded, _others(view, checked.right))
    rows = audit.row_differences(view, folded, checked.tables)
    return [*folded.flaws, *rows, *offences]


def _others(view: ReadTransaction, right: Collection[str]) -> Iterator[Sequence[LoggedEvent]]:
    """Batches of all events of tasks and jobs that were not found right."""
    for some in commits(view):
        found = [event for commit in some for event in commit.events_except(right)]
        if found:
            yield found
    rest = view.unsequenced()
    if rest:
        yield rest


def _timers(store: Store, folded: Folded, head: int) -> list[Difference] | None:
    """Differences of timers, which only a write transaction reads; None if the log has grown."""
    with store.write() as tx:
        if tx.head() != head:
            return None
        return list(audit.timer_differences(tx, folded))


def _difference(each: Break) -> Difference:
    return Difference("", each.position, "seal", each.what, each.wanted, each.found)
