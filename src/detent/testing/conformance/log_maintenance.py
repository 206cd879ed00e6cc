"""Checks of log maintenance: ordered chain blocks, rows rebuilt from the log, a trimmed log."""

from contextlib import suppress
from functools import partial

from detent.engine import CommandRequest
from detent.integrity import hash_chain
from detent.integrity.rebuild import rebuild
from detent.integrity.verify import verify
from detent.kernel import commands as c
from detent.store.table_names import LISTED
from detent.store.types import ChainBlock
from detent.testing.audit import picture
from detent.testing.conformance.case import Case, check
from detent.testing.conformance.reads import busy
from detent.testing.conformance.work_actions import (
    PERSON,
    claim_one,
    code,
    complete,
    do,
    refusal,
    submit_job,
    submit_task,
    together,
)
from detent.testing.conformance.writes import Stop


def finished(case: Case) -> str:
    job = submit_job(case.engine)
    complete(case.engine, claim_one(case.engine))
    return job


def put(case: Case, block: ChainBlock) -> None:
    with case.store.write() as tx:
        tx.put_chain_block(block)


@check
def chain_blocks_are_returned_in_the_order_of_the_log(case: Case) -> None:
    made = [ChainBlock(1, 4, 4, b"\0" * 32, 1), ChainBlock(6, 9, 3, bytes(range(32)), 2)]
    with case.store.read() as view:
        assert view.last_chain_block() is None
    for block in made:
        put(case, block)
    with case.store.read() as view:
        assert view.last_chain_block() == made[1]
        assert list(view.chain_blocks(0, 10)) == made
        assert list(view.chain_blocks(0, 1)) == made[:1]
        assert list(view.chain_blocks(4, 10)) == made[1:]
        assert list(view.chain_blocks(9, 10)) == []


@check
def a_range_gets_one_chain_block(case: Case) -> None:
    put(case, ChainBlock(1, 4, 4, b"\0" * 32, 1))
    for first, last in ((1, 4), (4, 8), (2, 3)):
        refused = code(partial(put, case, ChainBlock(first, last, 1, b"\1" * 32, 2)))
        assert refused == "version_conflict"
    with case.store.read() as view:
        assert len(view.chain_blocks(0, 10)) == 1


@check
def several_processes_extend_one_chain(case: Case) -> None:
    for _ in range(3):
        finished(case)
    stores = [case.store, *(engine.store for engine in case.others(3))]
    together(*(partial(hash_chain.extend_chain, store) for store in stores))
    with case.store.read() as view:
        chain = hash_chain.check(view)
        assert (chain.position, chain.breaks) == (view.head(), [])


@check
def rows_are_rebuilt_from_the_log(case: Case) -> None:
    busy(case)
    before = picture(case.store)
    with case.store.write() as tx:
        tx.clear_rows()
    emptied = picture(case.store)
    assert [table for table in LISTED if emptied[table]] == []
    assert emptied["log"] == before["log"]
    rebuild(case.store, case.engine.lifetimes.lease_us)
    assert picture(case.store) == before


@check
def a_trim_takes_the_beginning_of_the_log(case: Case) -> None:
    do(case.engine, c.DeleteJob(finished(case)))
    hash_chain.extend_chain(case.store)
    kept = finished(case)
    before = picture(case.store)["log"]
    gone = hash_chain.trim(case.store)
    after = picture(case.store)["log"]
    assert after == before[gone:]
    assert {event.stream for event in after} == {kept}
    finished(case)
    assert verify(case.store).differences == []
    with case.store.read() as view:
        assert view.head() > after[-1].position


@check
def a_trim_divides_no_commit(case: Case) -> None:
    """Where a chain block could end inside a commit, the chain still matches after a trim."""
    names = [f"job-{number}" for number in range(6)]
    for kind in (lambda name: c.SubmitJob(name, "p", "dig"), c.CancelJob, c.DeleteJob):
        asks = [CommandRequest(kind(name), PERSON) for name in names]
        case.engine.execute(asks, bulk=True)
    kept = finished(case)
    with case.store.read() as view:
        before = list(view.events(0, 1_000))
    for size in (4, 5, 6):
        with case.store.write() as tx:
            block = hash_chain.next_chain_block(tx, size)
            assert block is not None
            hash_chain.put(tx, block)
        gone = hash_chain.trim(case.store)
        with case.store.read() as view:
            assert list(view.events(0, 1_000)) == before[gone:]
            assert hash_chain.check(view).breaks == []
        before = before[gone:]
    hash_chain.extend_chain(case.store)
    hash_chain.trim(case.store)
    assert verify(case.store).differences == []
    with case.store.read() as view:
        assert {event.stream for event in view.events(0, 1_000)} >= {kept}


@check
def an_id_is_not_given_again_after_a_trim_of_some_of_its_events(case: Case) -> None:
    """The first events of deleted work are trimmed. There are more than its row has commits of."""
    task = submit_task(case.engine, task_id="long")
    for number in range(20):
        do(case.engine, c.EditTask(task, {"title": f"Title {number}"}))
    hash_chain.extend_chain(case.store)
    do(case.engine, c.CancelTask(task))
    do(case.engine, c.DeleteTask(task))
    submit_job(case.engine)
    hash_chain.extend_chain(case.store)
    assert hash_chain.trim(case.store) > 20
    with case.store.read() as view:
        assert task in {event.stream for event in view.events(0, 1_000)}
    assert refusal(case.engine, c.SubmitTask(task, "p", "board", "dig", "cli")) == "task_exists"


@check
def the_last_commit_is_not_trimmed(case: Case) -> None:
    """The transaction is rolled back, because the rows of the work remain."""
    finished(case)
    with suppress(Stop), case.store.write() as tx:
        head, last = tx.head(), tx.events(0, 1_000)[-1]
        assert 0 < tx.trim(head) < head
        assert tx.head() == head
        assert tx.events(0, 1_000)[-1] == last
        assert tx.trim(head) == 0
        raise Stop


@check
def what_others_leave_is_there_until_it_is_ended(case: Case) -> None:
    with case.store.write() as tx:
        for number in range(3):
            tx.put_intake("submit_task", f'{{"n": {number}}}', f"key-{number}")
    with case.store.write() as tx:
        first, second, third = tx.intake(10)
        assert [first.body, third.idempotency_key] == ['{"n": 0}', "key-2"]
        tx.end_intake([first.id], {second.id: "no such intent"})
    with case.store.read() as view:
        assert list(view.intake(10)) == [third]
        (refused,) = view.refused_intake(10)
        assert (refused.id, refused.body, refused.idempotency_key, refused.error) == (
            second.id,
            '{"n": 1}',
            "key-1",
            "no such intent",
        )
        assert 0 < refused.at <= view.now()
    with case.store.write() as tx:
        tx.end_intake([second.id], {})
    with case.store.read() as view:
        assert list(view.refused_intake(10)) == []
        assert list(view.intake(10)) == [third]
