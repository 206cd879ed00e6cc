"""The names of the durable steps of agents: each run of an agent in a handler has its own."""

from detent.app.async_run_context import AsyncRun


def next_prefix(run: AsyncRun, agent: str) -> str:
    """The prefix of the names in the next run of an agent: `NAME`, then `NAME:run2` and so on.

    Runs of one agent at the same time thus do not get each other's results in a replay, in which
    their calls end in another order.
    """
    number = run.numbered(agent).rpartition("#")[2]
    return agent if number == "1" else f"{agent}:run{number}"
