"""A claim ahead of the slots: only short runs, by rank, up to a time, and never under a limit."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from detent.engine import Engine
from detent.engine.claims import Ahead, ClaimRequest
from detent.kernel import commands as c
from detent.kernel.commands.limit_commands import EndPause, SetLimit, SetPause
from detent.store.memory import MemoryStore
from detent.testing.clock import VirtualClock

ACTOR = c.Actor("test")
COSTS = {"tiny": 0.001, "short": 0.004}
INTENTS = (*COSTS, "long")


class Queued(NamedTuple):
    intent: str
    priority: str = "P2"
    project: str = "open"
    key: str | None = None


def engine_with(jobs: list[Queued], limits: Mapping[str, dict[str, Any]]) -> Engine:
    engine = Engine(MemoryStore(VirtualClock(10**15)))
    for name, limit in limits.items():
        engine.do(SetLimit(name, **limit), ACTOR)
    for number, (intent, priority, project, key) in enumerate(jobs):
        job = c.SubmitJob(f"j{number:03}", project, intent, priority, concurrency_key=key)
        engine.do(job, ACTOR)
    return engine


def claimed(engine: Engine, limit: int, ahead: Ahead | None = None) -> list[str]:
    request = ClaimRequest("w", "n", limit, INTENTS, ahead=ahead)
    return [each.grant.job_id for each in engine.claim(request)]


WORK = st.lists(
    st.builds(
        Queued,
        st.sampled_from(INTENTS),
        st.sampled_from(["P0", "P2"]),
        st.sampled_from(["open", "limited"]),
        st.sampled_from([None, None, "key"]),
    ),
    max_size=40,
)
LIMITS = st.sampled_from(
    [
        {},
        {"project:limited": {"running": 100}},
        {"intent:tiny": {"running": 3}},
        {"intent:short": {"rate": 5, "per_s": 60}},
    ]
)


def concerned(job: Queued, limits: Mapping[str, object]) -> bool:
    names = {f"intent:{job.intent}", f"project:{job.project}"}
    return job.key is not None or not names.isdisjoint(limits)


@settings(max_examples=150, deadline=None)
@given(WORK, LIMITS, st.integers(0, 6), st.integers(1, 30), st.integers(1, 3))
def test_what_is_claimed_ahead(
    jobs: list[Queued], limits: dict[str, dict[str, Any]], slots: int, most: int, workers: int
) -> None:
    plain = claimed(engine_with(jobs, limits), slots) if slots else []
    ahead = Ahead(COSTS, 0.02, most, workers)
    both = claimed(engine_with(jobs, limits), slots, ahead)
    # The slots get what they get without it.
    assert both[: len(plain)] == plain
    further = [jobs[int(each[1:])] for each in both[len(plain) :]]
    assert len(further) <= most
    assert all(each.intent in COSTS and not concerned(each, limits) for each in further)
    assert sum(COSTS[each.intent] for each in further) <= 0.02 + 1e-9
    if len(plain) < slots or (plain and {jobs[int(each[1:])].intent for each in plain} == {"long"}):
        assert further == []
    for project in ("open", "limited"):
        own = [(jobs[int(name[1:])], name) for name in both[len(plain) :]]
        ranks = [(each.priority, name) for each, name in own if each.project == project]
        assert ranks == sorted(ranks)


def test_short_runs_are_claimed_up_to_the_time() -> None:
    engine = engine_with([Queued("tiny")] * 30, {})
    assert len(claimed(engine, 2, Ahead(COSTS, 0.0105, 100))) == 12


def test_only_short_intents_take_one_read() -> None:
    engine = engine_with([Queued("tiny")] * 30, {})
    ask = ClaimRequest("w", "n", 2, ["tiny"], ahead=Ahead(COSTS, 0.0105, 10))
    assert [each.grant.job_id for each in engine.claim(ask)] == [f"j{n:03}" for n in range(12)]


def test_the_last_jobs_of_a_queue_are_shared() -> None:
    engine = engine_with([Queued("tiny")] * 20, {})
    ahead = Ahead(COSTS, 1.0, 100, workers=3)
    assert len(claimed(engine, 2, ahead)) == 2 + 6
    assert len(claimed(engine, 2, ahead)) == 2 + 4
    assert len(claimed(engine, 2, ahead)) == 2 + 2


def test_long_runs_in_all_slots_leave_nothing_for_short_ones() -> None:
    engine = engine_with([Queued("long", "P0")] * 2 + [Queued("tiny")] * 5, {})
    assert claimed(engine, 2, Ahead(COSTS, 1.0, 100)) == ["j000", "j001"]
    assert len(claimed(engine, 0, Ahead(COSTS, 1.0, 100))) == 5


def test_a_pause_holds_for_claims_ahead() -> None:
    engine = engine_with([Queued("tiny")] * 5, {})
    engine.do(SetPause("intent:tiny"), ACTOR)
    assert claimed(engine, 0, Ahead(COSTS, 1.0, 100)) == []
    engine.do(EndPause("intent:tiny"), ACTOR)
    assert len(claimed(engine, 0, Ahead(COSTS, 1.0, 100))) == 5


def test_jobs_that_are_not_read_first_are_claimed_in_parts() -> None:
    """For the slots, then for short runs: bounded by the longest of them, and by the share."""

    def parts(limit: int, intents: tuple[str, ...] | None, workers: int = 1) -> list[Any]:
        ahead = Ahead(COSTS, 0.04, 30, workers)
        request = ClaimRequest("w", "n", limit, intents, ahead=ahead)
        return [(part.limit, part.intents) for part in request.parts()]

    assert parts(8, ("tiny", "short")) == [(18, ("tiny", "short"))]
    assert parts(8, INTENTS) == [(8, INTENTS), (10, ["tiny", "short"])]
    assert parts(0, INTENTS) == [(10, ["tiny", "short"])]
    assert parts(8, None, workers=3) == [(8, None), (3, ["tiny", "short"])]
    assert parts(8, INTENTS, workers=20) == [(8, INTENTS)]
    plain = ClaimRequest("w", "n", 8, INTENTS)
    assert list(plain.parts()) == [plain]
