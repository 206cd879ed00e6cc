"""Deliberately broken variants that only real processes or a real disk give away, by name.

A process of the supervisor becomes one through the variable DETENT_FAULTS_MUTANT. Mutants of the
engine and the kernel are with the simulation and the search.
"""

import itertools
from collections.abc import Callable, Mapping
from typing import Any
from unittest.mock import patch

import apsw

from detent import failpoints, feed
from detent.app import effects, subtasks
from detent.app.journal import Journal
from detent.engine import CommandResult, Engine, due_timers
from detent.engine.changeset import ChangeSet
from detent.errors import Unavailable
from detent.gateway import auth
from detent.gateway.feed_hub import FeedHub
from detent.ids import new_id
from detent.integrations.webhooks import webhook_dispatcher
from detent.integrations.webhooks.webhook_dispatcher import Dispatcher
from detent.keeper import scheduler
from detent.kernel import commands as c
from detent.operations import schedules as operations
from detent.operations import sessions, tokens
from detent.operations.webhooks import cursor_name
from detent.store.sqlite import connection, store
from detent.store.types import DueTimers, IdempotencyKey
from detent.task_lifecycles import all_lifecycles
from verification.mutant import Patches
from verification.simulation import mutants as simulated

LIFECYCLES = all_lifecycles()


# ---- seen by failpoints ----------------------------------------------------------------------


def effect_is_not_looked_up() -> Patches:
    """An effect that began and has no recorded end is done again, whatever its policy says."""
    yield patch.dict(effects.POLICIES, {"reconcile": effects.POLICIES["idempotent"]})


def effect_begin_is_not_recorded() -> Patches:
    """That an effect begins is not recorded: a later run finds nothing to look up."""
    execute = Journal.execute

    def keep_quiet(self: Journal, command: Any, under: Any = None) -> Any:
        if not isinstance(command, c.BeginEffect):
            return (yield from execute(self, command, under))
        return None

    yield patch.object(Journal, "execute", keep_quiet)


def webhook_leaves_outbox_before_sending() -> Patches:
    """A message is taken out of the outbox, and then it is sent."""
    attempt = Dispatcher._attempt

    def note_then_send(self: Dispatcher, hook: Any, row: Any, now: int) -> Any:
        self._record(hook, [row], None)
        failpoints.hit("webhook.sent")
        return attempt(self, hook, row, now)

    yield patch.object(Dispatcher, "_attempt", note_then_send)


def webhook_cursor_moves_first() -> Patches:
    """A webhook's cursor moves in one transaction, and the next one fills the outbox."""

    def fill(self: Dispatcher, hook: Any) -> int:
        with self.core.store.read() as view:
            cursor = view.rows("webhooks")[cursor_name(hook.name)]["position"]
            batch = view.events(cursor, webhook_dispatcher.MAX_EVENTS)
            chosen = webhook_dispatcher._deliveries(view, hook, batch) if batch else []
        if batch:
            moved = {cursor_name(hook.name): {"position": batch[-1].position}}
            self.core.engine.transaction(lambda tx: tx.put_rows("webhooks", moved))
        if chosen:
            failpoints.hit("webhook.filled")
            self.core.engine.transaction(lambda tx: tx.put_outbox(chosen))
        return len(chosen)

    yield patch.object(Dispatcher, "fill", fill)


def cursor_moves_before_delivery() -> Patches:
    """A reader of the log moves its cursor when it has read a batch, and then delivers it."""

    def step(self: feed.Tail) -> int:
        batch = feed.read(self.store, self.cursor)
        if batch:
            self.cursor = batch[-1].position
            self.deliver(batch)
        return len(batch)

    yield patch.object(feed.Tail, "step", step)


def reader_ahead_of_the_hub_joins() -> Patches:
    """A reader of the live feed that has read further than the hub joins it immediately."""

    def may_join(self: FeedHub, reader: Any) -> bool:
        return bool(reader.cursor >= self.position)

    yield patch.object(FeedHub, "_at_hub_position", may_join)


def reader_takes_the_hubs_position() -> Patches:
    """A reader that has read its history goes on from where the hub is by then."""
    next_batch = FeedHub._next_batch

    async def read_then_look(self: FeedHub, reader: Any, upto: int) -> Any:
        news, _ = await next_batch(self, reader, upto)
        return news, self.position

    yield patch.object(FeedHub, "_next_batch", read_then_look)


def step_is_not_recorded() -> Patches:
    """A step's result is kept in memory until the run ends."""

    def record(*_: Any) -> Any:
        yield from ()

    yield patch.object(Journal, "record", record)


def subtask_has_a_new_id_each_time() -> Patches:
    """What a subtask is called does not follow from its parent."""
    yield patch.object(subtasks, "derived_id", lambda *_: new_id())


def lost_leases_are_never_found() -> Patches:
    """Expired leases are never looked for."""
    run = due_timers.run

    def blind(tx: Any, limit: int, limits: Any) -> int:
        look = type(tx).due

        def without_leases(self: Any, most: int, now: int) -> DueTimers:
            found: DueTimers = look(self, most, now)
            return found._replace(leases=())

        with patch.object(type(tx), "due", without_leases):
            return run(tx, limit, limits)

    yield patch.object(due_timers, "run", blind)


def key_is_not_remembered() -> Patches:
    """An idempotency key is looked for, and never written."""
    yield patch.object(ChangeSet, "add_key", _remember_nothing)


def _remember_nothing(self: ChangeSet, ask: Any, answer: Any, lifetime_us: int) -> None:
    """The next batch finds none; the present one expects a key at the end of the list."""
    del lifetime_us
    key = IdempotencyKey(ask.key.project, new_id(), ask.key.digest, answer, 0)
    self.keys.append(key)


def schedule_fires_without_a_key() -> Patches:
    """Each firing of a schedule is a new one, also of the same time."""
    submit = operations.submit
    numbers = itertools.count()

    def submit_again(core: Any, schedule: Any, key: str) -> str:
        return submit(core, schedule, f"{key}:{next(numbers)}:{new_id()}")

    yield patch.object(scheduler, "submit", submit_again)


def stopped_worker_is_not_fenced() -> Patches:
    """Any worker may report about a running job."""
    yield from simulated.no_fence()


# ---- seen by races ---------------------------------------------------------------------------


def verdict_after_decision() -> Patches:
    """One more row: what was accepted can still be cancelled."""
    move: Any = LIFECYCLES["review"].move
    yield patch.dict(move, {("completed", "task_cancelled"): "cancelled"})


# ---- seen by images and by a failing disk ----------------------------------------------------


def commit_is_not_synced() -> Patches:
    """A commit is acknowledged when it is written, not when it is on the disk."""
    pragmas = tuple(each.replace("= FULL", "= NORMAL") for each in connection.PRAGMAS)
    yield patch.object(connection, "PRAGMAS", pragmas)


def nothing_is_synced() -> Patches:
    """The system may write whenever it likes, the log and what is moved out of it."""
    pragmas = tuple(each.replace("= FULL", "= OFF") for each in connection.PRAGMAS)
    yield patch.object(connection, "PRAGMAS", pragmas)


def failed_sync_is_no_fault() -> Patches:
    """A commit whose sync has failed counts as done."""
    execute = connection.Connection.all

    def pass_over(self: Any, text: str, values: Any = ()) -> Any:
        try:
            return execute(self, text, values)
        except apsw.IOError:
            if text != "COMMIT":
                raise
            return []

    yield patch.object(connection.Connection, "all", pass_over)


def full_disk_is_no_fault() -> Patches:
    """A full disk is passed over, and the caller gets an acknowledgement."""
    commit = Engine._commit_once

    def whatever(self: Engine, asks: Any) -> Any:
        try:
            return commit(self, asks)
        except Unavailable:
            return [CommandResult(None)] * len(asks)

    yield patch.object(Engine, "_commit_once", whatever)


def fault_is_not_undone() -> Patches:
    """What a failed transaction has written stays, and is committed with the next one."""
    execute = connection.Connection.all

    def keep_on(self: Any, text: str, values: Any = ()) -> Any:
        try:
            return execute(self, text, values)
        except apsw.FullError:
            if text != "COMMIT":
                raise
            return []

    yield patch.object(connection.Connection, "all", keep_on)
    yield patch.object(store.SqliteStore, "_drop_writer", lambda _: None)


# ---- seen by credentials ---------------------------------------------------------------------


def login_code_is_a_token() -> Patches:
    """A login code that was not used yet is accepted as a bearer token."""
    yield from _accepting(bearer=(tokens.CODE,))


def session_is_a_bearer_token() -> Patches:
    """The secret of a session is accepted in the header Authorization."""
    yield from _accepting(bearer=(tokens.SESSION,))


def _accepting(bearer: tuple[str, ...]) -> Patches:
    accepted = auth.accepted
    yield patch.object(
        auth, "accepted", lambda cookie: accepted(cookie) + (() if cookie else bearer)
    )


def session_survives_its_token() -> Patches:
    """Revoking a token leaves its sessions, which are checked by their own time alone."""
    revoked = tokens._revoked

    def only_the_token(rows: Any, caller: Any, name: str) -> list[str]:
        found = revoked(rows, caller, name)
        return [key for key in found if rows[key].get("kind") != tokens.SESSION]

    def by_itself(rows: Any, key: str, now: int) -> bool:
        row = rows.get(key)
        return row is not None and not tokens.expired(row, now)

    def own_rights(self: Any, key: str) -> Any:
        row = self._rows[key]
        session = row.get("kind") == tokens.SESSION
        return tokens.caller_from(
            row, row["token"] if session else key, session=key if session else None
        )

    yield patch.object(tokens, "_revoked", only_the_token)
    yield patch.object(auth, "is_valid", by_itself)
    yield patch.object(auth.Tokens, "_caller", own_rights)


def session_makes_sessions() -> Patches:
    """A session may create a login code, so that it never has to end."""
    yield patch.object(sessions, "_no_session", lambda _: None)


MUTANTS: Mapping[str, Callable[[], Patches]] = {
    each.__name__.replace("_", "-"): each
    for each in (
        *(effect_is_not_looked_up, effect_begin_is_not_recorded, step_is_not_recorded),
        *(subtask_has_a_new_id_each_time, webhook_leaves_outbox_before_sending),
        *(lost_leases_are_never_found, key_is_not_remembered, schedule_fires_without_a_key),
        *(webhook_cursor_moves_first, cursor_moves_before_delivery),
        *(reader_ahead_of_the_hub_joins, reader_takes_the_hubs_position),
        *(stopped_worker_is_not_fenced, verdict_after_decision),
        *(commit_is_not_synced, nothing_is_synced, failed_sync_is_no_fault),
        *(full_disk_is_no_fault, fault_is_not_undone),
        *(login_code_is_a_token, session_is_a_bearer_token),
        *(session_survives_its_token, session_makes_sessions),
    )
}
