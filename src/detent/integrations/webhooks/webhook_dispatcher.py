"""The webhook dispatcher: copies events from the log to the outbox, and sends the outbox.

A delivery is inserted into the outbox in one transaction with the webhook's cursor. It is deleted
only after its receiver has confirmed it, so it arrives at least once, always with the same id.
"""

import logging
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Any, NamedTuple

from detent import failpoints, views
from detent.addresses import networks
from detent.errors import DetentError
from detent.integrations.a2a.a2a_notifications import is_over, notification
from detent.integrations.leader_service import LeaderService
from detent.integrations.webhooks import webhook_bodies as bodies
from detent.integrations.webhooks.outgoing_http import Failed, Outgoing, Response
from detent.operations.context import Core
from detent.operations.leader_election import LeaderElection
from detent.operations.task_webhooks import SHAPE
from detent.operations.webhooks import (
    ALLOWED,
    DEAD,
    MAX_DEAD,
    MAX_KEPT,
    MAX_PENDING,
    Webhook,
    asked_at,
    cursor_name,
    message_id,
    remove_webhook,
    status_name,
    webhooks,
)
from detent.store.log_walk import next_events
from detent.store.port import ReadTransaction, WriteTransaction
from detent.store.types import Delivery, LoggedEvent, Query

log = logging.getLogger("detent.webhooks")

SECOND_US = 1_000_000
#: The delays before the retries of a delivery; after the last one it is dead.
RETRIES_S = (5, 60, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400)
#: The maximum pause after consecutive failures of a receiver; the pause doubles each time.
LONGEST_REST_S = 60
LONGEST_RETRY_AFTER_S = 86_400
#: The maximum numbers of events read and deliveries sent for one webhook in one pass.
MAX_EVENTS = 500
MAX_SENT = 100
#: Deliveries are recorded in batches: after a crash, at most one batch is sent again.
MAX_BATCH, BATCH_S = 20, 1.0
MAX_CONCURRENT = 8
LONGEST_ERROR = 500
PAUSE_S = 0.2
GONE = 410


class Failure(NamedTuple):
    """A delivery that its receiver has not confirmed, and why."""

    row: Delivery
    error: str
    retry_after_s: int = 0
    #: Whether the receiver asked for no more deliveries.
    gone: bool = False


class Backoff(NamedTuple):
    """A pause of a webhook after consecutive failures of its receiver."""

    failures: int
    began: int
    until: int


class Dispatcher:
    """Sends due deliveries, each webhook separately, so that a slow one does not delay others."""

    def __init__(self, core: Core, name: str) -> None:
        self.core = core
        allowed = networks(core.settings.webhooks_allow, ALLOWED)
        self.outgoing = Outgoing(allowed)
        self.service = LeaderService(
            core, LeaderElection(core, "webhooks", name), self.work, pause_s=PAUSE_S
        )
        self._pool = ThreadPoolExecutor(MAX_CONCURRENT, "detent-webhook")
        self._busy: set[str] = set()
        self._lock = threading.Lock()
        #: By the name of the webhook.
        self._backoffs: dict[str, Backoff] = {}

    def start(self) -> None:
        self.service.start()

    def stop(self) -> None:
        self.service.stop()
        self._pool.shutdown(wait=True)

    # -- one pass --------------------------------------------------------------------------

    def work(self, now: int) -> None:
        """Fill the outbox of every webhook, and start sending where no thread is sending."""
        for hook in self._hooks():
            if not self.fill(hook) and is_over(self.core, hook):
                self.core.engine.transaction(partial(remove_webhook, hook=hook))
                continue
            self._begin(hook, now)

    def run_once(self) -> None:
        """Fill and send all webhooks, and wait for it; must not be used while the service runs."""
        if self.service.election.acquire() is not None:
            for hook in self._hooks():
                self.fill(hook)
                self.send(hook)

    def _hooks(self) -> list[Webhook]:
        with self.core.store.read() as view:
            return [hook for hook in webhooks(view.rows("webhooks")) if not hook.paused]

    def _begin(self, hook: Webhook, now: int) -> None:
        with self._lock:
            if hook.name in self._busy or self._rests(hook, now):
                return
            self._busy.add(hook.name)
        self._pool.submit(self._serve, hook)

    def _rests(self, hook: Webhook, now: int) -> bool:
        """Whether the receiver has failed or asked to wait, and no person has asked since."""
        backoff = self._backoffs.get(hook.name)
        if backoff is None or backoff.until <= now:
            return False
        with self.core.store.read() as view:
            return asked_at(view.rows("webhooks"), hook) <= backoff.began

    def _serve(self, hook: Webhook) -> None:
        try:
            self.send(hook)
        except DetentError as error:
            log.warning("webhook %s: %s", hook.name, error)
        except Exception:
            log.exception("webhook %s: sending failed; it will be retried", hook.name)
        finally:
            with self._lock:
                self._busy.discard(hook.name)

    # -- from the log to the outbox --------------------------------------------------------

    def fill(self, hook: Webhook) -> int:
        """Copy the next events of the log to the outbox, up to its maximum; returns the number."""
        with self.core.store.read() as view:
            cursor = view.rows("webhooks").get(cursor_name(hook.name))
            if cursor is None or not view.events(cursor["position"], 1, stream=hook.task):
                return 0
        filled = self.core.engine.transaction(lambda tx: _fill(tx, hook))
        if filled:
            failpoints.hit("webhook.filled")
        return filled

    # -- from the outbox to the receiver ---------------------------------------------------

    def send(self, hook: Webhook) -> int:
        """Send the due deliveries in order, and record them in batches."""
        with self.core.store.read() as view:
            rows, now = view.outbox(hook.target, MAX_KEPT), view.now()
        due, began = _due(rows, now)[:MAX_SENT], now
        sent = 0
        while sent < len(due) and not self.service.stopping.is_set():
            delivered, failure = self._send_batch(hook, due[sent : sent + MAX_BATCH], now)
            now = self._record(hook, delivered, failure)
            sent += len(delivered)
            if failure is not None:
                self._rest(hook, failure, began, now)
                break
        return sent

    def _send_batch(
        self, hook: Webhook, rows: Sequence[Delivery], now: int
    ) -> tuple[list[Delivery], Failure | None]:
        """Send until a delivery fails or the time of a batch is over; returns what arrived."""
        delivered: list[Delivery] = []
        ends_s = time.monotonic() + BATCH_S
        for row in rows:
            failure = self._attempt(hook, row, now)
            if failure is not None:
                return delivered, failure
            failpoints.hit("webhook.sent")
            delivered.append(row)
            if time.monotonic() > ends_s or self.service.stopping.is_set():
                break
        return delivered, None

    def _attempt(self, hook: Webhook, row: Delivery, now: int) -> Failure | None:
        """Send one delivery; returns why it failed, None if its receiver has confirmed it."""
        if hook.shape == SHAPE:
            text = notification(self.core, hook)
        else:
            text = row.body or bodies.test_body(hook, row, now)
        ident = message_id(hook, row)
        headers = {
            **hook.headers,
            "Content-Type": bodies.media_type(hook),
            "User-Agent": "detent",
            **bodies.signed(ident, now, text, hook.live_keys(now)),
        }
        try:
            response = self.outgoing.post(hook.url, headers, text.encode())
        except Failed as error:
            return Failure(row, str(error))
        if 200 <= response.status < 300:
            return None
        retry_after_s = _retry_after_s(response, now)
        return Failure(row, _error_text(response), retry_after_s, response.status == GONE)

    def _record(self, hook: Webhook, delivered: Sequence[Delivery], failure: Failure | None) -> int:
        """Record a batch in one transaction; returns the time of the store."""

        def write(tx: WriteTransaction) -> int:
            status = tx.rows_for_update("webhooks").get(status_name(hook.name), {})
            if delivered:
                tx.delete_outbox([row.id for row in delivered])
                count = status.get("delivered", 0) + len(delivered)
                status = {**status, "delivered": count, "delivered_at": tx.now(), "error": None}
            if failure is not None:
                status = {**status, **_record_failure(tx, hook, failure)}
            _update_status(tx, hook, status)
            return tx.now()

        now = self.core.engine.transaction(write)
        if delivered:
            self._backoffs.pop(hook.name, None)
        return now

    def _rest(self, hook: Webhook, failure: Failure, began: int, now: int) -> None:
        """Send nothing to the webhook for a while; `began` is when the failed sending began."""
        before = self._backoffs.get(hook.name)
        failures = 1 if before is None else before.failures + 1
        rest_s = max(min(LONGEST_REST_S, 2 ** min(failures, 6)), failure.retry_after_s)
        self._backoffs[hook.name] = Backoff(failures, began, now + rest_s * SECOND_US)


# ---- writes ------------------------------------------------------------------------------------


def _fill(tx: WriteTransaction, hook: Webhook) -> int:
    pending = sum(1 for row in tx.outbox(hook.target, MAX_KEPT) if row.due_at != DEAD)
    cursor = tx.rows("webhooks").get(cursor_name(hook.name))
    if cursor is None or pending >= MAX_PENDING:
        return 0
    most = min(MAX_EVENTS, MAX_PENDING - pending)
    batch = _next_events(tx, hook, cursor["position"], most)
    if not batch:
        return 0
    chosen = _deliveries(tx, hook, batch)
    tx.put_outbox(chosen)
    tx.put_rows("webhooks", {cursor_name(hook.name): {"position": batch[-1].position}})
    return len(chosen)


def _next_events(
    tx: WriteTransaction, hook: Webhook, after: int, most: int
) -> Sequence[LoggedEvent]:
    if hook.task is None:
        return next_events(tx, after, most)
    return tx.events(after, most, stream=hook.task)


def _deliveries(
    view: ReadTransaction, hook: Webhook, batch: Sequence[LoggedEvent]
) -> list[Delivery]:
    work = _work(view, {logged.stream for logged in batch}, titled=hook.shape == "slack")
    now = view.now()
    found = []
    for logged in batch:
        event, row = views.event(logged), work.get(logged.stream)
        if bodies.wants(hook, event, row):
            # The notification of a task is generated when it is sent.
            text = "" if hook.shape == SHAPE else bodies.body(hook, logged, event, row)
            found.append(Delivery(0, hook.target, logged.stream, logged.position, text, now))
    return found


def _work(
    view: ReadTransaction, streams: set[str], *, titled: bool
) -> Mapping[str, Mapping[str, Any]]:
    """By stream, the tasks and jobs of events; with their titles if `titled`."""
    found = view.jobs(streams)
    jobs = {job.id: {"intent": job.intent, "alone": job.task_id is None} for job, _ in found}
    if titled:
        rows = view.page(Query("tasks", {"id": sorted(streams)}, limit=len(streams)))
        return {**jobs, **{row["id"]: row for row in rows}}
    return {**jobs, **{task.id: {"intent": task.intent} for task, _ in view.tasks(streams)}}


def _record_failure(tx: WriteTransaction, hook: Webhook, failure: Failure) -> dict[str, Any]:
    """Schedule the retry of a delivery; returns what its webhook's status says about it."""
    attempts, now = failure.row.attempts + 1, tx.now()
    failed = failure.row._replace(
        due_at=_next_time(attempts, now, failure.retry_after_s),
        attempts=attempts,
        error=failure.error[:LONGEST_ERROR],
    )
    tx.update_outbox([failed])
    if failed.due_at == DEAD:
        log.warning("webhook %s: giving up a delivery: %s", hook.name, failure.error)
        _trim_dead(tx, hook)
    if failure.gone and hook.task is not None:
        remove_webhook(tx, hook)  # its creator can create it again
    elif failure.gone:
        _pause(tx, hook)
    return {"failed_at": now, "error": failed.error}


def _update_status(tx: WriteTransaction, hook: Webhook, status: Mapping[str, Any]) -> None:
    """Update the delivery status, unless the webhook was deleted in the meantime."""
    if hook.name in tx.rows("webhooks"):
        tx.put_rows("webhooks", {status_name(hook.name): status})


def _pause(tx: WriteTransaction, hook: Webhook) -> None:
    """Pause a webhook whose receiver responds with 410 Gone; an operator can end the pause."""
    row = tx.rows("webhooks").get(hook.name)
    if row is not None:
        tx.put_rows("webhooks", {hook.name: {**row, "paused": True}})


def _trim_dead(tx: WriteTransaction, hook: Webhook) -> None:
    """Delete the oldest dead deliveries over the maximum."""
    dead = [row.id for row in tx.outbox(hook.target, MAX_KEPT + 1) if row.due_at == DEAD]
    tx.delete_outbox(dead[:-MAX_DEAD])


# ---- due deliveries and retries ------------------------------------------------------------------


def _due(rows: Sequence[Delivery], now: int) -> list[Delivery]:
    """The deliveries to send now. Those of a task wait for its earlier failed ones."""
    waiting: set[str] = set()
    found = []
    for row in rows:
        if row.due_at == DEAD or row.stream in waiting:
            continue
        if row.due_at > now:
            waiting.add(row.stream)
        else:
            found.append(row)
    return found


def _next_time(attempts: int, now: int, retry_after_s: int) -> int:
    if attempts > len(RETRIES_S):
        return DEAD
    return now + max(RETRIES_S[attempts - 1], retry_after_s) * SECOND_US


def _error_text(response: Response) -> str:
    if 300 <= response.status < 400:
        return f"status {response.status}: redirects are not followed"
    return f"status {response.status}: {response.body[:200].decode('utf-8', 'replace')}"


def _retry_after_s(response: Response, now: int) -> int:
    """The Retry-After of a response, which is seconds or a date; bounded."""
    given = response.headers.get("retry-after", "")
    if given.isascii() and given.isdigit():
        return min(int(given[:9]), LONGEST_RETRY_AFTER_S)
    try:
        at = parsedate_to_datetime(given)
    except (ValueError, OverflowError):
        return 0
    moment = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    seconds = (moment - datetime.fromtimestamp(now / SECOND_US, UTC)).total_seconds()
    return max(0, min(int(seconds), LONGEST_RETRY_AFTER_S))
