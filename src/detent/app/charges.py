"""Charges: what a run has spent so far, and what it may still spend."""

from typing import NamedTuple


class Charge(NamedTuple):
    """The cost of a call in micro-dollars, and its tokens."""

    cost: int = 0
    tokens_in: int = 0
    tokens_out: int = 0


class Charges:
    """The charges of one run, added up."""

    def __init__(self) -> None:
        self.total = Charge()
        #: The total cost up to which money is reserved for the run; None: without a limit.
        self.reserved: int | None = 0

    def add(self, charge: Charge) -> Charge:
        """Add a charge and return the total."""
        self.total = Charge(*(old + new for old, new in zip(self.total, charge, strict=True)))
        return self.total

    @property
    def used_up(self) -> bool:
        """Whether everything that was reserved is spent."""
        return self.reserved is not None and self.total.cost >= self.reserved
