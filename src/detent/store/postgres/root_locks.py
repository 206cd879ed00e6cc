"""The roots of task trees that one transaction has locked, in the order that all writers have."""

from collections.abc import Callable, Collection, Iterable

from detent.errors import Refused
from detent.store.codec import to_json
from detent.store.postgres.connection import Query, Rows
from detent.store.postgres.reader import READY
from detent.store.postgres.save_statements import by_ids

#: How often roots that other transactions moved meanwhile are looked up again.
MAX_LOCK_ATTEMPTS = 5


class RootLocks:
    def __init__(self, run: Callable[..., list[Rows]]) -> None:
        self._run = run
        #: Tasks and jobs whose roots were locked, and those roots.
        self._named: set[str] = set()
        self._roots: set[str] = set()

    def lock(self, task_ids: Collection[str], job_ids: Collection[str]) -> None:
        """What was locked before is not looked up again: it would find roots out of the order."""
        tasks, jobs = {*task_ids} - self._named, {*job_ids} - self._named
        if tasks or jobs:
            self._lock(READY["lock_roots"](jobs=to_json([*jobs]), tasks=to_json([*tasks])))
            self._named |= tasks | jobs

    def lock_late(self, roots: Iterable[str]) -> None:
        """Lock roots out of the order, without waiting for them."""
        late = {*roots} - self._roots
        if late:
            self._lock(by_ids("lock_late", sorted(late)))

    def add(self, roots: Iterable[str]) -> None:
        """These were locked by a claim, which passes over roots that others have locked."""
        self._roots.update(roots)

    def _lock(self, query: Query) -> None:
        """One whose row another transaction moved to the other table meanwhile was missed: those
        after it are unlocked, and all of them are looked up again.
        """
        for _ in range(MAX_LOCK_ATTEMPTS):
            _, rows = self._run(READY["before_roots"](), query)
            if all(locked for _, locked in rows):
                self._roots.update(root for root, _ in rows)
                return
            self._run(READY["unlock_roots"]())
        raise Refused("other processes are changing it all the time", code="version_conflict")
