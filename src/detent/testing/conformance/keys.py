"""Checks of idempotency keys: the first request with a key counts until the key expires."""

from functools import partial

from detent.engine import CommandRequest, CommandResult, Idempotency
from detent.errors import DetentError
from detent.ids import new_id
from detent.kernel import commands as c
from detent.testing.audit import picture
from detent.testing.conformance.case import Case, check
from detent.testing.conformance.work_actions import PERSON, refusal, together


def keyed(key: str = "k", digest: str = "body", project: str = "p") -> CommandRequest:
    """A submission with an id of its own under a key."""
    command = c.SubmitJob(new_id(), project, "dig")
    return CommandRequest(command, PERSON, Idempotency(project, key, digest), fresh=True)


def ask(case: Case, *asks: CommandRequest) -> list[CommandResult]:
    results = case.engine.execute(asks)
    assert not [each for each in results if isinstance(each, DetentError)]
    return [each for each in results if isinstance(each, CommandResult)]


@check
def the_same_key_gets_the_first_answer(case: Case) -> None:
    (first,) = ask(case, keyed())
    before = picture(case.store)
    (second,) = ask(case, keyed())
    assert (first.repeated, second.repeated) == (False, True)
    assert first.value == second.value
    assert picture(case.store) == before


@check
def the_same_key_twice_in_one_batch(case: Case) -> None:
    first, second = ask(case, keyed(), keyed())
    assert first.value == second.value
    assert second.repeated


@check
def another_body_is_refused(case: Case) -> None:
    (first,) = ask(case, keyed())
    before = picture(case.store)
    other = keyed(digest="another body")
    assert refusal(case.engine, other.command, key=other.key) == "idempotency_conflict"
    assert picture(case.store) == before
    (again,) = ask(case, keyed())
    assert again.value == first.value


@check
def keys_belong_to_a_project(case: Case) -> None:
    (one,) = ask(case, keyed(project="p"))
    (two,) = ask(case, keyed(project="q"))
    assert one.value != two.value
    assert not two.repeated


@check
def a_refused_command_does_not_use_its_key_up(case: Case) -> None:
    key = Idempotency("p", "k", "body")
    assert refusal(case.engine, c.CancelJob("later"), key=key) == "unknown_job"
    ask(case, CommandRequest(c.SubmitJob("later", "p", "dig"), PERSON))
    (answer,) = ask(case, CommandRequest(c.CancelJob("later"), PERSON, key))
    assert answer == CommandResult("cancelled")


@check
def the_first_key_wins_among_concurrent_submissions(case: Case) -> None:
    engines = case.others(8)
    for number in range(5):
        key = f"k{number}"
        results = together(*[partial(engine.execute, [keyed(key)]) for engine in engines])
        answers = [each for result in results for each in result if isinstance(each, CommandResult)]
        assert len(answers) == len(engines), results
        assert len({each.value for each in answers}) == 1
        assert [each.repeated for each in answers].count(False) == 1
    with case.store.read() as view:
        assert view.head() == 5


@check
def a_key_lives_as_long_as_it_says(case: Case) -> None:
    (first,) = ask(case, keyed())
    case.clock.advance(us=case.engine.lifetimes.key_lifetime_us - 1)
    (still,) = ask(case, keyed())
    assert still == CommandResult(first.value, repeated=True)
    case.clock.advance(us=1)
    (new,) = ask(case, keyed(digest="another body"))
    assert not new.repeated
    assert new.value != first.value
    (again,) = ask(case, keyed(digest="another body"))
    assert again == CommandResult(new.value, repeated=True)


@check
def expired_keys_are_forgotten_some_at_a_time(case: Case) -> None:
    ask(case, *(keyed(f"old-{number}") for number in range(5)))
    case.clock.advance(us=case.engine.lifetimes.key_lifetime_us + 1)
    ask(case, keyed("new"))
    gone = [
        case.engine.transaction(lambda tx: tx.delete_expired_keys(tx.now(), 2)) for _ in range(4)
    ]
    assert gone == [2, 2, 1, 0]
    with case.store.read() as view:
        assert [key.key for key in view.keys([("p", "old-1"), ("p", "new")], 0)] == ["new"]
