"""Results of jobs that a harness executes."""

import pytest

from detent.app.app import App
from detent.testing.harness import Harness


def test_a_result_in_a_harness_needs_a_drain() -> None:
    """Nothing executes the job while the test waits, so waiting would never end."""
    app = App()

    @app.intent("greet")
    def greet() -> str:
        return "hello"

    harness = Harness(app)
    handle = harness.submit("greet")
    with pytest.raises(AssertionError, match=r"Call `harness\.drain\(\)` first"):
        handle.result()
    harness.drain()
    assert handle.result() == "hello"
