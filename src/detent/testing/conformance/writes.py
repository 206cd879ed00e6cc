"""Checks of write transactions: atomicity, refusals, batches, values, time."""

from typing import Any

from detent.engine import CommandRequest, CommandResult, batch
from detent.engine.changeset import ChangeSet
from detent.engine.loader import LoadRequest, load
from detent.errors import DetentError, Invalid
from detent.kernel import commands as c
from detent.kernel.decide import decide
from detent.store.port import Store
from detent.store.types import Changes
from detent.testing.audit import picture
from detent.testing.conformance.case import Case, check
from detent.testing.conformance.work_actions import (
    PERSON,
    claim,
    claim_one,
    code,
    complete,
    completion,
    do,
    job_of,
    names,
    refusal,
    run_of,
    submit_job,
    submit_task,
)

VALUES: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    -1,
    2**53 + 1,
    2**63 - 1,
    -(2**63),
    2**80,
    0.1,
    -0.0,
    1e300,
    5e-324,
    "",
    "Zoë 你好 🙂 \u0000 \u2028 \"quoted\" \\ 'single' --",
    "x" * 100_000,
    [],
    {},
    {"": ""},
    {"ключ": [1, [2, [3, {"deep": [None]}]]]},
    [[], {}, [[]], {"a": {}}],
)


class Stop(Exception):
    """Raised in the middle of a transaction."""


@check
def a_write_that_fails_leaves_nothing(case: Case) -> None:
    submit_job(case.engine)
    before = picture(case.store)
    try:
        with case.store.write() as tx:
            asks = [
                CommandRequest(c.SubmitTask("t", "p", "board", "dig", "cli", queue=True), PERSON)
            ]
            assert isinstance(batch.run(tx, asks, case.engine.lifetimes)[0], CommandResult)
            tx.put_rows("limits", {"all": {"paused": True}})
            raise Stop
    except Stop:
        pass
    assert picture(case.store) == before
    assert submit_task(case.engine, task_id="t") == "t"


def decided(case: Case, command: c.Command) -> Changes:
    """What a command would write, decided from what a reader sees now."""
    with case.store.read() as view:
        change_set = ChangeSet(
            load(view, LoadRequest([command])), case.engine.lifetimes.lease_us, view.now()
        )
    change_set.add(decide(change_set.world, command, change_set.now, PERSON))
    return change_set.rows()


def save(store: Store, changes: Changes) -> None:
    with store.write() as tx:
        tx.save(changes)


@check
def a_lost_version_race_is_refused(case: Case) -> None:
    """Two decide on the same version: the first lands, the second changes nothing at all."""
    submit_job(case.engine)
    claimed = claim_one(case.engine)
    first = decided(case, c.ReportProgress(claimed.grant, run_of(claimed), 0.5))
    second = decided(case, completion(claimed))
    save(case.store, first)
    before = picture(case.store)
    assert code(lambda: save(case.store, second)) == "version_conflict"
    assert picture(case.store) == before


@check
def a_refused_command_refuses_alone(case: Case) -> None:
    submit_job(case.engine, job_id="known")
    commands = [
        c.SubmitJob("one", "p", "dig"),
        c.SubmitJob("known", "p", "dig"),
        c.CancelJob("missing"),
        c.CancelJob("one"),
        c.SubmitJob("two", "p", "dig"),
    ]
    results = case.engine.execute([CommandRequest(command, PERSON) for command in commands])
    codes = [each.code if isinstance(each, DetentError) else each.value for each in results]
    assert codes == ["one", "job_exists", "unknown_job", "cancelled", "two"]
    assert job_of(case.store, "one").state == "cancelled"


@check
def what_the_store_refuses_refuses_alone(case: Case) -> None:
    """Ids declared as fresh are not looked up; if one exists already, its command fails alone."""
    submit_job(case.engine, job_id="a-job")
    submit_task(case.engine, task_id="a-task")
    commands = [
        c.SubmitJob("new-job", "p", "dig"),
        c.SubmitJob("a-job", "p", "dig"),
        c.SubmitTask("a-task", "p", "board", "dig", "cli"),
        c.SubmitTask("new-task", "p", "board", "dig", "cli"),
    ]
    results = case.engine.execute(
        [CommandRequest(command, PERSON, fresh=True) for command in commands]
    )
    codes = [each.code if isinstance(each, DetentError) else each.value for each in results]
    assert codes == ["new-job", "job_exists", "task_exists", "new-task"]


@check
def a_batch_of_a_thousand(case: Case) -> None:
    ids = [f"job-{number:04}" for number in range(1_000)]
    asks = [
        CommandRequest(c.SubmitJob(job_id, "p", "dig", payload=job_id), PERSON) for job_id in ids
    ]
    assert [result.value for result in _answers(case, asks)] == ids
    claimed = claim(case.engine, 1_000)
    assert sorted(each.payload for each in claimed) == ids
    reports = [CommandRequest(completion(each, each.payload), PERSON) for each in claimed]
    assert {result.value for result in _answers(case, reports)} == {"completed"}
    with case.store.read() as view:
        assert {job.result for job, _ in view.jobs(ids)} == set(ids)
        assert len(names(view, ids[-1])) == 6
    assert claim(case.engine) == []


def _answers(case: Case, asks: list[CommandRequest]) -> list[CommandResult]:
    results = case.engine.execute(asks, bulk=True)
    return [result for result in results if isinstance(result, CommandResult)]


@check
def values_come_back_as_they_went_in(case: Case) -> None:
    """Payloads, results, checkpoints and signals: every kind of JSON value, with its type."""
    for number, value in enumerate(VALUES):
        task = submit_task(case.engine, payload=value)
        claimed = claim_one(case.engine)
        assert _same(claimed.payload, value)
        do(case.engine, c.RecordCheckpoint(claimed.grant, f"c{number}", value))
        do(case.engine, c.SendSignal(claimed.job.id, f"s{number}", value))
        with case.store.read() as view:
            (checkpoint,) = view.job_checkpoints(claimed.job.id)
            (signal,) = view.signals([claimed.job.id])
            (event,) = view.events(0, 1, stream=task)
        assert _same(checkpoint.value, value)
        assert _same(signal.value, value)
        assert isinstance(event.data, str)
        complete(case.engine, claimed, value)
        assert _same(job_of(case.store, claimed.job.id).result, value)


def _same(found: Any, value: Any) -> bool:
    """Equal and alike: 1, 1.0 and true are three different values."""
    return repr(found) == repr(value)


@check
def what_is_not_json_is_refused(case: Case) -> None:
    before = picture(case.store)
    for value in (object(), [object()], "\ud800", {"key \udfff": 1}):
        code = refusal(case.engine, c.SubmitJob("odd", "p", "dig", payload=value))
        assert code == Invalid.default_code
        assert picture(case.store) == before


@check
def a_view_does_not_change_while_others_write(case: Case) -> None:
    submit_job(case.engine, job_id="before")
    with case.store.read() as view:
        head = view.head()
        submit_job(case.another(), job_id="after")
        claim(case.engine)
        assert view.head() == head
        assert [event.stream for event in view.events(0, 100)] == ["before"]
        assert [job.state for job, _ in view.jobs(["before", "after"])] == ["queued"]
    with case.store.read() as view:
        assert view.head() > head
        assert len(list(view.jobs(["before", "after"]))) == 2


@check
def time_is_constant_in_a_transaction_and_never_goes_back(case: Case) -> None:
    def look() -> int:
        with case.store.write() as tx:
            now = tx.now()
            case.clock.advance(us=7)
            assert tx.now() == now
        return now

    submit_job(case.engine)
    times = [look(), look()]
    submit_job(case.engine)
    written = job_of(case.store, submit_job(case.engine)).created_at
    case.clock.advance(seconds=-3_600)
    submit_job(case.engine)
    times += [written, look()]
    assert times == sorted(times)
    other = case.another()
    with other.store.read() as view:
        assert view.now() >= written
        moments = [event.at for event in view.events(0, 100)]
    assert moments == sorted(moments)
