"""Each deliberately broken variant of a guarantee is noticed."""

import pytest
from _pytest.outcomes import Failed

from detent.kernel import commands as c
from tests.kernel.stories import test_comments
from verification.mutant import applied
from verification.promise_mutants import MUTANTS


def an_earlier_diff_is_refused() -> None:
    test_comments.test_a_verdict_on_a_diff_that_may_have_changed_is_refused(
        lambda seen: c.AcceptTask("T", diff=seen)
    )


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_noticed(name: str) -> None:
    mutant = MUTANTS[name]
    check = mutant.check or an_earlier_diff_is_refused
    check()
    with applied(mutant.patches), pytest.raises((AssertionError, Failed)):
        check()
