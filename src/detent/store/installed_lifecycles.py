"""The lifecycles of tasks that a transaction sees: the shipped ones, and those in the store."""

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from detent.kernel import lifecycle_document
from detent.kernel.task_lifecycle import TaskLifecycle
from detent.task_lifecycles import SHIPPED


class NamedRows(Protocol):
    def rows(self, table: str) -> Mapping[str, Any]: ...


class LifecycleCache:
    """The lifecycles that a store has read. A document never changes, so nothing expires."""

    def __init__(self) -> None:
        self.known: dict[str, TaskLifecycle] = dict(SHIPPED)

    def seen_by(self, view: NamedRows) -> "InstalledLifecycles":
        return InstalledLifecycles(self.known, view)


class InstalledLifecycles(Mapping[str, TaskLifecycle]):
    """Lifecycles by id. The store is read for an id that is new here, and to list them all."""

    def __init__(self, known: dict[str, TaskLifecycle], view: NamedRows) -> None:
        self._known = known
        self._view = view

    def __getitem__(self, lifecycle_id: str) -> TaskLifecycle:
        found = self._known.get(lifecycle_id)
        return self._read()[lifecycle_id] if found is None else found

    def __iter__(self) -> Iterator[str]:
        return iter(self._read())

    def __len__(self) -> int:
        return len(self._read())

    def _read(self) -> Mapping[str, TaskLifecycle]:
        installed = self._view.rows("lifecycles")
        for name, row in installed.items():
            if name not in self._known:
                self._known[name] = lifecycle_document.read(row["document"])
        return {name: self._known[name] for name in (*SHIPPED, *installed)}
