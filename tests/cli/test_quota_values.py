"""Quotas on the command line: their units, and what is refused."""

from typing import Any

import click
import pytest

from detent.cli.quota_values import FIELDS, bytes_from, quota_from, quotas_text

NOTHING: dict[str, Any] = dict.fromkeys(option.replace("-", "_") for option in FIELDS)


def test_options_become_fields() -> None:
    given = {**NOTHING, "submissions": "100/1m", "starts": "5/s", "storage": "10GiB"}
    assert quota_from({**given, "cost_per_day": "$2.50"}, ["weight"]) == {
        "rate": 5,
        "per_s": 1,
        "submit_rate": 100,
        "submit_per_s": 60,
        "stored_bytes": 10 << 30,
        "cost_per_day_usd": 2.5,
        "clear": ["weight"],
    }


@pytest.mark.parametrize(
    ("text", "size"), [("7", 7), ("500MB", 500_000_000), ("2 KiB", 2_048), ("-1kB", -1_000)]
)
def test_sizes(text: str, size: int) -> None:
    assert bytes_from(text, "--storage") == size


@pytest.mark.parametrize(
    "given",
    [
        {"storage": "10gigs"},
        {"storage": "1.5GB"},
        {"storage": ""},
        {"submissions": "100"},
        {"submissions": "many/60s"},
        {"submissions": "100/"},
        {"submissions": "100/2w"},
        {"cost_per_day": "25 EUR"},
    ],
    ids=str,
)
def test_wrong_units_are_refused(given: dict[str, str]) -> None:
    with pytest.raises(click.BadParameter):
        quota_from({**NOTHING, **given}, [])


def test_an_unknown_quota_cannot_be_cleared() -> None:
    with pytest.raises(click.BadParameter, match="speed"):
        quota_from(NOTHING, ["speed"])


def test_limits_as_text() -> None:
    nothing = dict.fromkeys(field for fields in FIELDS.values() for field in fields)
    assert quotas_text(nothing) == ""
    assert quotas_text({**nothing, "running": 0, "submit_rate": 2, "cost_per_day_usd": 1.5}) == (
        "0 running, 2 submissions in 1 s, $1.50 a day"
    )
