"""Decides about pauses and limits. A command that changes nothing writes no event."""

from typing import Any

from detent.kernel import events as e
from detent.kernel.commands import limit_commands as lc
from detent.kernel.draft import Draft
from detent.kernel.evolve.limit import IN_FILE, NUMBERS, Row, is_over, paused


def set_pause(draft: Draft, command: lc.SetPause) -> Row:
    until = None if command.for_us is None else draft.now + command.for_us
    by = None if command.in_file else draft.actor.name
    row = _row(draft, command)
    current = (row.get("paused_by"), row.get("reason"), row.get("paused_until"))
    if not paused(row) or current != (by, command.reason, until):
        _emit(draft, command, e.PauseSet(command.reason, until, command.in_file))
    return _row(draft, command)


def end_pause(draft: Draft, command: lc.EndPause) -> Row:
    if paused(_row(draft, command)):
        _emit(draft, command, e.PauseEnded())
    return _row(draft, command)


def expire_pause(draft: Draft, command: lc.ExpirePause) -> bool:
    """End a pause whose time is over, unless another command has extended or ended it."""
    over = is_over(_row(draft, command), draft.now)
    if over:
        _emit(draft, command, e.PauseEnded("expired"))
    return over


def set_limit(draft: Draft, command: lc.SetLimit) -> Row:
    wanted: dict[str, Any] = {name: getattr(command, name) for name in NUMBERS}
    row = _row(draft, command)
    if {name: row.get(name) for name in NUMBERS} != wanted or command.in_file > (IN_FILE in row):
        _emit(draft, command, e.LimitSet(**wanted, in_file=command.in_file))
    return _row(draft, command)


def end_limit(draft: Draft, command: lc.EndLimit) -> Row:
    if any(name in _row(draft, command) for name in NUMBERS):
        _emit(draft, command, e.LimitEnded())
    return _row(draft, command)


def _row(draft: Draft, command: lc.LimitCommand) -> Row:
    return draft.known_limits().get(command.name, {})


def _emit(draft: Draft, command: lc.LimitCommand, event: e.Event) -> None:
    draft.emit(e.SYSTEM, event, command.name)
