"""Calls of a handler that cost money: reserve before the call, charge after it.

An integration makes such a call in a durable step. The cost is charged before the result is
recorded: if the process dies between the two, the call is made again, and both calls are charged,
because both were made.
"""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from detent.app.async_run_context import AsyncRun
from detent.app.charges import Charge
from detent.app.failures import OverBudget, Suspended
from detent.app.journal import Journal
from detent.app.run_operations import Operation, drive_async
from detent.kernel import commands as c
from detent.kernel.budget import OnExceeded, dollars, on_exceeded_from

T = TypeVar("T")

BUDGET_WAIT = "budget:"


async def paid_call(
    run: AsyncRun, function: Callable[[], Awaitable[T]], price: Callable[[T], Charge]
) -> T:
    """Make a call if the budget of the task allows it, and charge its price to the run."""
    journal, client = run._journal, run._client
    await drive_async(_reserve(journal), client)
    value = await function()
    await drive_async(_charge(journal, price(value)), client)
    return value


def _reserve(journal: Journal) -> Operation[None]:
    """Reserve money, if what was reserved is spent; end the run if there is none."""
    journal.check()
    journal.optional.add(BUDGET_WAIT)
    charges = journal.charges
    if journal.run.held.task is None or not charges.used_up:
        return
    amount = yield from journal.execute(c.ReserveFunds(journal.grant, journal.run.run_id))
    charges.reserved = None if amount is None else charges.total.cost + amount
    if charges.used_up:
        _stop(journal)


def _charge(journal: Journal, charge: Charge) -> Operation[None]:
    if charge.cost or charge.tokens_in or charge.tokens_out:
        total = journal.charges.add(charge)
        yield from journal.execute(c.ChargeRun(journal.grant, journal.run.run_id, *total))


def _stop(journal: Journal) -> None:
    """End the run as the option `on_budget_exceeded` says: with a failure, or with a wait."""
    run, spent = journal.run, dollars(journal.charges.total.cost)
    text = f"the budget of the task is spent (cost of this run: {spent} dollars)"
    policy = run.held.job.options.get("on_budget_exceeded") or OnExceeded.STOP
    if on_exceeded_from(policy) is OnExceeded.STOP:
        raise OverBudget(text)
    task = run.held.task
    detail = {"text": text, "budget": None if task is None else task.budget, "exceeded": True}
    wait = f"{journal.prefix}{BUDGET_WAIT}{run.run_id}"
    report = c.SuspendRun(journal.grant, run.run_id, wait, "budget", detail=detail)
    journal.suspension = Suspended(report)
    raise journal.suspension
