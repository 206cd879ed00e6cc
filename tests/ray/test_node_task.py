"""The task of a run on a node, without Ray: output, evidence, failures that cannot be pickled."""

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from detent.worker.runners.ray import node_task
from detent.worker.runners.ray.messages import Ended, TaskSpec
from detent.worker.runners.ray.task_output import TaskOutput

APP = "tests.ray.ray_app"


@pytest.fixture(autouse=True)
def _real_output(capfd: pytest.CaptureFixture[str]) -> Iterator[None]:
    """The file descriptors 1 and 2 are those of the process, as on a node."""
    with capfd.disabled():
        yield


class Sent:
    """What a node sent of the output of a task."""

    def __init__(self) -> None:
        self.pieces: list[tuple[bytes, bool]] = []

    def send(self, piece: bytes, is_cut: bool) -> None:
        self.pieces.append((piece, is_cut))

    @property
    def output(self) -> bytes:
        return b"".join(piece for piece, _ in self.pieces)


def executed(name: str, payload: Any, limit: int = 1_000) -> tuple[Ended, dict[str, bytes], bytes]:
    sent = Sent()
    spec = TaskSpec("k", name, "run-1", "job-1", None, "demo", 2, 7, payload, {}, limit)
    ended, files = node_task.execute(spec, sent.send)
    return ended, files, sent.output


def test_a_function_returns_its_result_output_and_evidence() -> None:
    ended, files, output = executed(f"{APP}:describe", {"note": "hello"})
    assert ended == Ended("completed", {"run": "run-1", "job": "job-1", "fence": 7, "attempt": 2})
    assert files == {"note.txt": b"hello", "numbers.json": b"[\n 1,\n 2\n]"}
    assert output == b"from a child process\n"


@pytest.mark.parametrize(
    ("how", "error_class", "words"),
    [
        ("raise", "error", "ValueError: wrong on purpose"),
        ("exit", "error", "the handler called exit(3)"),
        ("unpicklable", "error", "the result"),
        ("unpicklable-error", "error", "ValueError: a lock"),
    ],
)
def test_a_failure_is_plain_data(how: str, error_class: str, words: str) -> None:
    ended, _, output = executed(f"{APP}:fail", {"how": how}, 10_000)
    assert (ended.how, ended.error_class) == ("failed", error_class)
    assert words in ended.error
    assert how != "raise" or b"Traceback" in output


@pytest.mark.parametrize(
    ("reference", "words"),
    [
        ("no_such_module:f", "cannot import no_such_module:f: No module named 'no_such_module'"),
        (f"{APP}:no_such_name", "has no attribute 'no_such_name'"),
        ("os.path:join", "is not an intent with the option ray on the Ray node"),
    ],
)
def test_a_module_that_the_node_lacks_is_named(reference: str, words: str) -> None:
    ended, _, _ = executed(reference, {})
    assert (ended.how, ended.error_class) == ("failed", "dependency")
    assert words in ended.error


def test_a_payload_that_does_not_fit_is_named() -> None:
    ended, _, _ = executed(f"{APP}:double", {"n": "four"})
    assert "payload.n" in ended.error


@pytest.mark.parametrize("limit", [5_000, 4_096])
def test_output_over_the_limit_is_discarded_on_the_node(limit: int) -> None:
    sent = Sent()
    with TaskOutput(sent.send, limit):
        for _ in range(300):
            os.write(1, b"x" * 1_024)
    assert len(sent.output) == limit
    assert [is_cut for _, is_cut in sent.pieces].count(True) == 1
    assert sent.pieces[-1][1]


def test_output_of_exactly_the_limit_is_not_cut() -> None:
    sent = Sent()
    with TaskOutput(sent.send, 5):
        os.write(1, b"12345")
    assert sent.output == b"12345"
    assert not any(is_cut for _, is_cut in sent.pieces)


def test_a_function_prints_on_although_its_output_cannot_be_sent() -> None:
    tries: list[bytes] = []

    def fail(piece: bytes, is_last: bool) -> None:
        tries.append(piece)
        raise ConnectionError("the actor has died")

    with TaskOutput(fail, 10_000_000):
        for _ in range(1_000):  # more than a pipe holds
            os.write(1, b"x" * 1_024)
    assert len(tries) == 1


def test_a_child_that_keeps_the_pipe_open_does_not_keep_the_task() -> None:
    sent = Sent()
    with TaskOutput(sent.send, 1_000):
        child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
        os.write(2, b"on stderr\n")
    assert child.poll() is None
    child.communicate(b"\n")
    assert sent.output == b"on stderr\n"
