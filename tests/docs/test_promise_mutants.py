"""Each deliberately broken variant of a guarantee is noticed by its check, or by a test."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest
from _pytest.outcomes import Failed

from detent.errors import Broken, NotFound
from detent.kernel import commands as c
from detent.settings import Settings
from detent.store.memory import MemoryStore
from tests.faults import test_fuzz
from tests.kernel.stories import test_comments
from tests.store import test_bucket, test_conformance, test_golden
from tests.worker import test_retries, test_stopping
from tests.worker.waiting import installation
from tools.golden import GOLDEN
from verification.mutant import applied
from verification.promise_mutants import MUTANTS


def an_earlier_diff_is_refused(_: pytest.FixtureRequest) -> None:
    test_comments.test_a_verdict_on_a_diff_that_may_have_changed_is_refused(
        lambda seen: c.AcceptTask("T", diff=seen)
    )


def handing_back_is_no_penalty(request: pytest.FixtureRequest) -> None:
    directory: Path = request.getfixturevalue("tmp_path")
    with installation(directory, worker_grace_ms=300) as core:
        test_stopping.test_what_cannot_finish_is_handed_back_immediately_without_penalty(core)


def the_oldest_database_is_read(request: pytest.FixtureRequest) -> None:
    directory: Path = request.getfixturevalue("tmp_path")
    test_golden.test_an_old_database_is_what_it_was(GOLDEN / "0.1.0.db.gz", directory)


def a_due_job_is_found_without_notifications(_: pytest.FixtureRequest) -> None:
    check = "a_retry_is_claimed_as_soon_as_it_is_due"
    test_conformance.test_store(MemoryStore, check, notifier=False)


def a_blob_that_is_stored_again_stays(request: pytest.FixtureRequest) -> None:
    settings: Settings = request.getfixturevalue("bucket_settings")
    with pytest.MonkeyPatch.context() as patch:
        test_bucket.test_a_blob_that_is_removed_while_it_is_stored_again_stays(settings, patch)


def kept_bodies_are_read_or_refused(_: pytest.FixtureRequest) -> None:
    test_fuzz.test_a_parser_reads_or_refuses_what_was_kept("body")


def an_odd_text_is_a_failure(_: pytest.FixtureRequest) -> None:
    test_retries.test_a_failure_whose_text_no_store_can_hold_is_reported("a\udc80b")


class Catcher(NamedTuple):
    """A test that must fail under a mutant, and how it fails."""

    test: Callable[[pytest.FixtureRequest], None]
    error: type[BaseException] = AssertionError


#: By mutant without a check of its own.
CATCHERS: Mapping[str, Catcher] = {
    "verdict-ignores-the-diff": Catcher(an_earlier_diff_is_refused, Failed),
    "handed-back-work-is-a-new-attempt": Catcher(handing_back_is_no_penalty),
    "later-fields-are-required": Catcher(the_oldest_database_is_read, Broken),
    "claims-need-a-notification": Catcher(a_due_job_is_found_without_notifications, ValueError),
    "blob-has-one-key": Catcher(a_blob_that_is_stored_again_stays, NotFound),
    "errors-of-the-decoder-pass-through": Catcher(kept_bodies_are_read_or_refused, ValueError),
    "failure-text-is-not-made-storable": Catcher(an_odd_text_is_a_failure),
}


@pytest.mark.parametrize("name", sorted(MUTANTS.keys() - CATCHERS.keys()))
def test_a_mutant_is_noticed(name: str) -> None:
    check = MUTANTS[name].check
    assert check is not None
    check()
    with applied(MUTANTS[name].patches), pytest.raises(AssertionError):
        check()


@pytest.mark.parametrize("name", CATCHERS)
def test_a_mutant_is_noticed_by_a_test(name: str, request: pytest.FixtureRequest) -> None:
    """Without the mutant the test passes, which it shows in its own place."""
    test, error = CATCHERS[name]
    with applied(MUTANTS[name].patches), pytest.raises(error):
        test(request)
