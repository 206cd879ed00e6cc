"""Limits and pauses: rows of the table `limits`, which every claim reads.

Every change is an event of the installation's stream, with the actor, the time and the reason. At
every start, `[limits]` of detent.toml is compared with the table: the numbers of the file replace
those in the table, and a limit that came from the file ends when the file no longer has it. A pause
that a caller began lasts until its time is over or a caller ends it.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from detent import views
from detent.engine import CommandRequest
from detent.errors import DetentError, Forbidden, Invalid, Refused
from detent.kernel import events as e
from detent.kernel.budget import MICRO_USD
from detent.kernel.commands import Actor
from detent.kernel.commands import limit_commands as lc
from detent.kernel.evolve.limit import IN_FILE, NUMBERS, Row, paused
from detent.kernel.world import World
from detent.limit_config import COST_USD, EVERYTHING, PROJECT
from detent.operations import schemas
from detent.operations.context import Core, check_choice
from detent.operations.history import events_before, moment_from
from detent.operations.registry import Caller, Scope, operation
from detent.operations.text_fields import text
from detent.store.port import ReadTransaction

#: The fields of a pause.
PAUSE_FIELDS = ("paused_by", "paused_at", "paused_until", "reason")
#: The longest pause with an end, in seconds.
MAX_PAUSE_S = 366 * 86_400
S_US = 1_000_000
#: The actor of the changes that come from the configuration file.
FILE = Actor("config")


@operation(Scope.READ, "GET", "/api/limits")
def list_limits(
    core: Core, caller: Caller, *, position: int | None = None, time: str | None = None
) -> schemas.Limits:
    """List the pauses, the concurrency limits, the rate limits, the quotas and the weights.

    With a position of the log or a time, as they were then. A token of one project does not get the
    limits of other projects.
    """
    if position is not None and time is not None:
        raise Invalid("Give position or time, not both.", field="position", given=position)
    with core.store.read() as view:
        then = position is not None or time is not None
        until_us = None if time is None else moment_from(time)
        rows = _rows_at(view, position, until_us) if then else view.rows("limits")
    seen = (name for name in sorted(rows) if _may_see(caller, name))
    return {"items": [to_schema(name, rows[name]) for name in seen]}


def _may_see(caller: Caller, name: str) -> bool:
    own = f"{PROJECT}{caller.project}"
    return caller.project is None or name == own or not name.startswith(PROJECT)


def _rows_at(
    view: ReadTransaction, position: int | None, until_us: int | None
) -> Mapping[str, Row]:
    """The rows at an earlier position or time, from the events up to then."""
    world, begun = World(), False
    for logged, record in events_before(view, e.SYSTEM, position, until_us):
        begun = begun or logged.version == 1 or isinstance(record.event, e.LimitsNoted)
        if begun:
            world.apply(record)
    first = view.events(0, 1, stream=e.SYSTEM)
    if not begun and first and first[0].version > 1:
        raise Refused(
            "The events of the limits before that time were deleted by retention.",
            code="history_removed",
        )
    return world.known_limits()


def to_schema(name: str, row: Row) -> schemas.Limit:
    """A limit as clients see it; without a row, one that limits nothing."""
    shown = {field: row.get(field) for field in NUMBERS if field != "cost_per_day"}
    most = row.get("cost_per_day")
    shown[COST_USD] = None if most is None else most / MICRO_USD
    flags = {field: bool(row.get(field)) for field in ("paused", IN_FILE)}
    pause = views.shown({field: row.get(field) for field in PAUSE_FIELDS})
    return cast(schemas.Limit, {"name": name, **flags, **shown, **pause})


@operation(Scope.OPERATE, "POST", "/api/pause")
def pause(
    core: Core,
    caller: Caller,
    *,
    intent: str | None = None,
    project: str | None = None,
    key: str | None = None,
    for_s: int | None = None,
    reason: str | None = None,
) -> schemas.Limit:
    """Pause an intent, a project, a concurrency key, or everything: its jobs are not claimed.

    With `for_s` the pause ends automatically after that time.
    """
    name = _name(caller, intent, project, key)
    if intent is not None:
        check_choice(intent, core.known_intents(), "intent", "unknown_intent")
    for_us = None if for_s is None else for_s * S_US
    row = core.engine.do(lc.SetPause(name, reason, for_us), caller.actor)
    return to_schema(name, row)


@operation(Scope.OPERATE, "POST", "/api/resume")
def resume(
    core: Core,
    caller: Caller,
    *,
    intent: str | None = None,
    project: str | None = None,
    key: str | None = None,
) -> schemas.Limit:
    """End the pause of an intent, a project, a concurrency key, or everything."""
    name = _name(caller, intent, project, key)
    row = core.engine.do(lc.EndPause(name), caller.actor)
    return to_schema(name, row)


def _name(caller: Caller, intent: str | None, project: str | None, key: str | None) -> str:
    """The name of the limit. A token of one project may pause that project only."""
    named = {"intent": intent, "project": project, "key": key}
    given = {kind: value for kind, value in named.items() if value is not None}
    if caller.project is not None and given != {"project": caller.project}:
        raise Forbidden(f"{caller.name} may pause and resume only project {caller.project!r}.")
    if not given:
        return EVERYTHING
    if len(given) > 1:
        *_, (field, value) = given.items()
        raise Invalid("Give only one of intent, project and key.", field=field, given=value)
    ((kind, value),) = given.items()
    return f"{kind}:" + text(value, kind)


# ---- the configuration file ------------------------------------------------------------------


def save_limits(core: Core) -> None:
    """Update the table from the file, and end the limits that the file no longer has."""
    with core.store.read() as view:
        rows = view.rows("limits")
    names = sorted({*core.limits, *(name for name, row in rows.items() if row.get(IN_FILE))})
    commands = [
        command
        for name in names
        for command in _commands_for(name, core.limits.get(name, {}), rows.get(name, {}))
    ]
    _do_all(core, commands)


def _commands_for(name: str, wanted: Mapping[str, Any], row: Row) -> Iterator[lc.LimitCommand]:
    """The commands that change a row to what the file has. A pause that a caller began is kept."""
    numbers = {field: wanted[field] for field in NUMBERS if field in wanted}
    if numbers:
        yield lc.SetLimit(name, **numbers, in_file=True)
    elif row.get(IN_FILE) and any(field in row for field in NUMBERS):
        yield lc.EndLimit(name)
    if wanted.get("paused"):
        if not paused(row):
            yield lc.SetPause(name, in_file=True)
    elif paused(row) and "paused_by" not in row:
        yield lc.EndPause(name)


def _do_all(core: Core, commands: Sequence[lc.LimitCommand]) -> None:
    if commands:
        for result in core.engine.execute([CommandRequest(command, FILE) for command in commands]):
            if isinstance(result, DetentError):
                raise result
