"""`detent doctor` checks the settings and the token of each forge in the same way."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from detent.cli.finding import Finding
from detent.cli.forge_checks import forges
from detent.settings import Settings
from tests.forges.forge_cases import CASES, REPO, ForgeCase


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ForgeCase]:
    with CASES[request.param](tmp_path) as made:
        yield made


def findings(case: ForgeCase, directory: Path, **changes: Any) -> list[Finding]:
    """The findings about the forge; `changes` have the names of settings without the forge."""
    for name, text in (("token", case.token), ("secret", case.secret)):
        (directory / name).write_text(text)
    given = {
        "token": f"file:{directory / 'token'}",
        "url": case.url,
        "repositories": (f"{REPO}=fix",),
        "webhook_secret": f"file:{directory / 'secret'}",
        **changes,
    }
    named = {f"{case.forge.name}_{name}": each for name, each in given.items()}
    return list(forges(Settings(**named)))


def test_a_forge_that_works_has_two_findings(case: ForgeCase, tmp_path: Path) -> None:
    name = case.forge.name
    assert findings(case, tmp_path) == [
        Finding(name, True, f"the account detent-bot works on {REPO}"),
        Finding(f"{name} webhook", True, f"deliveries are accepted at /hooks/{name}"),
    ]
    (_, without) = findings(case, tmp_path, webhook_secret="")
    assert without.what == f"{name}.webhook_secret is not set: the keeper polls only"


def test_what_is_wrong_is_named_with_its_setting(case: ForgeCase, tmp_path: Path) -> None:
    name = case.forge.name
    (empty,) = findings(case, tmp_path, repositories=())
    assert (empty.well, empty.what) == (False, f"{name}.repositories is empty.")
    (method,) = findings(case, tmp_path, merge="fast")
    assert f"{name}.merge must be one of" in method.what
    (_, secret) = findings(case, tmp_path, webhook_secret="env:NO_SUCH_VARIABLE")
    assert not secret.well
    assert "NO_SUCH_VARIABLE" in secret.what
    case.revoke()
    (token,) = findings(case, tmp_path)
    assert not token.well
    assert "does not accept the token" in token.what


def test_a_forge_that_is_not_used_is_not_checked() -> None:
    assert list(forges(Settings())) == []
