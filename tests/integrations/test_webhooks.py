"""Webhooks against a real server: at least once, under one id, in order, signed, and bounded."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cloudevents.v1.http import from_json
from standardwebhooks.webhooks import Webhook as Referee

from detent import feed
from detent.engine import Engine
from detent.engine.claims import ClaimRequest
from detent.errors import NotFound
from detent.integrations.webhooks import webhook_dispatcher as sending
from detent.integrations.webhooks.webhook_dispatcher import RETRIES_S, Dispatcher
from detent.kernel import commands as c
from detent.operations import webhooks as ops
from detent.operations.context import Core
from detent.operations.registry import OWNER
from detent.store.memory import MemoryStore
from detent.store.store_url import open_store
from detent.testing.clock import VirtualClock
from tests.gateway.installation import DEADLINE_S, until
from tests.integrations.hooks import PERSON, SETTINGS, listed, put, received_events, submit
from tests.integrations.receiver import Receiver

# ---- what arrives ----------------------------------------------------------------------------


def test_an_event_arrives_as_a_signed_cloudevent(receiver: Receiver) -> None:
    store = MemoryStore()  # signature verification uses the real clock
    core = Core(store, Engine(store), SETTINGS, {"dig": {}})
    submit(core, "before")
    key = put(core, receiver)["key"]
    submit(core, "t1", title="Grüße")
    dispatcher = Dispatcher(core, "here")
    dispatcher.run_once()
    (came,) = receiver.received
    assert (came.path, came.headers["host"]) == ("/hook", f"127.0.0.1:{receiver.server_port}")
    assert came.headers["content-type"] == "application/cloudevents+json; charset=utf-8"
    Referee(key).verify(came.body, came.headers)
    event = from_json(came.body)
    assert event["type"] == "detent.task_created"
    assert event["id"] == came.headers["webhook-id"]
    assert (event["subject"], event["project"], event["source"]) == ("t1", "p", "/detent")
    (logged,) = [each for each in feed.read(store, 0) if each.stream == "t1"]
    assert event.data["position"] == logged.position
    assert event.data["data"]["title"] == "Grüße"
    assert listed(core)["pending"] == 0
    assert listed(core)["delivered"] == 1


def test_a_changed_body_or_a_wrong_key_fails_verification(receiver: Receiver) -> None:
    store = MemoryStore()
    core = Core(store, Engine(store), SETTINGS, {"dig": {}})
    key = put(core, receiver)["key"]
    submit(core, "t1")
    Dispatcher(core, "here").run_once()
    (came,) = receiver.received
    for wrong, body in ((ops.new_key(), came.body), (key, came.body + b" ")):
        with pytest.raises(Exception, match="No matching signature"):
            Referee(wrong).verify(body, came.headers)


def test_a_webhook_starts_at_the_end_of_the_log(
    core: Core, receiver: Receiver, dispatcher: Dispatcher
) -> None:
    submit(core, "old")
    put(core, receiver)
    submit(core, "new")
    dispatcher.run_once()
    assert received_events(receiver) == ["task_created new"]


def test_an_event_that_is_too_long_is_sent_without_its_data(
    core: Core, receiver: Receiver, dispatcher: Dispatcher
) -> None:
    put(core, receiver)
    submit(core, "t", payload="x" * 100_000)
    dispatcher.run_once()
    event = json.loads(receiver.received[0].body)
    assert (event["data"]["data"], event["data"]["cut"]) == (None, True)
    assert event["data"]["stream"] == "t"


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({"events": ["task_queued"]}, ["task_queued a", "task_queued b"]),
        ({"projects": ["q"], "events": ["task_created"]}, ["task_created b"]),
        ({"intents": ["cut"], "events": ["task_created"]}, ["task_created b"]),
        ({"intents": ["cut"], "events": ["job_created"]}, ["job_created b-j1"]),
        ({"intents": ["none"]}, []),
    ],
)
def test_filters(
    core: Core,
    receiver: Receiver,
    dispatcher: Dispatcher,
    wanted: dict[str, Any],
    expected: list[str],
) -> None:
    put(core, receiver, **wanted)
    submit(core, "a", queue=True)
    submit(core, "b", queue=True, project="q", intent="cut")
    dispatcher.run_once()
    assert received_events(receiver) == expected


def claim(core: Core, task_id: str) -> tuple[c.Grant, str]:
    (claimed,) = core.engine.claim(ClaimRequest("w", "nonce", 1))
    assert claimed.task is not None
    assert claimed.task.id == task_id
    return claimed.grant, claimed.job.run_id or ""


def test_the_filter_people_sends_only_events_that_need_a_person(
    core: Core, receiver: Receiver, dispatcher: Dispatcher
) -> None:
    put(core, receiver, only="people", shape="slack")
    submit(core, "a", queue=True, title="<b>Ship & go</b>")
    detail = {"text": "Which branch <here>?", "options": ["x", "y"]}
    grant, run = claim(core, "a")
    core.engine.do(c.SuspendRun(grant, run, "ask", "question", detail=detail), PERSON)
    submit(core, "b", queue=True)
    core.engine.do(c.CompleteRun(*claim(core, "b"), None, 0), PERSON)
    submit(core, "c", queue=True, options={"retry": {"retries": 0}})
    core.engine.do(c.FailRun(*claim(core, "c"), "error", "it broke", 1), PERSON)
    for job_id, kind in (("j", "question"), ("k", "signal")):  # jobs without a task
        core.engine.do(c.SubmitJob(job_id, "p", "dig"), PERSON)
        (held,) = core.engine.claim(ClaimRequest("w", "nonce", 1))
        core.engine.do(c.SuspendRun(held.grant, f"{job_id}-r1", "w", kind, detail=detail), PERSON)
    dispatcher.run_once()
    assert [json.loads(each.body)["text"] for each in receiver.received] == [
        "*&lt;b&gt;Ship &amp; go&lt;/b&gt;* asks: Which branch &lt;here&gt;? [x, y] (a, project p)",
        "*b* is ready for review (b, project p)",
        "*c* failed: it broke (c, project p)",
        "*j* asks: Which branch &lt;here&gt;? [x, y] (j, project p)",
    ]
    assert {each.headers["content-type"] for each in receiver.received} == {"application/json"}


# ---- trying again ----------------------------------------------------------------------------


def test_a_failed_delivery_is_retried_with_the_same_id(
    core: Core, clock: VirtualClock, receiver: Receiver, dispatcher: Dispatcher
) -> None:
    put(core, receiver)
    receiver.answers = [500, 503]
    submit(core, "t")
    dispatcher.run_once()
    (waits,) = ops.list_deliveries(core, OWNER, name="chat")["items"]
    assert (waits["state"], waits["attempts"], waits["error"]) == (
        "pending",
        1,
        "status 500: ",
    )
    dispatcher.run_once()
    assert len(receiver.received) == 1
    clock.advance(seconds=RETRIES_S[0])
    dispatcher.run_once()
    clock.advance(seconds=RETRIES_S[1])
    dispatcher.run_once()
    assert len(receiver.received) == 3
    assert len(set(receiver.ids)) == 1
    assert listed(core)["delivered"] == 1


def test_a_delivery_is_dead_after_the_last_retry_and_can_be_replayed(
    core: Core, clock: VirtualClock, receiver: Receiver, dispatcher: Dispatcher
) -> None:
    put(core, receiver)
    tries = len(RETRIES_S) + 1
    receiver.answers = [500] * tries
    submit(core, "t")
    for _ in range(tries + 3):
        dispatcher.run_once()
        clock.advance(seconds=86_400)
    assert len(receiver.received) == tries
    assert (listed(core)["dead"], listed(core)["pending"]) == (1, 0)
    submit(core, "next")
    dispatcher.run_once()
    assert received_events(receiver)[-1] == "task_created next"
    assert ops.replay_webhook(core, OWNER, name="chat", dead=True)["revived"] == 1
    dispatcher.run_once()
    assert received_events(receiver)[-1] == "task_created t"
    assert listed(core)["dead"] == 0


def test_events_of_one_task_arrive_in_order(
    core: Core, clock: VirtualClock, receiver: Receiver, dispatcher: Dispatcher
) -> None:
    put(core, receiver, events=["task_created", "task_queued"])
    receiver.answers = [500]
    submit(core, "a", queue=True)
    submit(core, "b", queue=True)
    dispatcher.run_once()
    dispatcher.run_once()
    assert received_events(receiver) == ["task_created a", "task_created b", "task_queued b"]
    clock.advance(seconds=RETRIES_S[0])
    dispatcher.run_once()
    assert received_events(receiver)[3:] == ["task_created a", "task_queued a"]


def test_a_receiver_sets_retry_after(
    core: Core, clock: VirtualClock, receiver: Receiver, dispatcher: Dispatcher
) -> None:
    put(core, receiver)
    receiver.answers = [(429, {"Retry-After": "900"}, b"")]
    submit(core, "t")
    dispatcher.run_once()
    clock.advance(seconds=899)
    dispatcher.run_once()
    assert len(receiver.received) == 1
    clock.advance(seconds=1)
    dispatcher.run_once()
    assert len(receiver.received) == 2


def test_a_webhook_is_paused_after_410_gone(
    core: Core, clock: VirtualClock, receiver: Receiver, dispatcher: Dispatcher
) -> None:
    put(core, receiver)
    receiver.answers = [410]
    submit(core, "t")
    dispatcher.run_once()
    assert listed(core)["paused"]
    clock.advance(seconds=86_400)
    dispatcher.run_once()
    assert len(receiver.received) == 1
    put(core, receiver)
    dispatcher.run_once()
    assert len(receiver.received) == 2


class Killed(BaseException):
    """The process has ended here."""


def test_a_crash_after_sending_sends_again_with_the_same_id(
    core: Core, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(core, receiver)
    submit(core, "t")

    def die(*_: object) -> bool:
        raise Killed

    with monkeypatch.context() as dying:
        dying.setattr(Dispatcher, "_record", die)
        with pytest.raises(Killed):
            Dispatcher(core, "here").run_once()
    assert listed(core)["pending"] == 1
    Dispatcher(core, "here").run_once()
    Dispatcher(core, "here").run_once()
    assert received_events(receiver) == ["task_created t"] * 2
    assert len(set(receiver.ids)) == 1


def keeper_of(tmp_path: Path) -> "subprocess.Popen[bytes]":
    """A keeper's process on this data."""
    argv = [sys.executable, "-m", "detent", "keeper", "--data-dir", str(tmp_path)]
    allowed = {**os.environ, "DETENT_WEBHOOKS_ALLOW": "127.0.0.0/8"}
    return subprocess.Popen(argv, env=allowed, cwd=tmp_path, stderr=subprocess.DEVNULL)


def test_another_process_sends_after_a_kill(tmp_path: Path, receiver: Receiver) -> None:
    store = open_store(tmp_path / "detent.db")
    core = Core(store, Engine(store), SETTINGS, {"dig": {}})
    first = keeper_of(tmp_path)
    receiver.meanwhile = first.kill
    put(core, receiver)
    submit(core, "t")
    first.wait(DEADLINE_S)
    receiver.meanwhile = lambda: None
    # The term of the dead one has run out.
    core.engine.transaction(lambda tx: tx.put_rows("system_state", {"webhooks": None}))
    second = keeper_of(tmp_path)
    until(lambda: listed(core)["delivered"] == 1)
    second.terminate()
    second.wait(DEADLINE_S)
    assert received_events(receiver) == ["task_created t"] * 2
    assert len(set(receiver.ids)) == 1
    store.close()


def test_a_crash_before_the_outbox_is_written_loses_nothing(
    core: Core, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(core, receiver)
    submit(core, "t")

    def die(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as dying:
        dying.setattr("detent.store.memory.writer.MemoryWriter.put_rows", die)
        with pytest.raises(Killed):
            Dispatcher(core, "here").run_once()
    assert listed(core)["pending"] == 0
    Dispatcher(core, "here").run_once()
    assert received_events(receiver) == ["task_created t"]


# ---- replay, keys, bounds --------------------------------------------------------------------


def test_a_replay_sends_again_from_a_position(
    core: Core, receiver: Receiver, dispatcher: Dispatcher
) -> None:
    put(core, receiver)
    for name in ("a", "b", "c"):
        submit(core, name)
    dispatcher.run_once()
    position = json.loads(receiver.received[0].body)["data"]["position"]
    ops.replay_webhook(core, OWNER, name="chat", after=position)
    dispatcher.run_once()
    assert received_events(receiver)[3:] == ["task_created b", "task_created c"]
    assert receiver.ids[3:] == receiver.ids[1:3]


def test_two_keys_sign_during_the_overlap(receiver: Receiver) -> None:
    clock = VirtualClock()
    real = MemoryStore()
    with real.read() as view:
        clock.set(view.now())
    store = MemoryStore(clock)
    core = Core(store, Engine(store), SETTINGS, {"dig": {}})
    dispatcher = Dispatcher(core, "here")
    old = put(core, receiver)["key"]
    new = ops.rotate_webhook_key(core, OWNER, name="chat", overlap_s=60)["key"]
    submit(core, "a")
    dispatcher.run_once()
    for key in (old, new):
        Referee(key).verify(receiver.received[0].body, receiver.received[0].headers)
    clock.advance(seconds=61)
    submit(core, "b")
    dispatcher.run_once()
    Referee(new).verify(receiver.received[1].body, receiver.received[1].headers)
    with pytest.raises(Exception, match="No matching signature"):
        Referee(old).verify(receiver.received[1].body, receiver.received[1].headers)
    assert listed(core)["keys"] == 1


def test_the_outbox_is_bounded_and_the_rest_waits_in_the_log(
    core: Core, clock: VirtualClock, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "MAX_PENDING", 5)
    dispatcher = Dispatcher(core, "here")
    put(core, receiver)
    receiver.answers = [500]
    for number in range(20):
        submit(core, f"t{number:02}")
    for _ in range(3):
        dispatcher.fill(dispatcher._hooks()[0])
    assert listed(core)["pending"] == 5
    for _ in range(10):
        dispatcher.run_once()
        clock.advance(seconds=5)
    assert sorted(set(received_events(receiver))) == [
        f"task_created t{number:02}" for number in range(20)
    ]


def test_one_dispatcher_at_a_time(
    core: Core, clock: VirtualClock, receiver: Receiver, dispatcher: Dispatcher
) -> None:
    put(core, receiver)
    dispatcher.run_once()
    submit(core, "t")
    Dispatcher(core, "elsewhere").run_once()
    assert receiver.received == []
    clock.advance(seconds=16)
    Dispatcher(core, "elsewhere").run_once()
    dispatcher.run_once()
    assert received_events(receiver) == ["task_created t"]


def test_a_test_delivery_arrives_and_is_deleted(
    core: Core, receiver: Receiver, dispatcher: Dispatcher
) -> None:
    put(core, receiver)
    queued = ops.try_webhook(core, OWNER, name="chat")
    dispatcher.run_once()
    assert received_events(receiver) == ["test -"]
    assert receiver.ids == [queued["id"]]
    from_json(receiver.received[0].body)
    assert ops.list_deliveries(core, OWNER, name="chat")["items"] == []


def test_a_deleted_webhook_leaves_nothing(
    core: Core, receiver: Receiver, dispatcher: Dispatcher
) -> None:
    put(core, receiver)
    submit(core, "t")
    dispatcher.fill(dispatcher._hooks()[0])
    ops.delete_webhook(core, OWNER, name="chat")
    dispatcher.run_once()
    with core.store.read() as view:
        assert (view.rows("webhooks"), view.outbox("webhook:chat", 10)) == ({}, [])
    assert receiver.received == []
    with pytest.raises(NotFound):
        ops.delete_webhook(core, OWNER, name="chat")


# ---- running ---------------------------------------------------------------------------------


def test_a_slow_receiver_does_not_delay_others(tmp_path: Path, receiver: Receiver) -> None:
    store = open_store(tmp_path / "detent.db")
    core = Core(store, Engine(store), SETTINGS, {"dig": {}})
    ops.put_webhook(core, OWNER, name="a-dead", url="http://127.0.0.1:1/")
    put(core, receiver, name="b-live")
    dispatcher = Dispatcher(core, "here")
    dispatcher.start()
    for number in range(30):
        submit(core, f"t{number}")
    until(lambda: len(receiver.received) == 30)
    until(lambda: ops.list_webhooks(core, OWNER)["items"][1]["delivered"] == 30)
    dispatcher.stop()
    assert len(set(receiver.ids)) == 30
    with core.store.read() as view:
        assert view.rows("system_state").get("webhooks") is None
    store.close()


def test_on_postgresql_two_dispatchers_send_each_event_once(
    postgres_url: str, receiver: Receiver
) -> None:
    stores = [open_store(postgres_url), open_store(postgres_url)]
    cores = [Core(store, Engine(store), SETTINGS, {"dig": {}}) for store in stores]
    put(cores[0], receiver)
    dispatchers = [Dispatcher(core, f"process {n}") for n, core in enumerate(cores)]
    for dispatcher in dispatchers:
        dispatcher.start()
    for number in range(10):
        submit(cores[number % 2], f"t{number}")
    until(lambda: listed(cores[0])["delivered"] == 10)
    for dispatcher in dispatchers:
        dispatcher.stop()
    assert sorted(received_events(receiver)) == [f"task_created t{number}" for number in range(10)]
    for store in stores:
        store.close()
