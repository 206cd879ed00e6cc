"""Which gateway a command is for, and what becomes of the tokens that it could use."""

import json
import stat
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from detent.cli import contexts_file
from detent.cli.contexts_file import Context, Contexts
from detent.cli.login import default_name
from detent.cli.main import cli
from detent.cli.target import Target, check_url, resolve
from detent.cli.target_options import TargetOptions
from detent.errors import DetentError, Invalid, Misconfigured

A, B = "https://a.example", "https://b.example"
CONTEXTS = Contexts({"a": Context(A, "token-a"), "b": Context(B, "token-b", "/ca.pem")}, "b")


def found(options: TargetOptions | None = None, /, **variables: str) -> Target | None:
    return resolve(options or TargetOptions(), variables, lambda: CONTEXTS)


def test_an_option_wins_over_the_environment_and_that_over_the_context() -> None:
    assert found() == Target(B, "token-b", "the current context b", "b", "/ca.pem")
    variables = {"DETENT_URL": A, "DETENT_TOKEN": "t"}
    assert found(**variables) == Target(A, "t", "DETENT_URL")
    given = TargetOptions(url="http://c:1/", token="o")
    assert found(given, **variables) == Target("http://c:1", "o", "--url")
    named = found(TargetOptions(context="a"), **variables)
    assert named == Target(A, "token-a", "--context a", "a")
    assert found(DETENT_CONTEXT="a") == Target(A, "token-a", "DETENT_CONTEXT", "a")


def test_this_machine_is_used_if_nothing_else_is_set_or_if_it_is_named() -> None:
    for blank in ({}, {"DETENT_URL": " "}):
        assert resolve(TargetOptions(), blank, lambda: Contexts({})) is None
    assert found(TargetOptions(local=True), DETENT_URL=A, DETENT_TOKEN="t") is None
    assert found(TargetOptions(context="local"), DETENT_URL=A) is None
    assert found(DETENT_CONTEXT="local") is None


def test_a_token_is_sent_only_to_the_address_that_it_was_given_for() -> None:
    other = {"DETENT_URL": "https://c.example", "DETENT_TOKEN": "secret"}
    assert found(TargetOptions(url=A), **other) == Target(A, "token-a", "--url", "a")
    with pytest.raises(Misconfigured, match=r"There is no token for https://d\.example"):
        found(TargetOptions(url="https://d.example"), **other)
    assert found(DETENT_TOKEN="secret") == Target(
        B, "token-b", "the current context b", "b", "/ca.pem"
    )
    d = "https://d.example"
    assert found(TargetOptions(url=d), DETENT_TOKEN="secret") == Target(d, "secret", "--url")
    same = {"DETENT_URL": f"{A}/", "DETENT_TOKEN": "secret"}
    assert found(TargetOptions(url=A), **same) == Target(A, "secret", "--url")


@pytest.mark.parametrize(
    ("options", "variables", "says"),
    [
        (TargetOptions(url=A, context="a"), {}, "Only one of"),
        (TargetOptions(url=A, local=True), {}, "Only one of"),
        (TargetOptions(token="t", local=True), {}, "--token needs the address"),
        (TargetOptions(context="none"), {}, "There is no context 'none'"),
        (TargetOptions(), {"DETENT_URL": A, "DETENT_CONTEXT": "a"}, "are both set"),
        (TargetOptions(url="https://x"), {}, "There is no token for https://x"),
    ],
)
def test_what_contradicts_itself_is_refused(
    options: TargetOptions, variables: dict[str, str], says: str
) -> None:
    with pytest.raises(DetentError, match=says) as refused:
        found(options, **variables)
    assert refused.value.hint


@pytest.mark.parametrize(
    "url",
    [
        "detent.example.com",
        "ftp://a",
        "http://",
        "http://a:99999",
        "http://a b",
        "http://a?x=1",
        "http://user:secret@a",
        "http://a\nHost: b",
        "http://[::1",
        "",
    ],
)
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(Misconfigured, match="must be an address such as"):
        check_url(url, "--url")


def test_the_default_name_of_a_context_is_the_host() -> None:
    assert default_name("https://detent.example.com/x") == "detent.example.com"
    assert default_name("http://127.0.0.1:5680") == "127.0.0.1-5680"
    assert default_name("http://[::1]:80") == "1-80"


# ---- the file --------------------------------------------------------------------------------


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("DETENT_CONTEXT", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: str, code: int = 0, typed: str | None = None) -> Result:
    result = CliRunner().invoke(cli, arguments, input=typed)
    assert result.exit_code == code, result.output
    return result


def add(name: str, url: str, *more: str) -> Result:
    return run("context", "add", name, "--no-check", "--url", url, "--token", "secret", *more)


def test_contexts_are_added_used_listed_and_removed(home: Path) -> None:
    add("a", A)
    assert "not encrypted" in add("b", "http://b.example:5680").stderr
    assert json.loads(run("context", "list", "--json").stdout)["items"] == [
        {"name": "local", "url": None, "current": True},
        {"name": "a", "url": A, "current": False},
        {"name": "b", "url": "http://b.example:5680", "current": False},
    ]
    assert run("context", "use", "a").stdout == f"Commands use {A} now.\n"
    shown = run("context", "show")
    assert A in shown.stdout
    assert "secret" not in shown.stdout
    assert run("context", "use", "unknown", code=3).stderr.count("There is no context") == 1
    run("context", "remove", "a")
    assert contexts_file.read().current is None
    run("context", "use", "b")
    assert run("context", "use", "local").stdout.startswith("Commands use the installation")


def test_a_token_is_read_from_standard_input(home: Path) -> None:
    arguments = ("context", "add", "a", "--no-check", "--url", A)
    run(*arguments, typed="detent_from_stdin\n")
    assert contexts_file.read().contexts["a"].token == "detent_from_stdin"
    assert "There is no token" in run(*arguments, typed="", code=2).stderr


def test_the_file_is_for_its_owner_alone(home: Path) -> None:
    add("a", A, "--use")
    file = contexts_file.path()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    file.chmod(0o644)
    assert f"chmod 600 {file}" in run("tasks", code=7).stderr
    assert "chmod 600" in run("doctor", code=1).stdout


@pytest.mark.parametrize("text", ["", "[]", '{"contexts": {"a": {}}}', '{"contexts": []}', "\0"])
def test_a_file_that_is_none_is_reported(home: Path, text: str) -> None:
    add("a", A)
    contexts_file.path().write_text(text)
    assert "is not a file of contexts" in run("tasks", code=7).stderr


@pytest.mark.parametrize("name", ["local", "a/b", "", "-", "x" * 64])
def test_a_context_may_not_have_every_name(home: Path, name: str) -> None:
    with pytest.raises(Invalid, match="The name of a context"):
        contexts_file.check_name(name)


def test_options_may_precede_or_follow_the_command(home: Path) -> None:
    before = run("--url", "http://127.0.0.1:1", "--token", "t", "tasks", code=6)
    after = run("tasks", "--url", "http://127.0.0.1:1", "--token", "t", code=6)
    inner = run(
        "tokens",
        "create",
        "x",
        "--scope",
        "read",
        "--url",
        "http://127.0.0.1:1",
        "--token",
        "t",
        code=6,
    )
    assert before.stderr == after.stderr == inner.stderr
    assert "Give the address of the gateway" in run("context", "add", "a", code=2).stderr
