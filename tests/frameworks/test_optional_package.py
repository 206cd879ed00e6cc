"""Integrations whose package is missing or unsupported: an error says what to install."""

from importlib import import_module
from importlib.metadata import version

import pytest

from detent.errors import Misconfigured
from detent.optional_package import optional_package


def test_a_missing_package_is_named_with_its_extra() -> None:
    with pytest.raises(Misconfigured) as raised, optional_package("no-such-thing", "1", "thing"):
        raise AssertionError("the block is not entered")
    assert "the package no-such-thing is not installed" in str(raised.value)
    assert raised.value.hint.endswith("pip install --upgrade 'detent[thing]'")


def test_an_old_version_is_named_with_the_one_that_is_needed() -> None:
    with pytest.raises(Misconfigured) as raised, optional_package("pydantic", "999.1", "thing"):
        raise AssertionError("the block is not entered")
    assert f"pydantic {version('pydantic')} is too old: 999.1 is needed" in str(raised.value)


def test_a_version_without_a_needed_name_is_unsupported() -> None:
    with (
        pytest.raises(Misconfigured, match=r"cannot be used: .*no_such_name"),
        optional_package("pydantic", "2.9", "thing"),
    ):
        import_module("pydantic.no_such_name")


def test_a_supported_version_is_used() -> None:
    with optional_package("pydantic", "2.9", "thing"):
        from pydantic import BaseModel
    assert BaseModel.__name__ == "BaseModel"
