"""Checks of the commits that a process keeps: it reads the log as a new process does."""

import random

from detent import feed
from detent.engine import CommandRequest, Engine
from detent.integrity import hash_chain
from detent.integrity.audit import FAR
from detent.kernel import commands as c
from detent.store.codec import data_digest
from detent.store.port import Store
from detent.store.types import LoggedEvent
from detent.testing.conformance.case import Case, check
from detent.testing.conformance.work_actions import PERSON, claim, completion

SEEDS = 3
ROUNDS = 12
MAX_JOBS = 12


class RandomWork:
    """Random commits of several processes: new jobs, ended ones, deleted ones, and trims."""

    def __init__(self, engines: list[Engine], seed: int) -> None:
        self._engines = engines
        self._random = random.Random(seed)
        self._seed = seed
        self._count = 0
        self._ended: list[str] = []

    def act(self) -> None:
        engine = self._random.choice(self._engines)
        actions = (self._submit, self._submit, self._complete, self._complete, self._delete)
        self._random.choice((*actions, self._trim))(engine)

    def _submit(self, engine: Engine) -> None:
        jobs = []
        for _ in range(self._random.randint(1, MAX_JOBS)):
            self._count += 1
            payload = self._random.choice((None, {"n": self._count}, "Grüße %s \\ \ue000v"))
            jobs.append(c.SubmitJob(f"s{self._seed}-{self._count}", "p", "dig", payload=payload))
        engine.execute([CommandRequest(each, PERSON) for each in jobs], bulk=True)

    def _complete(self, engine: Engine) -> None:
        claimed = claim(engine, self._random.randint(1, MAX_JOBS))
        reports = [completion(each, self._random.choice((None, {"a": "%"}))) for each in claimed]
        engine.execute([CommandRequest(each, PERSON) for each in reports], bulk=True)
        self._ended += [each.job.id for each in claimed]

    def _delete(self, engine: Engine) -> None:
        some = self._random.sample(self._ended, min(len(self._ended), 3))
        self._ended = [each for each in self._ended if each not in some]
        engine.execute([CommandRequest(c.DeleteJob(each), PERSON) for each in some])

    def _trim(self, engine: Engine) -> None:
        while self._ended and self._random.random() < 0.5:
            self._delete(engine)
        hash_chain.extend_chain(engine.store)
        hash_chain.trim(engine.store)


def read_on(store: Store, seen: list[LoggedEvent], limit: int) -> None:
    """What a reader with a cursor gets next."""
    while batch := feed.read(store, seen[-1].position if seen else 0, limit):
        seen += batch


@check
def a_process_reads_the_log_as_a_new_one_does(case: Case) -> None:
    """From every cursor and in commits, after deletions and trims by it and by others.

    Its reader with a cursor sees each event once, with the data that it had.
    """
    number = 1
    for seed in range(SEEDS):
        work = RandomWork([case.engine, case.another()], seed)
        chosen = random.Random(seed)
        seen: list[LoggedEvent] = []
        read_on(case.store, seen, 100)
        for _ in range(ROUNDS):
            work.act()
            read_on(case.store, seen, chosen.randint(1, 60))
        number += 1
        compare(case.store, case.others(number)[-1].store, seen, chosen)


def compare(known: Store, fresh: Store, seen: list[LoggedEvent], chosen: random.Random) -> None:
    with known.read() as view, fresh.read() as plain:
        log = plain.events(0, FAR)
        assert view.events(0, FAR) == log
        for _ in range(10):
            after, limit = chosen.randint(0, plain.head()), chosen.randint(1, 50)
            assert view.events(after, limit) == plain.events(after, limit)
        digests = [each for commit in view.commits(0, FAR) for each in commit.digests()]
    assert digests == [data_digest(event) for event in log]
    assert [each.position for each in seen] == sorted({each.position for each in seen})
    left = {event.position: data_digest(event) for event in log}
    read = {event.position: data_digest(event) for event in seen if event.position in left}
    assert read == left, "an event was missed, or its digest has changed"
