"""Integrations whose package is missing or unsupported: an error says what to install."""

import re
import sys
import tomllib
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import cast

import pytest

from detent.errors import DetentError, Misconfigured
from detent.optional_package import optional_package
from detent.settings import Settings
from detent.store.port import ReadTransaction
from tests.docs.pages import ROOT


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


def imported_again(name: str) -> None:
    """Import a module as a process does that has not imported it yet."""
    kept = {each: sys.modules.pop(each) for each in [*sys.modules] if each == name}
    try:
        import_module(name)
    finally:
        sys.modules.update(kept)


@pytest.mark.parametrize(
    ("package", "module"),
    [
        ("mcp", "detent.integrations.mcp_tasks"),
        ("pydantic-ai-slim", "detent.integrations.pydantic_ai"),
        ("openai-agents", "detent.integrations.openai_agents"),
        ("langgraph", "detent.integrations.langgraph"),
    ],
)
@pytest.mark.parametrize("installed", [None, "0.1.0"])
def test_each_module_says_what_to_install(
    package: str, module: str, installed: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    import_module(module)
    monkeypatch.setattr("detent.optional_package._installed", lambda _: installed)
    with pytest.raises(Misconfigured, match=package) as raised:
        imported_again(module)
    assert "pip install --upgrade 'detent[" in str(raised.value.hint)


@pytest.mark.parametrize("installed", [None, "1.9.4"])
def test_the_mcp_server_says_what_to_install(
    installed: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    from detent.cli import mcp as command
    from detent.service import mcp_tools

    monkeypatch.setattr("detent.optional_package._installed", lambda _: installed)
    for load in (command._import_server, lambda: mcp_tools(1)):
        with pytest.raises(DetentError, match=r"detent\[mcp\]") as raised:
            load()
        assert "pip install --upgrade 'detent[mcp]'" in str(raised.value.hint)


def test_the_doctor_says_what_to_install_for_slack(monkeypatch: pytest.MonkeyPatch) -> None:
    from detent.cli.slack_check import slack_faults

    monkeypatch.setattr("detent.optional_package._installed", lambda _: "1.2")
    [(fault, remedy)] = slack_faults(cast(ReadTransaction, None), Settings())
    assert "slack-bolt 1.2 is too old: 1.30 is needed" in fault
    assert "pip install --upgrade 'detent[slack]'" in remedy


def test_the_oldest_versions_are_those_of_the_extras() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = declared["optional-dependencies"]
    call = re.compile(r'optional_package\("([a-z-]+)", "([0-9.]+)", extra="([a-z-]+)"\)')
    source = "".join(each.read_text("utf-8") for each in Path(ROOT, "src").rglob("*.py"))
    found = set(call.findall(source))
    assert len(found) >= 5
    for package, oldest, extra in found:
        assert f"{package}>={oldest}" in extras[extra], (package, oldest)
