"""The error classes: every class has a code of the table, every code has its explanation."""

import traceback

import pytest

from detent import errors
from detent.error_codes import CODES
from detent.errors import (
    DetentError,
    Invalid,
    Misconfigured,
    NotFound,
    Refused,
    TooLarge,
    TooMany,
    Unavailable,
)

MADE = [
    (Refused("no", legal=["go"]), "refused", 409, 1, {"legal": ["go"]}),
    (
        Invalid("bad", field="size", given=3, allowed=["1", "2"]),
        "invalid",
        422,
        2,
        {"field": "size", "given": 3, "allowed": ["1", "2"]},
    ),
    (NotFound("none", known=["a"]), "not_found", 404, 3, {"known": ["a"]}),
    (errors.Unauthorized("who?"), "unauthorized", 401, 4, {}),
    (errors.Forbidden("not you"), "forbidden", 403, 4, {}),
    (TooLarge("big", limit=9), "too_large", 413, 5, {"limit": 9}),
    (TooMany("slow", retry_after_s=7), "too_many", 429, 5, {"retry_after_s": 7}),
    (Unavailable("away", retry_after_s=7), "unavailable", 503, 6, {"retry_after_s": 7}),
    (
        errors.StoreUnavailable("the store is unavailable", retry_after_s=7),
        "unavailable",
        503,
        6,
        {"retry_after_s": 7},
    ),
    (Misconfigured("unset", setting="data_dir"), "misconfigured", 500, 7, {"setting": "data_dir"}),
    (errors.Broken("odd"), "broken", 500, 70, {}),
]


@pytest.mark.parametrize("case", MADE, ids=lambda case: str(case[1]))
def test_each_class_has_its_code_status_exit_code_and_details(
    case: tuple[DetentError, str, int, int, dict[str, object]],
) -> None:
    error, code, status, exit_code, details = case
    assert (error.code, error.status, error.exit_code) == (code, status, exit_code)
    assert error.details == details
    assert error.hint
    assert str(error) == error.message


def test_every_class_is_tested_and_listed_in_the_docstring() -> None:
    tried = {type(error) for error, *_ in MADE}
    public = {
        each
        for name, each in vars(errors).items()
        if isinstance(each, type) and issubclass(each, DetentError) and name[0] != "_"
    }
    assert public == tried | {DetentError}
    for each in public:
        assert f"{each.__name__} " in f"{errors.__doc__}".replace("\n", " ")


def test_every_code_has_a_meaning_a_reason_and_a_remedy() -> None:
    for code, row in CODES.items():
        assert code == code.lower()
        assert code.replace("_", "").isalnum()
        assert 400 <= row.status < 600
        assert row.exit_code > 0
        assert all(text.endswith(".") for text in (row.meaning, row.why, row.remedy))


def test_the_hint_comes_from_the_table_unless_it_is_given() -> None:
    assert NotFound("none").hint == CODES["not_found"].remedy
    assert NotFound("none", hint="look again").hint == "look again"
    assert TooMany("slow", retry_after_s=7).hint == "Try again in 7 s."
    assert Misconfigured("unset", setting="data_dir").hint.startswith("Correct data_dir; ")


def test_a_code_without_a_row_raises_immediately() -> None:
    with pytest.raises(KeyError):
        Refused("no", code="never_heard_of")


def test_a_traceback_says_what_to_do() -> None:
    error = Misconfigured("unset", setting="data_dir", hint="Set data_dir.")
    assert str(error) == "unset"
    assert traceback.format_exception(error)[-1] == "Set data_dir.\n"


def test_a_message_and_its_hint_are_two_sentences() -> None:
    for message in ("It needs a name of its own", "It needs a name of its own."):
        error = Refused(message, hint="Use a different one.")
        assert error.text == "It needs a name of its own. Use a different one."
    assert Refused("Why?", hint="Look.").text == "Why? Look."
