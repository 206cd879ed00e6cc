"""Budgets in money: parsing amounts, reservations, warnings.

All amounts are whole micro-dollars, so that sums are exact. A budget is one limit with what was
spent and reserved under it; a run draws on its task's budget and on each ancestor's. Pure.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Context, Decimal, InvalidOperation
from enum import StrEnum

from detent.kernel import document_fields

MICRO_USD = 1_000_000
MAX_USD = 1_000_000_000
LONGEST_AMOUNT = 40
WARN_AT_PERCENT = 80


class OnExceeded(StrEnum):
    """What an exceeded budget does."""

    STOP = "stop"
    ASK = "ask"


def on_exceeded_from(given: object, where: str = "on_budget_exceeded") -> OnExceeded:
    """The policy named by `given`, in any letter case."""
    return document_fields.choice(given, where, OnExceeded)


def budget_from(given: object, where: str = "max_budget_usd") -> int:
    """A budget in dollars (number or text) as micro-dollars; it must be more than nothing."""
    amount = _micro_usd(given, where)
    if amount <= 0:
        raise document_fields.wrong(where, "more than 0 dollars (at least 0.000001)", given)
    return amount


def cost_from(given: object, where: str = "total_cost_usd") -> int:
    """A reported cost in dollars as micro-dollars; nothing is fine, less than nothing is not."""
    amount = _micro_usd(given, where)
    if amount < 0:
        raise document_fields.wrong(where, "0 dollars or more", given)
    return amount


def _micro_usd(given: object, where: str) -> int:
    number = _decimal(given)
    if number is None or not number.is_finite() or not -MAX_USD <= number <= MAX_USD:
        raise document_fields.wrong(where, f"an amount of at most {MAX_USD} dollars", given)
    # A context of its own: the thread's could be set to round otherwise, or to raise.
    exactly = Context(prec=2 * LONGEST_AMOUNT, rounding=ROUND_HALF_EVEN, traps=[])
    return int(exactly.multiply(number, Decimal(MICRO_USD)).to_integral_value(context=exactly))


def _decimal(given: object) -> Decimal | None:
    if isinstance(given, bool) or not isinstance(given, int | float | str | Decimal):
        return None
    try:
        # By way of its text a float is the number that was written: 0.1 is a tenth.
        written = str(given)
        plain = len(written) <= LONGEST_AMOUNT and written.isascii() and "_" not in written
        return Decimal(written) if plain else None
    except (InvalidOperation, ValueError):
        return None


@dataclass(frozen=True, slots=True)
class Settled:
    """What a report of a session's total cost adds. `went_back`: the total has decreased."""

    total: int
    added: int
    went_back: bool


def settle(highest_total: int, reported_total: int) -> Settled:
    """Settle a cumulative total against the highest one that the same session has reported.

    Spent money stays spent: a decreasing total is ignored.
    """
    total = max(highest_total, reported_total)
    return Settled(total, total - highest_total, reported_total < highest_total)


@dataclass(frozen=True, slots=True)
class Budget:
    """The budget of a task in micro-dollars (None: no limit), and what is spent and reserved."""

    task_id: str
    limit: int | None
    spent: int = 0
    reserved: int = 0

    @property
    def remaining(self) -> int | None:
        """What may still be reserved; None without a limit."""
        return None if self.limit is None else max(0, self.limit - self.spent - self.reserved)

    @property
    def used_up(self) -> bool:
        """Whether the whole limit is spent."""
        return self.limit is not None and self.spent >= self.limit


@dataclass(frozen=True, slots=True)
class Reserved:
    """The run may start and spend `amount`; None means without limit."""

    amount: int | None


@dataclass(frozen=True, slots=True)
class Exhausted:
    """The run may not start: the budget of this task is exhausted.

    `spent`: until the budget is raised. Otherwise other runs have reserved the rest, and what they
    do not spend becomes free.
    """

    task_id: str
    spent: bool


def reserve(budgets: Iterable[Budget]) -> Reserved | Exhausted:
    """Return what a run may spend: the least that any of these budgets has left."""
    lefts = [(left, budget) for budget in budgets if (left := budget.remaining) is not None]
    if not lefts:
        return Reserved(None)
    least, budget = min(lefts, key=lambda each: each[0])
    return Reserved(least) if least else Exhausted(budget.task_id, budget.used_up)


def is_warned(budget: int | None, spent: int) -> bool:
    """Eighty percent of the budget is spent."""
    return budget is not None and spent * 100 >= budget * WARN_AT_PERCENT


def dollars(amount: int) -> str:
    """Micro-dollars as people write dollars: two decimals, more only where they matter."""
    whole, micro = divmod(abs(amount), MICRO_USD)
    decimals = f"{micro:06d}".rstrip("0").ljust(2, "0")
    return f"{'-' if amount < 0 else ''}{whole}.{decimals}"
