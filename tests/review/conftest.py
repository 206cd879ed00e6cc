"""A repository that the tests of a module share."""

from collections.abc import Iterator

import pytest

from tests.review.tree_repository import TreeRepository, tree_repository


@pytest.fixture(scope="module")
def repository() -> Iterator[TreeRepository]:
    with tree_repository() as made:
        yield made
