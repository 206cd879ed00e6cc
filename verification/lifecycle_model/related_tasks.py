"""Which tasks one trace of the model follows: a task, its subtask and its dependency. Pure.

The model has one subtask and one dependency at most, each of the same lifecycle and without
relations of its own. Plans are not in it, and neither is the change to another version.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from detent.kernel import events as e

TASK, SUBTASK, DEPENDENCY = "task", "subtask", "dependency"
#: The ids of the tasks, by their names in the model.
Related = Mapping[str, str]


@dataclass(slots=True)
class Relations:
    """The tasks of a log with their parents and dependencies."""

    created: dict[str, e.TaskCreated] = field(default_factory=dict)
    subtasks: dict[str, list[str]] = field(default_factory=dict)
    #: Tasks that were continued under another version of their lifecycle.
    migrated: set[str] = field(default_factory=set)

    def followed(self) -> Iterator[Related]:
        """Each task that has no parent, with its subtask and its dependency, if the model fits."""
        for name, event in self.created.items():
            related = {TASK: name, **dict(self._others(name))}
            if event.parent_id is None and self._fits(related):
                yield related

    def _others(self, name: str) -> Iterator[tuple[str, str]]:
        yield from ((SUBTASK, each) for each in self.subtasks.get(name, ()))
        yield from ((DEPENDENCY, each) for each in self.created[name].depends_on)

    def _fits(self, related: Related) -> bool:
        if not self.created.keys() >= {*related.values()}:
            return False
        lifecycles = {self.created[each].lifecycle for each in related.values()}
        counted = 1 + len([*self._others(related[TASK])])
        others = [name for role, name in related.items() if role != TASK]
        return (
            len(related) == counted
            and len(lifecycles) == 1
            and not self._is_left_out(related.values())
            and not any([*self._others(name)] for name in others)
            and (DEPENDENCY not in related or not self.created[related[DEPENDENCY]].parent_id)
        )

    def _is_left_out(self, names: Iterable[str]) -> bool:
        return any(
            name in self.migrated or {"plan", "planner"} & self.created[name].options.keys()
            for name in names
        )


def relations_of(records: Iterable[e.Record]) -> Relations:
    """Read the relations of all tasks of a log."""
    found = Relations()
    for record in records:
        event = record.event
        if isinstance(event, e.TaskCreated):
            found.created[record.stream] = event
            if event.parent_id is not None:
                found.subtasks.setdefault(event.parent_id, []).append(record.stream)
        elif isinstance(event, e.TaskMigrated):
            found.migrated.add(record.stream)
    return found
