"""The limits as one process knows them, for decisions that must not cost a read each time."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from detent.engine.project_usage import PROJECT, quotas
from detent.kernel.fair_shares import Shares
from detent.store.port import ReadTransaction


class KnownLimits(NamedTuple):
    """The rows of the table `limits`, and until when they need not be read again."""

    rows: Mapping[str, Any] = {}
    #: By project, the limits of those that have a quota of submissions or of stored bytes.
    quotas: Mapping[str, Mapping[str, Any]] = {}
    until_s: float = 0.0


def read_limits(view: ReadTransaction, until_s: float) -> KnownLimits:
    rows = view.rows("limits")
    return KnownLimits(rows, quotas(rows), until_s)


def weights(rows: Mapping[str, Any]) -> dict[str, int]:
    """By project, its weight, if one is set."""
    return {
        name.removeprefix(PROJECT): row["weight"]
        for name, row in rows.items()
        if "weight" in row and name.startswith(PROJECT)
    }


class ClaimShares:
    """How far the claims of this process have moved each project in virtual time."""

    def __init__(self) -> None:
        self._shares = Shares()

    def weighted(self, rows: Mapping[str, Any]) -> Shares:
        """The shares for the next claim, with the weights in these rows of limits."""
        return self._shares._replace(weights=weights(rows))

    def add(self, shares: Shares, projects: list[str]) -> None:
        """Jobs of these projects were claimed with these shares."""
        self._shares = shares.after(projects)
