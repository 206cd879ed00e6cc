"""Extends the hash chain with the events that were committed since the last pass."""

from detent import failpoints
from detent.integrity import hash_chain
from detent.operations.context import Core
from detent.store.port import WriteTransaction
from detent.store.types import ChainBlock

#: The maximum number of blocks in one pass; a log without a chain takes several passes.
MAX_ROWS = 10
#: The maximum time between two passes under load; a minute later an event counts as sealed late.
MAX_PAUSE_MS = 5_000


def run(core: Core) -> int:
    """Hash outside the write path, then write one row for each chain block."""
    made = 0
    while made < MAX_ROWS:
        with core.store.read() as view:
            block = hash_chain.next_chain_block(view)
        if block is None:
            break

        def put(tx: WriteTransaction, block: ChainBlock = block) -> None:
            hash_chain.put(tx, block)

        failpoints.hit("seal.before")
        core.engine.transaction(put)
        made += 1
    return made
