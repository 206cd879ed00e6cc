"""Sessions of the OpenAI Agents SDK in a run: every call of a session is a durable step."""

from typing import Any

from detent.app.async_run_context import AsyncRun
from detent.optional_package import optional_package

with optional_package("openai-agents", "0.24", extra="openai-agents"):
    from agents import Session, SessionABC, TResponseInputItem


class DurableSession(SessionABC):
    """A session that a replay reads as it was, and to which it adds nothing again.

    Only one run may use the session at a time.
    """

    def __init__(self, session: Session, run: AsyncRun, name: str) -> None:
        self.session_id, self.session_settings = session.session_id, session.session_settings
        self._session, self._run, self._name = session, run, f"{name}__session"

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """The items of the session, as the first execution read them."""
        found: list[TResponseInputItem] = await self._step("get", self._session.get_items, limit)
        return found

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Add items once: if they were added and this was not recorded, the session is longer."""
        before = await self._step("length", self._length)

        async def add() -> None:
            if await self._length() == before:
                await self._session.add_items(items)

        await self._step("add", add)

    async def pop_item(self) -> TResponseInputItem | None:
        """Remove the last item and return it."""
        popped: TResponseInputItem | None = await self._step("pop", self._session.pop_item)
        return popped

    async def clear_session(self) -> None:
        """Remove all items."""
        await self._step("clear", self._session.clear_session)

    async def _length(self) -> int:
        return len(await self._session.get_items())

    async def _step(self, what: str, function: Any, *args: Any) -> Any:
        return await self._run.step(self._run.numbered(f"{self._name}.{what}"), function, *args)
