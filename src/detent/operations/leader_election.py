"""Leader election through the store: one process at a time leads, any number are on standby."""

from detent.operations.context import Core
from detent.store.port import WriteTransaction

#: The roles that have a leader, and the rows in which leaders store their positions in the log.
LEADER_ROLES = ("keeper", "webhooks", "notion", "github", "gitlab", "slack", "traces")
CURSORS = ("notion_cursor", "github_cursor", "gitlab_cursor", "traces_cursor")
#: A leader that has not renewed its term for this long is replaced.
TERM_US = 15_000_000


class LeaderElection:
    """The election of one role: a row of `system_state` with the leader and the end of its term."""

    def __init__(self, core: Core, role: str, name: str, term_us: int = TERM_US) -> None:
        self.core = core
        self.role = role
        self.name = name
        self.term_us = term_us
        #: The number of times that this process became the leader. What it caches about the work is
        #: valid only within one term.
        self.term = 0
        self._until = 0

    def acquire(self) -> int | None:
        """Become or stay the leader. Returns the store's time, None if another process leads."""
        with self.core.store.read() as view:
            now = view.now()
        # A term that ends later than a full term from now began before the store's time was reset.
        if now + self.term_us // 2 < self._until <= now + self.term_us:
            return now
        return self.core.engine.transaction(self._elect)

    def resign(self) -> None:
        """End the term, so that another process can lead immediately."""
        self._until = 0
        self.core.engine.transaction(self._leave)

    def _elect(self, tx: WriteTransaction) -> int | None:
        now = tx.now()
        holder = tx.rows_for_update("system_state").get(self.role) or {}
        if holder.get("name") != self.name and holder.get("until", 0) > now:
            self._until = 0
            return None
        self.term += holder.get("name") != self.name
        self._until = now + self.term_us
        tx.put_rows("system_state", {self.role: {"name": self.name, "until": self._until}})
        return now

    def _leave(self, tx: WriteTransaction) -> None:
        holder = tx.rows_for_update("system_state").get(self.role) or {}
        if holder.get("name") == self.name:
            tx.put_rows("system_state", {self.role: None})
