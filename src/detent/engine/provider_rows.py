"""Writes the health of providers to the rows of their resources.

A transaction that changes the health has read the resources before: on PostgreSQL, no other
transaction changes them until this one has ended.
"""

from collections.abc import Mapping

from detent.kernel.entities import Health
from detent.store.port import WriteTransaction

RESOURCES = "resources"


def save_health(tx: WriteTransaction, health: Mapping[str, Health]) -> None:
    """Write the changed health; a provider that was deleted meanwhile is left out."""
    if not health:
        return
    rows = tx.rows(RESOURCES)
    changed = {
        name: {**rows[name], "health": each._asdict()}
        for name, each in health.items()
        if name in rows
    }
    tx.put_rows(RESOURCES, changed)
