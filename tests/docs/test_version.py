"""The version is the same everywhere: package, command line, HTTP, lock, changelog and pages."""

import re
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
from click.testing import CliRunner

from detent.cli.main import cli
from tests.docs.pages import ROOT
from tests.gateway.installation import installed

VERSION = version("detent")
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")]
WHEEL = re.compile(r"detent-(\d+\.\d+\.\d+)-py3")


def read(name: str) -> str:
    return (ROOT / name).read_text("utf-8")


def test_the_installed_package_has_the_version_of_the_repository() -> None:
    assert tomllib.loads(read("pyproject.toml"))["project"]["version"] == VERSION, "run ./dev test"
    locked = {each["name"]: each["version"] for each in tomllib.loads(read("uv.lock"))["package"]}
    assert locked["detent"] == VERSION, "run .tools/bin/uv lock"


def test_the_command_line_prints_it() -> None:
    printed = CliRunner().invoke(cli, ["--version"], prog_name="detent").output
    assert printed == f"detent, version {VERSION}\n"


def test_the_gateway_serves_it(tmp_path: Path) -> None:
    with installed(tmp_path) as gateway:
        document = gateway.client().get("/openapi.json").json()
    assert document["info"]["version"] == VERSION


def test_the_changelog_begins_with_it() -> None:
    released = re.findall(r"^## (\S+) \(\d{4}-\d\d-\d\d\)$", read("CHANGELOG.md"), re.MULTILINE)
    assert released[0] == VERSION
    assert released == sorted(released, reverse=True)


def test_the_upgrade_page_has_a_section_for_it() -> None:
    headings = re.findall(r"^## From \S+ to (\S+)$", read("docs/howto/upgrade.md"), re.MULTILINE)
    assert VERSION in headings


@pytest.mark.parametrize("page", ["docs/howto/install.md", "docs/howto/systemd.md"])
def test_a_page_that_installs_the_wheel_names_it(page: str) -> None:
    assert set(WHEEL.findall(read(page))) == {VERSION}


def test_no_page_names_the_wheel_of_another_version() -> None:
    named = {(page.name, each) for page in PAGES for each in WHEEL.findall(page.read_text("utf-8"))}
    assert {each for _, each in named} == {VERSION}, named
