"""Offices: what one process at a time does, elected through the store. Any number stand by."""

from detent.operations.context import Core
from detent.store.port import Writing

#: The offices there are, and where those that follow the log keep how far they are.
OFFICES = ("keeper", "webhooks", "notion", "traces")
CURSORS = ("notion_cursor", "traces_cursor")
#: A holder that has not said anything for this long is replaced.
TERM_US = 15_000_000


class Office:
    """A row of `system_state` that says who holds it and until when."""

    def __init__(self, core: Core, office: str, name: str, term_us: int = TERM_US) -> None:
        self.core = core
        self.office = office
        self.name = name
        self.term_us = term_us
        #: How often it was taken over from another holder or from none. What a process remembers
        #: of the work is only valid within one term.
        self.term = 0
        self._until = 0

    def take(self) -> int | None:
        """Take or keep the office; the store's time, None if somebody else holds it."""
        with self.core.store.read() as view:
            now = view.now()
        # A term that ends later than a whole one was given before the store's time was reset.
        if now + self.term_us // 2 < self._until <= now + self.term_us:
            return now
        return self.core.engine.transaction(self._elect)

    def resign(self) -> None:
        """Let the next one in at once."""
        self._until = 0
        self.core.engine.transaction(self._leave)

    def _elect(self, tx: Writing) -> int | None:
        now = tx.now()
        holder = tx.changing("system_state").get(self.office) or {}
        if holder.get("name") != self.name and holder.get("until", 0) > now:
            self._until = 0
            return None
        self.term += holder.get("name") != self.name
        self._until = now + self.term_us
        tx.put_rows("system_state", {self.office: {"name": self.name, "until": self._until}})
        return now

    def _leave(self, tx: Writing) -> None:
        holder = tx.changing("system_state").get(self.office) or {}
        if holder.get("name") == self.name:
            tx.put_rows("system_state", {self.office: None})
