"""Fixtures of the operations' tests: an installation for each module, and its owner's client."""

from collections.abc import Iterator

import httpx2
import pytest

from tests.gateway.installation import Installation, installed


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    directory = tmp_path_factory.mktemp("gateway")
    with installed(directory, run_subtask_depth=2, run_subtasks=3) as installation:
        yield installation


@pytest.fixture(scope="module")
def owner(gateway: Installation) -> httpx2.Client:
    return gateway.client()
