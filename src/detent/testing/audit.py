"""An assertion that a store's rows are what its log says, and a picture of all that it holds."""

from typing import Any

from detent.integrity.audit import FAR, fold, row_differences, timer_differences
from detent.store.clock import CLOCK
from detent.store.port import ReadTransaction, Store
from detent.store.table_names import CHAINED_POSITION, LISTED, TABLES
from detent.store.types import Query


def audit(store: Store) -> None:
    """Raise AssertionError with every difference between the log and the rows."""
    with store.write() as tx:  # no other write meanwhile
        folded = fold(tx)
        found = [*folded.flaws, *row_differences(tx, folded), *timer_differences(tx, folded)]
    listed = "\n".join(map(str, found))
    assert not found, f"the rows are not what the log says:\n{listed}"


def picture(store: Store) -> dict[str, Any]:
    """Everything that a store returns, except chain blocks and the time that was written last.

    Equal results mean that nothing changed.
    """
    with store.read() as view:
        found: dict[str, Any] = {
            "log": list(view.events(0, FAR)),
            **{table: _rows(view, table) for table in LISTED},
            **{table: dict(view.rows(table)) for table in TABLES},
        }
    for name in (CHAINED_POSITION, CLOCK):
        found["system_state"].pop(name, None)
    return found


def _rows(view: ReadTransaction, table: str) -> list[str]:
    rows = view.page(Query(table, limit=FAR))
    return sorted(repr(sorted(row.items())) for row in rows)
