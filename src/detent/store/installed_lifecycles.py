"""The lifecycles of tasks that a transaction sees: the shipped ones, and those in the store."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
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
    """Lifecycles by id. The store is read for an id that is new here, and to list them all.

    Which of them were removed is known after a list.
    """

    def __init__(self, known: dict[str, TaskLifecycle], view: NamedRows) -> None:
        self._known = known
        self._view = view
        self._listed: Mapping[str, TaskLifecycle] = {}

    def __getitem__(self, lifecycle_id: str) -> TaskLifecycle:
        found = self._listed.get(lifecycle_id) or self._known.get(lifecycle_id)
        return self._read()[lifecycle_id] if found is None else found

    def __iter__(self) -> Iterator[str]:
        self._listed = self._read()
        return iter(self._listed)

    def __len__(self) -> int:
        return len(self._read())

    def _read(self) -> Mapping[str, TaskLifecycle]:
        installed = self._view.rows("lifecycles")
        for name, row in installed.items():
            if name not in self._known:
                self._known[name] = lifecycle_document.read(row["document"])
        found = {name: self._known[name] for name in (*SHIPPED, *installed)}
        for name, row in installed.items():
            if row.get("removed"):
                found[name] = replace(found[name], removed=True)
        return found
