"""Each deliberately broken variant of the forges is noticed by its check."""

import pytest

from verification.forge_mutants import MUTANTS
from verification.mutant import applied


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_noticed(name: str) -> None:
    patches, check = MUTANTS[name]
    assert check is not None
    check()
    with applied(patches), pytest.raises(AssertionError):
        check()
