"""A process that is stopped (SIGSTOP) at random points of its writes blocks no other one."""

from verification import postgres_stops
from verification.postgres_server import Server

STOPS = 24


def test_a_process_that_is_stopped_at_any_point_freezes_no_other(versioned_server: Server) -> None:
    outcome = postgres_stops.run(versioned_server, STOPS)
    assert not outcome.problems
    assert outcome.stops == STOPS
