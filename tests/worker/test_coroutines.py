"""What a coroutine can await: the result of a handle, and an effect with its own type."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import assert_type

import pytest

from detent.app.app import App
from detent.app.async_run_context import AsyncRun
from detent.testing.harness import Harness
from tests.worker.waiting import DEADLINE_S


def test_awaiting_a_result_that_is_given_up_frees_its_thread() -> None:
    app = App()
    app.intent("work")(lambda: None)
    Harness(app)
    handle = app.submit("work")

    async def give_up() -> None:
        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(max_workers=1))
        try:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(handle.aresult(), 0.01)
            await asyncio.wait_for(asyncio.to_thread(lambda: None), DEADLINE_S)
        finally:
            handle.cancel()  # ends a thread that still waits

    asyncio.run(give_up())


def test_awaiting_a_result_ends_after_its_timeout_and_returns_a_result() -> None:
    app = App()
    app.intent("work")(lambda: 5)
    h = Harness(app)
    handle = app.submit("work")
    with pytest.raises(TimeoutError, match="is queued after 0 s"):
        asyncio.run(handle.aresult(timeout=0))
    h.drain()
    assert asyncio.run(handle.aresult()) == 5


def test_an_effect_of_a_coroutine_has_the_type_of_its_function() -> None:
    app = App()

    async def charge(amount: int) -> str:
        return f"charged {amount}"

    def refund(amount: int) -> int:
        return -amount

    @app.intent("pay")
    async def pay(run: AsyncRun, amount: int) -> str:
        charged = assert_type(await run.effect("charge", charge, amount), str)
        refunded = assert_type(await run.effect("refund", refund, amount), int)
        return f"{charged}, refunded {refunded}"

    h = Harness(app)
    handle = pay.submit(20)
    h.drain()
    assert handle.result(timeout=0) == "charged 20, refunded -20"


async def test_the_harness_runs_coroutines_in_a_test_that_is_one() -> None:
    app = App()

    @app.intent("double")
    async def double(run: AsyncRun, number: int) -> int:
        await asyncio.sleep(0)
        return 2 * number

    h = Harness(app)
    handle = double.submit(21)
    assert h.drain() == 1
    assert handle.result(timeout=0) == 42
