"""Overlapping commits on PostgreSQL: exactly once and in stream order for every reader."""

from verification import commit_order

#: `./dev faults --only commits` makes fifty times as many.
COMMITS = 2_000


def test_every_reader_sees_each_event_once_and_in_stream_order(postgres_url: str) -> None:
    outcome = commit_order.run(postgres_url, COMMITS)
    assert not outcome.problems
    assert outcome.commits >= COMMITS
    assert min(outcome.kills, outcome.stops, outcome.cuts, outcome.gaps) > 0, outcome.line()
