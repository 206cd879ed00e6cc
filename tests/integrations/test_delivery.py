"""Integrations that follow the log: a failure between reading and delivery loses nothing.

Each reader is compared with one that nothing has happened to.
"""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from detent import feed
from detent.engine.claims import ClaimRequest
from detent.errors import Unavailable
from detent.integrations.notion.notion_sync import CURSOR, Synced
from detent.integrations.telemetry import state_changes, traces
from detent.integrations.telemetry.metrics import Metrics
from detent.integrations.telemetry.traces import Traces
from detent.integrations.webhooks import webhook_dispatcher
from detent.integrations.webhooks.webhook_dispatcher import Dispatcher
from detent.kernel import commands as c
from detent.operations.context import Core
from detent.operations.webhooks import Webhook
from detent.store.types import Delivery
from tests.integrations.hooks import PERSON, listed, put, received_events, submit
from tests.integrations.notion_world import World
from tests.integrations.receiver import Receiver
from verification.notion.notion_server import Reply

CUT = Unavailable("The connection was cut.", retry_after_s=1)


class Failing:
    """A function that raises at one of its calls, by number from 1, and works otherwise."""

    def __init__(self, right: Callable[..., Any], at: int, *, after: bool = False) -> None:
        self._right, self._at, self._after = right, at, after
        self.calls = 0

    def __call__(self, *given: Any) -> Any:
        self.calls += 1
        if self.calls == self._at and not self._after:
            raise CUT
        found = self._right(*given)
        if self.calls == self._at:
            raise CUT
        return found


def claim(core: Core) -> tuple[c.Grant, str]:
    (claimed,) = core.engine.claim(ClaimRequest("w", "nonce", 1))
    return claimed.grant, claimed.job.run_id or ""


def story(core: Core, name: str) -> None:
    """A task that fails, is retried and is completed."""
    fail_twice(core, name)
    core.engine.do(c.RetryTask(name), PERSON)
    core.engine.do(c.CompleteRun(*claim(core), None, 0), PERSON)


def fail_twice(core: Core, name: str) -> None:
    submit(core, name, queue=True, options={"retry": {"retries": 0}})
    core.engine.do(c.FailRun(*claim(core), "error", "it broke", 1), PERSON)
    core.engine.do(c.RetryTask(name), PERSON)
    core.engine.do(c.FailRun(*claim(core), "error", "it broke", 1), PERSON)


# ---- metrics -----------------------------------------------------------------------------------


def counted(core: Core, after: int) -> tuple[Metrics, feed.Tail]:
    metrics = Metrics(core)
    return metrics, feed.Tail(core.store, metrics.observe, after)


def families(metrics: Metrics) -> list[str]:
    """The metrics that were counted from the feed."""
    page = metrics.page().decode().splitlines()
    return [line for line in page if line.startswith(("task_", "job_", "run_", "detent_claims"))]


def test_metrics_count_each_event_once_although_counting_fails(
    core: Core, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failure at any event: of the batch, or of the beginning of a stream of the batch."""
    fail_twice(core, "old")
    after = feed.head(core.store)
    core.engine.do(c.RetryTask("old"), PERSON)
    core.engine.do(c.CompleteRun(*claim(core), None, 0), PERSON)
    story(core, "new")
    undisturbed, tail = counted(core, after)
    decode = Failing(state_changes._decode, 0)
    monkeypatch.setattr(state_changes, "_decode", decode)
    tail.step()
    assert decode.calls > 10
    for at in range(1, decode.calls + 1):
        metrics, tail = counted(core, after)
        monkeypatch.setattr(state_changes, "_decode", Failing(decode._right, at))
        with pytest.raises(Unavailable):
            tail.step()
        tail.step()
        assert families(metrics) == families(undisturbed), f"failed at event {at}"


# ---- traces ------------------------------------------------------------------------------------


class Kept(SpanExporter):
    def __init__(self) -> None:
        self.spans: list[ReadableSpan] = []

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.spans.extend(spans)
        return SpanExportResult.SUCCESS

    def shutdown(self) -> None:
        """There is nothing to release."""

    @property
    def spans_seen(self) -> set[str]:
        """The exported spans as text; a span that is exported twice is the same."""
        return {each.to_json() for each in self.spans}


@pytest.fixture
def in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traces, "MAX_EVENTS", 4)


def undisturbed_traces(core: Core, after: int) -> set[str]:
    kept = Kept()
    alone = Traces(core, "alone", kept)
    alone._save(after)
    while alone.work(0):
        pass
    return kept.spans_seen


def export_all(readers: Sequence[Traces]) -> None:
    """Each exports one batch in turn; a failed export is retried in the next turn."""
    again = True
    while again:
        again = False
        for reader in readers:
            try:
                again |= reader.work(0)
            except Unavailable:
                again = True


@pytest.mark.parametrize("part", ["export", "_save"])
@pytest.mark.parametrize("after", [False, True])
def test_spans_are_the_same_although_an_export_fails(
    core: Core, monkeypatch: pytest.MonkeyPatch, in_pieces: None, part: str, after: bool
) -> None:
    start = feed.head(core.store)
    story(core, "t")
    right = undisturbed_traces(core, start)
    assert len(right) == 5  # three runs, and two ends of the task
    for at in range(1, 4):
        kept = Kept()
        reader = Traces(core, "here", kept)
        reader._save(start)
        where: Any = kept if part == "export" else reader
        monkeypatch.setattr(where, part, Failing(getattr(where, part), at, after=after))
        export_all([reader])
        assert kept.spans_seen == right, f"failed at {at}"


def test_spans_are_the_same_although_two_processes_export_in_turn(
    core: Core, in_pieces: None
) -> None:
    start = feed.head(core.store)
    story(core, "t")
    right = undisturbed_traces(core, start)
    kept = Kept()
    readers = [Traces(core, name, kept) for name in ("one", "other")]
    readers[0]._save(start)
    export_all(readers)
    assert kept.spans_seen == right


# ---- Notion ------------------------------------------------------------------------------------


REFUSAL = {"object": "error", "code": "validation_error", "message": "No."}


def test_a_page_that_notion_refused_is_written_in_a_later_pass() -> None:
    world = World()
    world.submit("t1")
    world.run()
    world.submit("t2")
    world.server.answers.append(Reply(400, REFUSAL))
    assert world.run() == Synced(failed=1)
    assert set(world.rows("tasks")) == {"t1"}
    assert world.run() == Synced(created=1)
    assert set(world.rows("tasks")) == {"t1", "t2"}
    assert world.run() == Synced()


def test_pages_that_notion_goes_on_refusing_hold_up_no_other() -> None:
    world = World()
    world.submit("t1")
    world.run()
    names = [f"n{number}" for number in range(8)]
    for name in names:
        world.submit(name)
        world.server.answers.append(Reply(400, REFUSAL))
    assert world.run().failed == 8
    world.server.answers += [Reply(400, REFUSAL)] * 6
    passes = [world.run() for _ in range(6)]
    assert sum(each.created for each in passes) == 8
    assert set(world.rows("tasks")) == {"t1", *names}
    assert world.run() == Synced()


def test_notions_cursor_moves_after_the_pages_of_its_batch() -> None:
    world = World()
    world.submit("t1")
    world.run()
    with world.core.store.read() as view:
        before = view.rows("system_state")[CURSOR]
    world.submit("t2")
    world.server.answers += [Reply(500, {})] * 5
    with pytest.raises(Exception, match="500"):
        world.run()
    with world.core.store.read() as view:
        assert view.rows("system_state")[CURSOR] == before
    world.run()
    assert set(world.rows("tasks")) == {"t1", "t2"}


# ---- webhooks ----------------------------------------------------------------------------------


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("function", ["_deliveries", "_fill"])
def test_a_webhook_gets_each_event_once_although_filling_its_outbox_fails(
    core: Core,
    receiver: Receiver,
    dispatcher: Dispatcher,
    monkeypatch: pytest.MonkeyPatch,
    function: str,
    after: bool,
) -> None:
    put(core, receiver)
    submit(core, "t", queue=True)
    monkeypatch.setattr(
        webhook_dispatcher, function, Failing(getattr(webhook_dispatcher, function), 1, after=after)
    )
    with pytest.raises(Unavailable):
        dispatcher.run_once()
    dispatcher.run_once()
    assert received_events(receiver) == ["task_created t", "task_queued t", "job_created t-j1"]
    assert len({*receiver.ids}) == 3


def test_a_webhook_sends_again_what_was_not_noted_as_sent(
    core: Core, receiver: Receiver, dispatcher: Dispatcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(core, receiver)
    submit(core, "t", queue=True)
    monkeypatch.setattr(dispatcher, "_record", Failing(dispatcher._record, 1))
    with pytest.raises(Unavailable):
        dispatcher.run_once()
    dispatcher.run_once()
    assert list(dict.fromkeys(received_events(receiver))) == [
        "task_created t",
        "task_queued t",
        "job_created t-j1",
    ]
    assert len({*receiver.ids}) == 3
    assert len(receiver.ids) == 6


def test_deliveries_are_recorded_in_batches(
    core: Core, receiver: Receiver, dispatcher: Dispatcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(core, receiver)
    for number in range(2 * webhook_dispatcher.MAX_BATCH + 1):
        submit(core, f"t{number}")
    receiver.answers = [*[200] * (webhook_dispatcher.MAX_BATCH + 2), 500]
    recorded: list[int] = []
    record = dispatcher._record

    def note(hook: Webhook, delivered: Sequence[Delivery], failure: Any) -> int:
        recorded.append(len(delivered))
        return record(hook, delivered, failure)

    monkeypatch.setattr(dispatcher, "_record", note)
    dispatcher.run_once()
    assert recorded == [webhook_dispatcher.MAX_BATCH, 2]
    found = listed(core)
    assert (found["delivered"], found["pending"]) == (
        webhook_dispatcher.MAX_BATCH + 2,
        webhook_dispatcher.MAX_BATCH - 1,
    )
    assert found["error"].startswith("status 500")


def test_a_slow_receiver_does_not_delay_the_record(
    core: Core, receiver: Receiver, dispatcher: Dispatcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhook_dispatcher, "BATCH_S", 0.0)
    put(core, receiver)
    submit(core, "t1")
    submit(core, "t2")
    receiver.meanwhile = lambda: seen.append(listed(core)["delivered"])
    seen: list[int] = []
    dispatcher.run_once()
    assert seen == [0, 1]
