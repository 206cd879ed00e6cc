"""Shares of projects: claims follow the weights, no project starves, no slot stays empty."""

from collections import Counter
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from detent.kernel.fair_shares import UNIT, Shares


class Job(NamedTuple):
    project: str
    rank: int


PROJECTS = ("a", "b", "c", "d")
WEIGHTS = st.dictionaries(st.sampled_from(PROJECTS), st.integers(1, 20), min_size=2)
SIZES = st.lists(st.integers(1, 30), min_size=1, max_size=40)


def queue(counts: dict[str, int]) -> list[Job]:
    jobs = [Job(name, rank) for name, count in counts.items() for rank in range(count)]
    return sorted(jobs, key=lambda job: (job.rank, job.project))


@given(weights=WEIGHTS, sizes=SIZES)
def test_claims_follow_the_weights(weights: dict[str, int], sizes: list[int]) -> None:
    """At every moment each project has its share, within one job of it and one of the heaviest."""
    shares, taken = Shares(weights=weights), Counter[str]()
    for size in sizes:
        jobs = queue(dict.fromkeys(weights, size))
        claimed = [job.project for job in shares.first(jobs, size)]
        assert len(claimed) == size
        taken.update(claimed)
        shares = shares.after(claimed)
        served = {name: taken[name] / weight for name, weight in weights.items()}
        slack = 2 * max(1 / weight for weight in weights.values()) + len(sizes) * 1e-3
        assert max(served.values()) - min(served.values()) <= slack


@given(
    counts=st.dictionaries(st.sampled_from(PROJECTS), st.integers(0, 12), min_size=1),
    weights=WEIGHTS,
    limit=st.integers(1, 30),
    behind=st.dictionaries(st.sampled_from(PROJECTS), st.integers(1, 5).map(UNIT.__mul__)),
)
def test_no_slot_stays_empty_and_projects_are_divided_as_jobs_are(
    counts: dict[str, int], weights: dict[str, int], limit: int, behind: dict[str, int]
) -> None:
    shares, jobs = Shares(0, behind, weights), queue(counts)
    first = shares.first(jobs, limit)
    assert len(first) == min(limit, len(jobs))
    for name in counts:
        own = [job.rank for job in first if job.project == name]
        assert own == sorted(own)
    projects = sorted(name for name, count in counts.items() if count)
    assert shares.divided(projects, limit, counts) == Counter(job.project for job in first)


@given(weights=WEIGHTS, idle=st.integers(1, 200))
def test_a_project_that_comes_back_waits_for_one_job_of_each_other(
    weights: dict[str, int], idle: int
) -> None:
    late, *others = weights
    shares = Shares(weights=weights)
    for _ in range(idle):
        (job,) = shares.first(queue(dict.fromkeys(others, 1)), 1)
        shares = shares.after([job.project])
    claimed = []
    for _ in range(len(weights)):
        (job,) = shares.first(queue(dict.fromkeys(weights, 1)), 1)
        shares = shares.after([job.project])
        claimed.append(job.project)
    assert late in claimed
