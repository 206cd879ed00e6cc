"""Whether the data is what it should be: chain, fold, rows, invariants, timers, anchor.

Seals what was not sealed yet, and changes nothing else.
"""

from typing import NamedTuple

from detent import audit, seals
from detent.audit import Difference, Folded
from detent.seals import Anchor, Break, Progress
from detent.store.port import Reading, Store


class Verdict(NamedTuple):
    """What was looked at, and everything that differs. `anchor` is where the chain stands."""

    position: int
    events: int
    anchor: Anchor
    differences: list[Difference]
    #: False if work went on meanwhile, so that due times had no fold to be compared with.
    timers_checked: bool


def verify(store: Store, anchor: Anchor | None = None, progress: Progress | None = None) -> Verdict:
    """Seal, then compare everything in one consistent view."""
    seals.seal_all(store)
    with store.read() as view:
        chain = seals.check(view, progress)
        breaks = [*chain.breaks, *(seals.compare(view, anchor) if anchor else ())]
        found = [_difference(each) for each in breaks]
        folded = audit.fold(view, progress)
        found += _in_view(view, folded)
        head = view.head()
    timers = _timers(store, folded, head)
    seen = Anchor(chain.position, chain.value.hex())
    return Verdict(head, chain.events, seen, found + (timers or []), timers is not None)


def _in_view(view: Reading, folded: Folded) -> list[Difference]:
    offences = audit.offences(view, folded)
    return [*folded.flaws, *audit.row_differences(view, folded), *offences]


def _timers(store: Store, folded: Folded, head: int) -> list[Difference] | None:
    """Due times, which only a write transaction sees; None if the log has grown since the fold."""
    with store.write() as tx:
        if tx.head() != head:
            return None
        return list(audit.timer_differences(tx, folded))


def _difference(each: Break) -> Difference:
    return Difference("", each.position, "seal", each.what, each.wanted, each.found)
