"""Adds the events that were committed since the last pass to the hash chain, in blocks."""

from detent import failpoints
from detent.integrity import hash_chain
from detent.operations.context import Core
from detent.store.port import Seal, Writing

#: The maximum number of blocks in one pass; a log without a chain takes several passes.
MAX_ROWS = 10


def run(core: Core) -> int:
    """Hash events outside the write transaction, then write one row for each block."""
    made = 0
    while made < MAX_ROWS:
        with core.store.read() as view:
            seal = hash_chain.next_seal(view)
        if seal is None:
            break

        def put(tx: Writing, seal: Seal = seal) -> None:
            hash_chain.put(tx, seal)

        failpoints.hit("seal.before")
        core.engine.within(put)
        made += 1
    return made
