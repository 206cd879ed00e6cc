"""The program's log: JSON or text, with ids from the context, and without secrets anywhere."""

import json
import logging
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from contextvars import copy_context
from itertools import pairwise
from pathlib import Path

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from detent import program_log, redaction
from detent.app.app import App
from detent.app.run_context import Run
from detent.errors import Misconfigured
from detent.settings import Settings
from detent.testing.harness import Harness
from detent.worker import run_outcome
from detent.worker.run_files import RunFiles
from tests.gateway.installation import DEADLINE_S, Installation, installed

SECRET = "hunter2-and-more"


@pytest.fixture(autouse=True)
def forgetful(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget the secrets of other tests."""
    monkeypatch.setattr(redaction, "_values", set())
    monkeypatch.setattr(redaction, "_pattern", redaction.SECRET_FORM)


@pytest.fixture
def restored() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = handlers, level


def lines(text: str) -> list[dict[str, str]]:
    return [json.loads(line) for line in text.splitlines()]


# ---- lines -----------------------------------------------------------------------------------


@pytest.mark.usefixtures("restored")
def test_json_lines_have_ids_and_a_traceback_on_one_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    program_log.set_up(Settings(log_format="json", log_level="warning"))
    log = logging.getLogger("detent.test")
    log.info("not at this level")
    with program_log.about(request_id="r1"), program_log.about(run_id="x", task_id=None):
        try:
            raise ValueError("broken\nhere")
        except ValueError:
            log.warning("it %s", "failed", exc_info=True)
    log.warning("outside")
    first, second = lines(capsys.readouterr().err)
    assert (first["level"], first["logger"]) == ("warning", "detent.test")
    assert first["message"] == "it failed"
    assert (first["request_id"], first["run_id"]) == ("r1", "x")
    assert "task_id" not in first
    assert "ValueError: broken\nhere" in first["error"]
    assert first["at"].endswith("Z")
    assert second.keys() == {"at", "level", "logger", "message"}


@pytest.mark.usefixtures("restored")
def test_text_lines_show_the_ids_too(capsys: pytest.CaptureFixture[str]) -> None:
    program_log.set_up(Settings())
    with program_log.about(job_id="j"):
        logging.getLogger("detent.test").info("hello")
    assert capsys.readouterr().err.rstrip().endswith("INFO detent.test hello job_id=j")


def test_ids_follow_the_context_only() -> None:
    seen: list[dict[str, str | None]] = []

    def look() -> None:
        seen.append(dict(program_log.IDS.get()))

    with program_log.about(run_id="mine"):
        context = copy_context()
        for work in (look, lambda: context.run(look)):
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
    assert seen == [{}, {"run_id": "mine"}]


@pytest.mark.usefixtures("restored")
def test_addresses_of_others_are_not_logged() -> None:
    program_log.set_up(Settings(log_level="debug"))
    assert not logging.getLogger("httpx2").isEnabledFor(logging.INFO)


@pytest.mark.parametrize("wrong", [Settings(log_format="xml"), Settings(log_level="loud")])
def test_a_wrong_setting_is_named(wrong: Settings) -> None:
    with pytest.raises(Misconfigured, match="must be one of"):
        program_log.set_up(wrong)


def test_a_run_is_named_in_what_its_code_logs(caplog: pytest.LogCaptureFixture) -> None:
    app = App()
    seen: list[str] = []

    @app.intent("dig")
    def dig(run: Run) -> None:
        record = logging.makeLogRecord({"msg": "within", "name": "x", "levelname": "INFO"})
        seen.append(program_log.JsonLines().format(record))

    harness = Harness(app)
    handle = harness.submit("dig", lifecycle="board")
    harness.drain()
    (entry,) = lines(seen[0])
    assert entry["task_id"] == handle.task_id
    assert entry["job_id"] == handle.job_id
    assert entry["run_id"] == f"{handle.job_id}-r1"


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    with installed(tmp_path_factory.mktemp("gateway")) as installation:
        yield installation


def test_a_request_has_one_id_in_the_answer_the_problem_and_the_log(
    gateway: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[str] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            written.append(program_log.JsonLines().format(record))

    handler = Keep()
    logging.getLogger("detent.gateway").addHandler(handler)
    broken = "detent.gateway.application.Gateway._try_to_write"
    monkeypatch.setattr(broken, lambda _: 1 / 0)
    answer = httpx2.get(f"{gateway.url}/ready", timeout=DEADLINE_S)
    logging.getLogger("detent.gateway").removeHandler(handler)
    assert answer.status_code == 500
    request_id = answer.headers["x-request-id"]
    assert answer.json()["request_id"] == request_id
    assert "Traceback" not in answer.text
    (entry,) = lines(written[0])
    assert entry["request_id"] == request_id
    assert "ZeroDivisionError" in entry["error"]


# ---- secrets ---------------------------------------------------------------------------------


def test_a_reference_is_resolved_and_its_value_redacted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOTION", f" {SECRET} ")
    file = tmp_path / "secret"
    file.write_text("from-a-file\n")
    assert redaction.redact(f"say {SECRET}") == f"say {SECRET}"
    assert redaction.resolve("env:NOTION", "notion.token") == SECRET
    assert redaction.resolve(f"file:{file}", "notion.token") == "from-a-file"
    assert redaction.redact(f"say {SECRET}, from-a-file.") == "say [secret], [secret]."


@pytest.mark.parametrize(
    ("reference", "words"),
    [
        ("ntn_1234567890", "not the secret itself"),
        ("env:", "not the secret itself"),
        ("env:NOT_THERE", "NOT_THERE.* is not set"),
        ("env:BLANK", "BLANK.* is not set"),
        ("file:/nowhere/at/all", "cannot be read"),
    ],
)
def test_a_bad_reference_says_what_to_set(
    monkeypatch: pytest.MonkeyPatch, reference: str, words: str
) -> None:
    monkeypatch.setenv("BLANK", " ")
    with pytest.raises(Misconfigured, match=words) as refused:
        redaction.resolve(reference, "notion.token")
    assert "ntn_1234567890" not in refused.value.message + refused.value.hint


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Bearer detent_" + "x" * 43, "Bearer [secret]"),
        ("key whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "key [secret]"),
        ("postgresql://ann:geheim@db/x", "postgresql://[secret]@db/x"),
        ("https://example.org:8080/a@b", "https://example.org:8080/a@b"),
    ],
)
def test_some_secrets_are_recognized_by_their_form(text: str, shown: str) -> None:
    assert redaction.redact(text) == shown


def test_variables_are_secret_by_their_names() -> None:
    variables = {"ANTHROPIC_API_KEY": "sk-12345678", "HOME": "/home/ann", "SHORT_KEY": "abc"}
    redaction.remember_environment(variables)
    assert redaction.redact("sk-12345678 /home/ann abc") == "[secret] /home/ann abc"


def test_the_longest_secret_is_redacted_first() -> None:
    redaction.remember(["secret-one", "secret-one-and-two"])
    assert redaction.redact("secret-one-and-two") == "[secret]"


@given(st.lists(st.integers(0, 40)))
def test_a_secret_is_found_however_a_stream_is_cut(cuts: list[int]) -> None:
    redaction.remember([SECRET, "hunter2"])
    text = f"a {SECRET} b hunter2 c hunter é {SECRET}".encode()
    edges = sorted({0, len(text), *(min(cut, len(text)) for cut in cuts)})
    passing = redaction.StreamRedactor()
    pieces = [passing.feed(text[a:b]) for a, b in pairwise(edges)]
    whole = b"".join([*pieces, passing.end()]).decode()
    assert whole == "a [secret] b [secret] c hunter é [secret]"


def test_output_and_errors_of_a_run_have_no_secrets(tmp_path: Path) -> None:
    redaction.remember([SECRET])
    files = RunFiles(tmp_path, "r1")
    files.write(f"the key is {SECRET[:8]}")
    files.write(f"{SECRET[8:]} indeed, {SECRET[:4]}")
    files.end_output()
    assert files.output().decode() == f"the key is [secret] indeed, {SECRET[:4]}"
    failure = run_outcome.of_exception(ValueError(f"cannot log in with {SECRET}"))
    assert SECRET not in failure.error
    report = run_outcome.of_exit_code(1, f"wrong: {SECRET}")
    assert report is not None
    assert SECRET not in report.error


@pytest.mark.parametrize("kind", ["text", "json"])
def test_a_traceback_in_the_log_has_no_secrets(kind: str) -> None:
    code = (
        "import logging; from detent import program_log, redaction\n"
        "from detent.settings import Settings\n"
        f"redaction.remember(['{SECRET}']); program_log.set_up(Settings(log_format='{kind}'))\n"
        f"try: raise ValueError('{SECRET}')\n"
        f"except ValueError: logging.getLogger().exception('with {SECRET}')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "with [secret]" in done.stderr
    assert SECRET not in done.stderr


def test_a_problem_has_no_secrets(gateway: Installation) -> None:
    redaction.remember([SECRET])
    answer = gateway.client().get(f"/api/tasks/{SECRET}")
    assert "[secret]" in answer.json()["detail"]


@pytest.mark.parametrize("secret", ["the-password-of-ann", "detent_" + "x" * 42 + "n"])
def test_a_secret_whose_end_may_begin_another_one_is_redacted_in_a_stream(secret: str) -> None:
    redaction.remember(["the-password-of-ann", "nnn-is-another-secret"])
    for pieces in ([secret], [f"é {secret}", " and on"]):
        stream = redaction.StreamRedactor()
        shown = b"".join(stream.feed(each.encode()) for each in pieces) + stream.end()
        assert shown.decode() == "".join(pieces).replace(secret, "[secret]")


FORMS = {
    "detent_" + "detent-whsec_" * 3 + "wxyz": "[secret]",
    "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw": "[secret]",
    "postgres://ann:p\xe4ss@db/x": "postgres://[secret]@db/x",
    "http://localhost:8080/": "http://localhost:8080/",
    "detent_short": "detent_short",
    "ghp_" + "aB3" * 12: "[secret]",
    "github_pat_" + "11AB_cd" * 8: "[secret]",
    "glpat-" + "x9Y-" * 5: "[secret]",
    "sk-ant-api03-" + "a-B_" * 10: "[secret]",
    "sk-proj-" + "abcd" * 12: "[secret]",
    "xoxb-" + "12345-" * 4: "[secret]",
    "AKIA" + "IOSFODNN7EXAMPLE": "[secret]",
    "task-proj-one and ghp_fixture": "task-proj-one and ghp_fixture",
}


def streamed(pieces: Iterable[bytes]) -> bytes:
    stream = redaction.StreamRedactor()
    return b"".join([*map(stream.feed, pieces), stream.end()])


@pytest.mark.parametrize("secret", FORMS)
def test_a_secret_by_form_is_redacted_wherever_a_stream_is_cut(secret: str) -> None:
    text = f"é {secret} and on".encode()
    shown = f"é {FORMS[secret]} and on".encode()
    for cut in range(len(text) + 1):
        assert streamed([text[:cut], text[cut:]]) == shown
    assert streamed(text[at : at + 1] for at in range(len(text))) == shown


PARTS = st.sampled_from([*FORMS, "the-password-of-ann", "@is-a-secret", *"detnwhsc_:/@ é\n"])


@given(st.lists(PARTS, max_size=8).map("".join), st.lists(st.integers(0, 300), max_size=6))
def test_a_stream_is_redacted_as_the_whole_text_is(text: str, cuts: list[int]) -> None:
    redaction.remember(["the-password-of-ann", "@is-a-secret"])
    data = text.encode()
    edges = sorted({0, len(data), *(min(cut, len(data)) for cut in cuts)})
    assert streamed(data[a:b] for a, b in pairwise(edges)) == redaction.redact_bytes(data)


def test_a_stream_buffers_a_bounded_number_of_bytes() -> None:
    stream = redaction.StreamRedactor()
    fed = passed = 0
    for piece in [b"://", *[b"x" * 1_000] * 20]:
        fed, passed = fed + len(piece), passed + len(stream.feed(piece))
        assert fed - passed <= redaction.MAX_FORM
