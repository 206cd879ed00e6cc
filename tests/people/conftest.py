"""Fixtures of the tests of people: a gateway with a real provider, once a module."""

from collections.abc import Iterator

import pytest

from tests.people.provider import SECRET, People, people


@pytest.fixture(scope="module")
def signed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[People]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DETENT_TEST_OIDC_SECRET", SECRET)
        with people(tmp_path_factory.mktemp("people")) as running:
            yield running
