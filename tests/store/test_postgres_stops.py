"""A process that is really stopped (SIGSTOP) at random points of its writes freezes nobody."""

from verification import postgres_stops
from verification.postgres_server import Server

STOPS = 24


def test_a_process_that_is_stopped_at_any_point_freezes_nobody(versioned_server: Server) -> None:
    outcome = postgres_stops.run(versioned_server, STOPS)
    assert not outcome.problems
    assert outcome.stops == STOPS
