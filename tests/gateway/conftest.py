"""Fixtures of the gateway's tests: one installation for each module, a client as its owner."""

from collections.abc import Iterator

import httpx2
import pytest

from tests.gateway.installation import Installation, installed


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    with installed(tmp_path_factory.mktemp("gateway")) as installation:
        yield installation


@pytest.fixture(scope="module")
def owner(gateway: Installation) -> httpx2.Client:
    return gateway.client()
