"""Which transitions the log tells of, and what is remembered for that."""

from detent.integrations.telemetry.state_changes import TransitionTracker
from tests.operations.operations_client import OperationsClient


def test_deleted_streams_are_removed_from_the_cache() -> None:
    client = OperationsClient()
    kept, gone = client.submit(), client.submit()
    for _ in range(2):
        client.complete()
    for each in (kept, gone):
        client.call("accept_task", task_id=each)
    tracker = TransitionTracker(client.core.store)
    with client.core.store.read() as view:
        transitions = list(tracker.transitions(view.events(0, 1_000)))
    last = {
        transition.subject: transition.target
        for transition in transitions
        if transition.target and transition.level == "task"
    }
    assert last == {kept: "completed", gone: "completed"}
    client.call("delete_task", task_id=gone)
    with client.core.store.read() as view:
        list(tracker.transitions(view.events(transitions[-1].logged.position, 1_000)))
    assert kept in tracker._streams
    assert gone not in tracker._streams


def test_the_cache_is_bounded() -> None:
    client = OperationsClient()
    for _ in range(3):
        client.submit()
    tracker = TransitionTracker(client.core.store, most=4)
    with client.core.store.read() as view:
        *_, transition = tracker.transitions(view.events(0, 1_000))
    assert len(tracker._streams) == 4
    assert transition.logged.stream in tracker._streams
