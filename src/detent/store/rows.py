"""Converts entities to SQL rows and back. No input or output.

A column is a field of the named tuple. Most fields are stored unchanged; mappings, tuples and JSON
values are stored as JSON text, and flags may be read as 0 and 1 (the coded fields). In most rows
all coded fields are blank, so one comparison handles them together.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import Any, NamedTuple, TypeVar

from detent.kernel.entities import Checkpoint, Health, Job, Resource, Run, Signal, Step, Task, Wait
from detent.kernel.plan import Plan, validate
from detent.store.codec import from_json, to_json
from detent.store.types import NewEvent

E = TypeVar("E")
Row = tuple[Any, ...]

#: A position after every event.
END_OF_LOG = (1 << 63) - 1
#: More bytes than any log has.
ANY_SIZE = 1 << 60


class Question(NamedTuple):
    """A row of `questions`: an open wait of a job without a task that a person's answer ends."""

    job_id: str
    name: str
    kind: str
    begun_at: int
    step: str | None
    due_at: int | None
    detail: Mapping[str, Any]
    project: str
    intent: str
    priority: str
    state: str


class Kind(NamedTuple):
    """How a field is written to a column and read from it, and its blank value."""

    write: Callable[[Any], Any]
    read: Callable[[Any], Any]
    blank: Any


def _texts(text: str) -> tuple[str, ...]:
    return tuple(from_json(text))


MAPPING = Kind(to_json, from_json, {})
VALUE = Kind(to_json, from_json, None)
TEXTS = Kind(to_json, _texts, ())
FLAG = Kind(bool, bool, False)

#: The coded fields of each entity. They come last in every statement.
CODED: dict[type[Any], dict[str, Kind]] = {
    Task: {
        "depends_on": TEXTS,
        "settled": TEXTS,
        "blocked_detail": MAPPING,
        "answered": VALUE,
        "options": MAPPING,
    },
    Job: {
        "resuming": FLAG,
        "failures": MAPPING,
        "plan_wanted": FLAG,
        "waited": FLAG,
        "result": VALUE,
        "options": MAPPING,
    },
    Run: {},
    Step: {"avoid": TEXTS, "result": VALUE},
    Wait: {"needs": TEXTS, "detail": MAPPING},
    Signal: {"value": VALUE, "taken": FLAG},
    Checkpoint: {"done": FLAG, "value": VALUE},
}


def columns(entity: type[Any]) -> tuple[str, ...]:
    """An entity's columns in the order of every statement: plain fields, then coded ones."""
    coded = CODED[entity]
    return (*(field for field in entity._fields if field not in coded), *coded)


def writer(entity: type[E], parameters: Sequence[str]) -> Callable[[E], Row]:
    """A function from an entity to the values of these parameters: plain ones, then coded ones."""
    kinds = CODED[entity]
    plain = [name for name in parameters if name not in kinds]
    coded = [name for name in parameters if name in kinds]
    if [*plain, *coded] != list(parameters):
        raise ValueError(f"{entity.__name__}: coded fields must come last in {parameters}")
    pick = _picker(entity, plain)
    if not coded:
        return pick
    pick_coded = _picker(entity, coded)
    blank = tuple(kinds[name].blank for name in coded)
    encoders = [kinds[name].write for name in coded]
    written = tuple(write(value) for write, value in zip(encoders, blank, strict=True))

    def write(given: E) -> Row:
        values = pick_coded(given)
        if values == blank:
            return pick(given) + written
        return pick(given) + tuple(
            [encode(value) for encode, value in zip(encoders, values, strict=True)]
        )

    return write


def reader(entity: type[E], selected: Sequence[str]) -> Callable[[Row], E]:
    """A function from a selected row to an entity. Further columns of the row are ignored."""
    names = columns(entity)
    if tuple(selected[: len(names)]) != names:
        raise ValueError(f"{entity.__name__}: select {names}, not {tuple(selected)}")
    kinds = CODED[entity]
    first, end = len(names) - len(kinds), len(names)
    arrange = itemgetter(*(names.index(field) for field in entity._fields))  # type: ignore[attr-defined]
    make: Callable[[Iterable[Any]], E] = entity._make  # type: ignore[attr-defined]
    blank = tuple(kind.blank for kind in kinds.values())
    decoders = [kind.read for kind in kinds.values()]
    written = tuple(kind.write(kind.blank) for kind in kinds.values())
    if not kinds:
        return make if len(selected) == end else lambda row: make(row[:end])

    def read(row: Row) -> E:
        coded = row[first:end]
        if coded == written:
            return make(arrange(row[:first] + blank))
        decoded = [decode(value) for decode, value in zip(decoders, coded, strict=True)]
        return make(arrange((*row[:first], *decoded)))

    return read


def job_of_run(run_id: str) -> str:
    """The job of a run: the id of a run is that of its job with a suffix."""
    return run_id.rpartition("-r")[0] or run_id


def _picker(entity: type[Any], names: Sequence[str]) -> Callable[[Any], Row]:
    """A function to the named fields as a tuple, also if there is only one."""
    places = [entity._fields.index(name) for name in names]
    if len(places) == 1:
        place = places[0]
        return lambda given: (given[place],)
    pick: Callable[[Any], Row] = itemgetter(*places)
    return pick


# ---- plans, resources, edits, evidence --------------------------------------------------------


@lru_cache(maxsize=256)
def read_plan(document: str) -> Plan:
    """A plan from its JSON text; cached, because every command of its job loads it."""
    return validate(from_json(document))


RESOURCE_FIELDS = ("labels", "capacity", "healthy", "service", "personal")


def resource_from(name: str, row: Mapping[str, Any], in_use: int) -> Resource:
    """A resource from its row, with the number of plan steps that hold it."""
    known = {each: row[each] for each in RESOURCE_FIELDS if each in row}
    stored = row.get("health", {})
    health = Health(**{name: stored[name] for name in Health._fields if name in stored})
    capabilities = tuple(row.get("capabilities", ()))
    return Resource(name, capabilities, **known, in_use=in_use, health=health)


def edited(changes: Mapping[str, Any]) -> tuple[str | None, str | None, str | None]:
    """Title, payload and tags, which the kernel does not use; None for a field without a change."""
    payload = to_json(changes["payload"]) if "payload" in changes else None
    tags = to_json(changes["tags"]) if "tags" in changes else None
    return changes.get("title"), payload, tags


def evidence_row(entry: NewEvent) -> Row:
    """The columns of an evidence row: its run, the added file, and the time."""
    record = entry.record
    added: Any = record.event
    named = (added.file, added.kind, added.sha256, added.size, added.media_type)
    return (record.subject, *named, record.at)
