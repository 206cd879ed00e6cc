"""Rows from the log: the tables that follow from it are emptied and written anew, all or nothing.

The rows come out of the same ledger that wrote them first, event by event.
"""

from detent.engine.changeset import Ledger, queue_row
from detent.errors import Broken
from detent.integrity import audit
from detent.integrity.audit import Folded
from detent.kernel.events import SYSTEM
from detent.kernel.world import World
from detent.store.codec import read_record
from detent.store.log_walk import batches
from detent.store.port import Store, WriteTransaction
from detent.store.types import Changes, LeaseRow


def rebuild(store: Store, lease_us: int) -> int:
    """Write all rows anew in one transaction. How many events they were made from."""
    with store.write() as tx:
        folded = audit.fold(tx)
        if folded.flaws:
            raise Broken(
                f"the log itself is damaged, so no rows can be made from it: {folded.flaws[0]}",
                hint="Restore a backup. `detent verify` lists everything that is wrong.",
            )
        tx.clear_rows()
        tx.put_rows("limits", {**dict.fromkeys(tx.rows_for_update("limits")), **folded.limits()})
        count = _replay(tx, folded)
        _queue(tx, folded, tx.now() + lease_us)
    store.notify()
    return count


def _replay(tx: WriteTransaction, folded: Folded) -> int:
    """All rows but those of the queue, which follow from how each job stands at the end."""
    kept = {*(task.id for task in folded.tasks()), *(job.id for job in folded.jobs())}
    world, count = World(), 0
    for events in batches(tx):
        ledger = Ledger(world, 0, tx.now())
        for logged in events:
            if logged.stream in kept:
                ledger.replay(read_record(logged))
            count += logged.stream in kept or logged.stream == SYSTEM
        changes = ledger.changes()
        tx.save(changes._replace(entries=(), queue=(), leases=(), unqueued=()))
    return count


def _queue(tx: WriteTransaction, folded: Folded, lease_until: int) -> None:
    """Who may be claimed; whoever runs keeps its fence and gets a whole lease to come back in."""
    rows, leases = [], []
    for job in folded.jobs():
        running = job.state == "running"
        if running or audit.claimable(folded, job):
            rows.append(queue_row(folded.world, job))
        if running:
            leases.append(LeaseRow(job.id, job.worker or "", job.fence, lease_until))
    tx.save(Changes(queue=rows))
    tx.save(Changes(leases=leases))
