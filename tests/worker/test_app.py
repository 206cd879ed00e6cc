"""The registry: what is refused at import, at submission, and how a payload becomes arguments."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, assert_type

import msgspec
import pydantic
import pytest

from detent.app.app import App, load_app
from detent.app.async_run_context import AsyncRun
from detent.app.failures import JobFailed
from detent.app.handle import Handle
from detent.app.run_context import Run
from detent.errors import Invalid, Misconfigured, Refused, TooLarge
from detent.intent_config import intents_from
from detent.kernel import commands as c
from detent.testing.harness import Harness


@dataclass
class Repo:
    url: str
    depth: int = 1


class Limits(msgspec.Struct):
    seconds: int


class Address(pydantic.BaseModel):
    city: str
    zip: int


def run_inline(app: App, intent: str, payload: Any) -> Any:
    h = Harness(app)
    handle = h.submit(intent, payload, options={"retry": {"retries": 0}})
    h.drain()
    return handle.result(timeout=0)


# ---- arguments -----------------------------------------------------------------------------


def test_plain_parameters_are_taken_from_the_payload_by_name() -> None:
    app = App()

    @app.intent("greet")
    def greet(name: str, times: int = 2) -> str:
        return name * times

    assert run_inline(app, "greet", {"name": "ab", "project": "x"}) == "abab"
    assert greet("ab", 1) == "ab"


@pytest.mark.parametrize("model", [Repo, Limits, Address])
def test_one_model_takes_the_whole_payload(model: Any) -> None:
    payloads: dict[Any, dict[str, Any]] = {
        Repo: {"url": "u", "depth": 3},
        Limits: {"seconds": 4},
        Address: {"city": "c", "zip": 5},
    }
    app, seen = App(), []

    def handler(request: Any) -> None:
        seen.append(request)

    handler.__annotations__["request"] = model
    app.intent("work")(handler)
    run_inline(app, "work", payloads[model])
    assert seen == [model(**payloads[model])]


def test_models_may_stand_beside_other_parameters_and_in_lists() -> None:
    app, seen = App(), []

    @app.intent("work")
    def work(run: Run, repo: Repo, addresses: list[Address]) -> None:
        seen.append((repo, addresses))

    run_inline(app, "work", {"repo": {"url": "u"}, "addresses": [{"city": "c", "zip": 1}]})
    assert seen == [(Repo("u"), [Address(city="c", zip=1)])]


def test_a_typed_submission_carries_models_and_gives_the_result_in_its_type() -> None:
    app = App()

    @app.intent("clone")
    def clone(run: Run, repo: Repo, mirrors: list[Address]) -> Repo:
        return Repo(repo.url + mirrors[0].city, repo.depth + 1)

    h = Harness(app)
    handle = clone.submit(Repo("u"), mirrors=[Address(city="c", zip=1)])
    assert_type(handle, Handle[Repo])
    h.drain()
    assert handle.result(timeout=0) == Repo("uc", 2)


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"url": 3}, "payload.url"),
        ({"url": "u", "depth": "deep"}, "payload.depth"),
        ({"depth": 1}, "payload"),
        ({"url": "u", "colour": "red"}, "payload"),
        ({"url": object()}, "payload.url"),
        ({"url": "u" * 2_000_000}, None),
    ],
)
def test_a_wrong_typed_submission_is_refused_immediately_by_field(
    arguments: dict[str, Any], field: str | None
) -> None:
    app = App()

    @app.intent("clone")
    def clone(url: str, depth: int = 1) -> None: ...

    h = Harness(app)
    with pytest.raises((Invalid, TooLarge)) as raised:
        clone.submit(**arguments)
    assert getattr(raised.value, "field", None) == field
    with h.store.read() as view:
        assert view.head() == 0


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        ({"url": 3}, "payload.url: Expected `str`, got `int`"),
        ({}, "payload.url is missing"),
        ("text", "payload must be a table of the arguments"),
    ],
)
def test_a_wrong_payload_from_elsewhere_fails_the_run_with_a_clear_text(
    payload: Any, text: str
) -> None:
    """As it was submitted before a worker has registered the handler's arguments."""
    app = App()

    @app.intent("clone")
    def clone(url: str) -> None: ...

    h = Harness(app)
    once = {"retry": {"retries": 0}}
    command = c.SubmitJob("early", "default", "clone", payload=payload, options=once)
    actor = c.Actor("person")
    h.engine.do(command, actor)
    handle: Handle[None] = Handle(h.engine, "early", None, Any, actor)
    h.drain()
    with pytest.raises(JobFailed, match=text) as raised:
        handle.result(timeout=0)
    assert raised.value.error_class == "error"


@pytest.mark.parametrize(
    ("result", "text"),
    [
        (object(), "the result cannot be stored"),
        (float("nan"), "the result cannot be stored"),
        ("\ud800", "the result cannot be stored"),
        ("x" * 2_000_000, "the result is 2,000,002 bytes as JSON; 1,048,576 are allowed"),
    ],
)
def test_a_result_that_cannot_be_kept_fails_the_run_and_says_why(result: Any, text: str) -> None:
    app = App()
    app.intent("work")(lambda: result)
    with pytest.raises(JobFailed, match=text):
        run_inline(app, "work", None)


# ---- registration --------------------------------------------------------------------------


def positional(a: int, /) -> None: ...
def strange(path: Path) -> None: ...
def wrong_run(run: int) -> None: ...
async def wrong_async_run(run: Run) -> None: ...
def wrong_sync_run(run: AsyncRun) -> None: ...
def unresolved(a: "Nowhere") -> None: ...  # type: ignore[name-defined]  # noqa: F821


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (positional, "can be given by name"),
        (strange, "annotated with Path, which cannot be made from JSON"),
        (wrong_run, "annotate it with Run"),
        (wrong_async_run, "annotate it with AsyncRun"),
        (wrong_sync_run, "annotate it with Run"),
        (unresolved, "'Nowhere' is not defined"),
    ],
)
def test_a_handler_that_cannot_be_called_is_refused_at_import(function: Any, text: str) -> None:
    with pytest.raises(Invalid, match=text):
        App().intent("work")(function)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"retry": {"retries": -1}}, "intent work: retry.retries must be"),
        ({"retry": {"tries": 1}}, "retry.tries is not known"),
        ({"retry": 3}, "intent work: retry must be a table of names and values, not 3"),
        ({"label_selector": "zone=eu"}, "label_selector must be a table"),
        ({"avoid": 3}, "avoid must be a list"),
        ({"timeout_s": 0}, "timeout_s must be a number of seconds"),
        ({"timeout_s": True}, "timeout_s must be a number of seconds"),
        ({"timeout": 3}, "there is no option 'timeout'"),
        ({"concurrency_key": "r:{missing}"}, "which is not a parameter of the handler"),
        ({"concurrency_key": "r:{a.b}"}, "is not the name of a payload field"),
        ({"capabilities_required": "gpu"}, "capabilities_required"),
        ({"max_parallel_steps": 0}, "max_parallel_steps must be"),
        ({"max_retries": "many"}, "max_retries must be"),
        ({"max_budget_usd": 0}, "max_budget_usd must be more than 0 dollars"),
    ],
)
def test_options_are_checked_at_import(options: dict[str, Any], text: str) -> None:
    with pytest.raises(Invalid, match=text):
        App().intent("work", **options)(lambda a: None)


def test_a_budget_of_the_intent_is_that_of_its_tasks() -> None:
    app = App()

    @app.intent("spend", max_budget_usd=0.5)
    def spend() -> None: ...

    h = Harness(app)
    given: tuple[dict[str, Any], ...] = ({}, {"max_budget_usd": 2})
    tasks = [h.submit("spend", lifecycle="review", **each).task() for each in given]
    assert [task and task.budget for task in tasks] == [500_000, 2_000_000]


def test_an_intent_and_a_critic_are_registered_once() -> None:
    app = App()
    app.intent("work", critic=lambda result, history: "accept")(lambda: None)
    with pytest.raises(Invalid, match="intent 'work' is registered already"):
        app.command("work", ["true"])
    with pytest.raises(Invalid, match="critic 'work' is registered already"):
        app.critic("work")(lambda result, history: "accept")


def test_a_plan_with_a_cycle_is_refused_at_import_by_its_path() -> None:
    steps = [{"name": "a", "needs": ["b"]}, {"name": "b", "needs": ["a"]}]
    with pytest.raises(Invalid, match=r"a -> b -> a|b -> a -> b"):
        App().plan("round", steps)


def test_a_plan_that_names_what_the_app_does_not_have_is_refused_by_the_worker() -> None:
    app = App()
    app.plan("release", [{"name": "build"}])
    with pytest.raises(Invalid, match="step build: there is no intent 'build'"):
        Harness(app)
    other = App()
    other.intent("build")(lambda: None)
    other.plan("release", [{"name": "build", "critic": "strict"}])
    with pytest.raises(Invalid, match="there is no critic 'strict'"):
        Harness(other)


@pytest.mark.parametrize(
    ("reference", "text"),
    [
        ("no.such.module:app", "cannot be imported: ModuleNotFoundError"),
        ("detent.errors:app", "has no attribute 'app'"),
        ("detent.errors:Refused", "is a type, not a detent app"),
    ],
)
def test_an_app_that_cannot_be_imported_is_a_clear_error(reference: str, text: str) -> None:
    with pytest.raises(Misconfigured, match=text):
        load_app(reference)


def test_an_app_that_raises_while_it_is_imported_is_a_clear_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_app.py").write_text("raise RuntimeError('no licence')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(Misconfigured, match="RuntimeError: no licence"):
        load_app("broken_app:app")


def test_an_app_that_submits_while_it_is_imported_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "from detent import App\napp = App()\napp.intent('a')(lambda: 1)\napp.submit('a')\n"
    (tmp_path / "submitting_app.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(Misconfigured, match="the app is not connected") as raised:
        load_app("submitting_app:app")
    assert "app.connect(url)" in raised.value.hint


def test_intents_of_a_configuration_are_commands_or_come_from_an_app(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_app.py").write_text(
        "from detent.app.app import App\napp = App()\napp.intent('fix')(lambda: 'fixed')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    config: dict[str, dict[str, Any]] = {
        "qa": {"command": [sys.executable, "-c", "pass"]},
        "fix": {"app": "own_app:app"},
    }
    app = App.from_config(config)
    assert run_inline(app, "fix", None) == "fixed"
    with pytest.raises(Misconfigured, match="has no intent 'brew'"):
        App.from_config({"brew": {"app": "own_app:app"}})


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"retry": 3}, "intent qa: retry must be a table"),
        ({"run_timeout_ms": "5 s"}, "intent qa: run_timeout_ms must be a whole number"),
        ({"environment": {"CI": "1"}}, "environment must be a list"),
        ({"directory": 3}, "directory must be printable text"),
        ({"secrets": "TOKEN"}, "secrets must be a table"),
        ({"timeout": 5}, "intents.qa.timeout is not known"),
    ],
)
def test_a_configured_intent_with_a_wrong_value_is_a_clear_error(
    wrong: dict[str, Any], text: str
) -> None:
    with pytest.raises(Misconfigured, match=text):
        App.from_config({"qa": {"command": ["true"], **wrong}})


def test_the_agent_of_a_configured_intent_is_a_name() -> None:
    with pytest.raises(Misconfigured, match="intent fix: agent must be printable text"):
        App.from_config({"fix": {"agent": ["claude"]}})


def test_a_misspelled_key_of_a_configured_intent_is_recognised() -> None:
    with pytest.raises(Misconfigured) as option:
        App.from_config({"qa": {"command": ["true"], "timeout": 5}})
    assert option.value.hint.startswith("Did you mean timeout_s? Known: ")
    with pytest.raises(Misconfigured, match="exactly one of command, agent, app") as kind:
        intents_from({"intents": {"qa": {"comand": ["true"]}}})
    assert kind.value.hint == "It has intents.qa.comand. Did you mean command?"


# ---- submitting ----------------------------------------------------------------------------


def test_an_app_without_a_store_says_what_to_do() -> None:
    app = App()
    app.intent("work")(lambda: None)
    with pytest.raises(Misconfigured, match="not connected to a store") as raised:
        app.submit("work")
    assert "app.connect(url)" in raised.value.hint


def test_the_same_key_gives_the_same_job_and_another_body_is_refused() -> None:
    app = App()

    @app.intent("work")
    def work(n: int) -> int:
        return n

    Harness(app)
    first = work.using(key="k").submit(n=1)
    assert work.using(key="k").submit(n=1).job_id == first.job_id
    assert work.using(idempotency_key="k").submit(n=1).job_id == first.job_id
    with pytest.raises(Refused, match="used before with another request"):
        work.using(key="k").submit(n=2)


def test_a_concurrency_key_is_filled_from_the_payload() -> None:
    app = App()

    @app.intent("work", concurrency_key="repo:{repo}")
    def work(repo: str) -> None: ...

    Harness(app)
    assert work.submit(repo="a").job().concurrency_key == "repo:a"
    assert work.using(lifecycle="board").submit(repo="b").job().concurrency_key == "repo:b"


def test_a_concurrency_key_is_made_of_texts_and_numbers_as_at_every_other_entry() -> None:
    app = App()

    @app.intent("work", concurrency_key="repo:{repo}")
    def work(repo: list[str] | str | None = None) -> None: ...

    Harness(app)
    for arguments in ({}, {"repo": None}, {"repo": ["a", "b"]}):
        with pytest.raises(Invalid, match=r"payload\.repo must be text or a number"):
            work.submit(**arguments)
    with pytest.raises(Invalid, match="concurrency_key must be printable text"):
        work.submit(repo="x" * 200)


def test_a_capability_that_no_resource_offers_is_refused_at_submission() -> None:
    app = App()
    app.intent("render", capabilities_required=["gpu"])(lambda: None)
    h = Harness(app)
    h.resource("cpu-1", capabilities=["cpu"])
    with pytest.raises(Invalid, match="requires gpu, which no resource offers"):
        h.submit("render")


def test_an_unknown_intent_is_refused_with_the_known_ones() -> None:
    app = App()
    app.intent("work")(lambda: None)
    h = Harness(app)
    with pytest.raises(Invalid, match=r"intent must be one of plan, work, not 'play'\."):
        h.submit("play")


def test_a_submission_without_a_required_argument_is_refused_also_without_annotations() -> None:
    app = App()
    resize = app.intent("resize")(lambda path, width=100: path)
    Harness(app)
    with pytest.raises(Invalid, match="missing a required argument: 'path'"):
        resize.submit()
    with pytest.raises(Invalid, match="missing a required argument: 'path'"):
        app.submit("resize")


def test_a_handle_says_what_became_of_the_work() -> None:
    app = App()
    app.intent("fail", retry={"retries": 0})(lambda: 1 / 0)
    app.intent("work")(lambda: 5)
    h = Harness(app)
    failed, waiting = h.submit("fail"), h.submit("work")
    with pytest.raises(TimeoutError, match="is queued after 0 s"):
        waiting.result(timeout=0)
    assert waiting.cancel() == "cancelled"
    h.drain()
    with pytest.raises(JobFailed, match="ZeroDivisionError: division by zero"):
        failed.result()
    with pytest.raises(JobFailed, match="is cancelled"):
        waiting.result()


@pytest.mark.parametrize("url", ["{home}/a/x.db", "sqlite://{home}/a/x.db", "~/a/x.db"])
def test_run_directories_go_beside_the_database_however_it_is_named(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    core = App().connect(url.format(home=tmp_path)).installation()
    core.store.close()
    assert core.settings.data_dir == tmp_path / "a"
    assert (tmp_path / "a" / "x.db").exists()
