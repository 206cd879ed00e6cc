"""Rebuilds the rows from the log in one transaction.

It replays every event with the code that wrote the rows first.
"""

from detent.engine.changeset import ChangeSet, queue_row
from detent.errors import Broken
from detent.integrity import audit
from detent.integrity.audit import Folded
from detent.kernel.events import INSTALLATION
from detent.kernel.world import World
from detent.store.codec import read_record
from detent.store.log_walk import batches
from detent.store.port import Store, WriteTransaction
from detent.store.types import Changes, LeaseRow


def rebuild(store: Store, lease_us: int) -> int:
    """Delete the derived rows and write them again; returns the number of replayed events."""
    with store.write() as tx:
        folded = audit.fold(tx)
        if folded.flaws:
            raise Broken(
                f"The log itself is damaged, so the rows cannot be rebuilt: {folded.flaws[0]}",
                hint="Restore a backup. `detent verify` lists everything that is wrong.",
            )
        tx.clear_rows()
        tx.put_rows("limits", {**dict.fromkeys(tx.rows_for_update("limits")), **folded.limits()})
        kept = {} if folded.trimmed else dict.fromkeys(tx.rows_for_update("lifecycles"))
        tx.put_rows("lifecycles", {**kept, **folded.world.installed})
        count = _replay(tx, folded)
        _queue(tx, folded, tx.now() + lease_us)
    store.notify()
    return count


def _replay(tx: WriteTransaction, folded: Folded) -> int:
    """Write all rows except those of the queue, which depend on the last state of each job."""
    kept = {*(task.id for task in folded.tasks()), *(job.id for job in folded.jobs())}
    world, count = World(lifecycles=folded.world.lifecycles), 0
    for events in batches(tx):
        change_set = ChangeSet(world, 0, tx.now())
        for logged in events:
            if logged.stream in kept:
                change_set.replay(read_record(logged))
            count += logged.stream in kept or logged.stream in INSTALLATION
        changes = change_set.rows()
        tx.save(changes._replace(entries=(), queue=(), leases=(), unqueued=()))
    return count


def _queue(tx: WriteTransaction, folded: Folded, lease_until: int) -> None:
    """Write the queue. A running job keeps its fence and gets a full lease."""
    rows, leases = [], []
    for job in folded.jobs():
        running = job.state == "running"
        if running or audit.claimable(folded, job):
            rows.append(queue_row(folded.world, job))
        if running:
            leases.append(LeaseRow(job.id, job.worker or "", job.fence, lease_until))
    tx.save(Changes(queue=rows))
    tx.save(Changes(leases=leases))
