"""Requests to models as durable steps, with a check that a replay has the same conversation."""

import hashlib
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from detent.app.async_run_context import AsyncRun
from detent.app.charges import Charge
from detent.app.failures import CodeChanged
from detent.app.paid_call import paid_call
from detent.app.run_info import number_again


async def recorded_request(
    run: AsyncRun,
    key: str,
    conversation: Iterable[str],
    call: Callable[[], Awaitable[Any]],
    price: Callable[[Any], Charge],
) -> Any:
    """Send a request and charge it; CodeChanged if another conversation was recorded.

    `conversation` has the model and the kinds of all messages; texts and times may change.
    A request that failed has recorded nothing. If the framework sends it again, it has the same
    name, so that a replay, in which nothing fails, finds the response.
    """
    shape = hashlib.sha256("\n".join(conversation).encode()).hexdigest()[:16]

    async def request() -> dict[str, Any]:
        return {"conversation": shape, "response": await paid_call(run, call, price)}

    name = run.numbered(key)
    try:
        recorded = await run.step(name, request)
    except BaseException:
        number_again(run, name, key)
        raise
    if recorded["conversation"] != shape:
        raise CodeChanged(
            f"the messages before {name!r} are not those of the recorded request: the agent, its "
            "tools or its prompt have changed. Submit the task again, or give the agent another "
            "name: then all its calls are made again."
        )
    return recorded["response"]
