"""An equal lifecycle is searched once in a session: the search takes seconds and has no state."""

from collections.abc import Iterator

import pytest

from detent.kernel.task_lifecycle import TaskLifecycle
from detent.lifecycle_search import SearchResult, search
from detent.operations import lifecycles


@pytest.fixture(scope="session", autouse=True)
def _searched_once() -> Iterator[None]:
    """For the operation that installs one. Tests of the search call it themselves."""
    found: dict[str, SearchResult] = {}

    def searched(lifecycle: TaskLifecycle) -> SearchResult:
        text = repr(lifecycle)
        if text not in found:
            found[text] = search(lifecycle)
        return found[text]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lifecycles, "search", searched)
        yield
