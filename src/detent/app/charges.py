"""Charges: what a run has spent so far, and what it may still spend."""

from typing import NamedTuple


class Charge(NamedTuple):
    """The cost of a call in micro-dollars, its tokens, and the language model that it used."""

    cost: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    model: str | None = None


class Charges:
    """The charges of one run, added up."""

    def __init__(self) -> None:
        self.total = Charge()
        #: The total cost up to which money is reserved for the run; None: without a limit.
        self.reserved: int | None = 0

    def add(self, charge: Charge) -> Charge:
        """Add a charge and return the total, with the model of this charge."""
        cost, tokens_in, tokens_out, _ = self.total
        self.total = Charge(
            cost + charge.cost,
            tokens_in + charge.tokens_in,
            tokens_out + charge.tokens_out,
            charge.model,
        )
        return self.total

    @property
    def used_up(self) -> bool:
        """Whether everything that was reserved is spent."""
        return self.reserved is not None and self.total.cost >= self.reserved
