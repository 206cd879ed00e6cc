"""Every parser of text from outside: any text is read, or refused with a message.

Texts are made from scraps that mean something to the parser, so that chance comes further than the
first character. `DETENT_FUZZ_EXAMPLES` says how many of each are tried; a build tries 150.
"""

import json
import os
import tarfile
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click import ClickException
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from detent import failpoints
from detent.addresses import networks
from detent.app.agent_config import agent_from
from detent.cli import typed_values
from detent.errors import DetentError
from detent.gateway import auth, strict_json
from detent.intent_config import agents_from, intents_from
from detent.kernel import lifecycle_json
from detent.kernel.events import EVENTS
from detent.kernel.lifecycles import LIFECYCLES
from detent.kernel.plan import validate
from detent.kernel.priority import priority_from
from detent.limit_config import limits_from
from detent.operations.cursor_pages import _read_cursor
from detent.schedule_times import schedule_from
from detent.settings import Settings, load
from detent.store.codec import read_event
from detent.submission.options import checked_options
from detent.transfer import archive
from detent.worker.runners.agent.agent_files import asked_from
from detent.worker.runners.agent.output_parser import Lines, Reader

EXAMPLES = int(os.environ.get("DETENT_FUZZ_EXAMPLES", "150"))
#: No single text may take longer, however it was made up: in processor time, because a machine that
#: is busy with other things makes everything slow.
SLOWEST_S = 5.0

Parser = Callable[[str], object]


def documents(read: Callable[[Any], object]) -> Parser:
    """What reads a document that has been read as JSON."""

    def parse(text: str) -> object:
        return read(strict_json.decode(text.encode("utf-8", "surrogatepass"), LIMITS))

    return parse


def tables(read: Callable[[Mapping[str, Any]], object]) -> Parser:
    """What reads a table of a configuration file, if the text is such a file."""

    def parse(text: str) -> object:
        try:
            return read(tomllib.loads(text))
        except (tomllib.TOMLDecodeError, RecursionError):
            return None

    return parse


def a_table(read: Callable[[Mapping[str, Any]], object]) -> Callable[[Any], object]:
    return lambda value: read(value) if isinstance(value, dict) else None


def configuration(text: str) -> object:
    with tempfile.TemporaryDirectory() as made:
        file = Path(made) / "detent.toml"
        file.write_text(text, "utf-8", errors="replace")
        loaded = load({}, {}, file)
        return intents_from(loaded.tables), agents_from(loaded.tables), limits_from(loaded.tables)


def an_archive(text: str) -> object:
    with tempfile.TemporaryDirectory() as made:
        path = Path(made) / "some.detent"
        inner = Path(made) / "inner"
        inner.write_text(text, "utf-8", errors="replace")
        if len(text) % 2:
            with tarfile.open(path, "w:gz") as tar:
                tar.add(inner, "manifest.json")
        else:
            path.write_text(text, "utf-8", errors="replace")
        return archive.opened(path)


def agent_output(text: str) -> object:
    lines, reader = Lines(), Reader(agent_from("claude", {}))
    data = text.encode("utf-8", "surrogatepass")
    for line, _ in (*lines.feed(data), *lines.end()):
        reader.read(line)
    return reader


def stored_events(text: str) -> object:
    """A broken row of the store is reported as broken, and never taken for another."""
    name = sorted(EVENTS)[len(text) % len(EVENTS)]
    try:
        return read_event(name, EVENTS[name].version, text)
    except msgspec.MsgspecError:
        return None


LIMITS = strict_json.Limits.of(Settings())
SCHEDULE = {"intent": "x"}
PARSERS: dict[str, tuple[Parser, tuple[str, ...]]] = {
    "a body": (documents(lambda value: value), ('{"a":', "[", "]", "}", "1e999", "NaN", "\\u00")),
    "a plan": (
        documents(validate),
        ('{"steps":[', '{"name":"a","intent":"b"', ',"needs":["a"]', "}", "]}", ',"when":"x"'),
    ),
    "options": (
        documents(a_table(lambda value: checked_options({}, value))),
        ('{"retry":{', '"retries":', "-1", '"classes":{"lost":', "}", '{"plan":', '"critic":'),
    ),
    "a lifecycle": (
        documents(lifecycle_json.read),
        (json.dumps(lifecycle_json.export(LIFECYCLES["job"])),),
    ),
    "a schedule": (
        documents(a_table(lambda value: schedule_from("s", {**SCHEDULE, **value}))),
        ('{"cron":"', "* ", "*/0 ", "1-99 ", '","zone":"', "Mars/Phobos", '"}', '{"every_s":', "}"),
    ),
    "a question": (documents(a_table(asked_from)), ('{"text":"', "?", '","options":[', "]}", '"}')),
    "a priority": (documents(priority_from), ('"', "P", "0", "high", "-")),
    "a cursor": (lambda text: _read_cursor(text, "tasks", "-created_at"), ("eyJ", "=", "W10", "-")),
    "a header": (lambda text: auth.credentials({"authorization": text}), ("Bearer ", "detent_")),
    "a cookie": (lambda text: auth.credentials({"cookie": text}), ("detent=", ";", "__Host-")),
    "a host": (
        lambda text: auth.check_host({"host": text}, ["127.0.0.1:5680"]),
        ("127.0.0.1", ":5680", "@", "[::1]"),
    ),
    "an origin": (
        lambda text: auth.check_origin({"origin": text}, "127.0.0.1:5680", required=True),
        ("http://", "127.0.0.1:5680", "null", "@"),
    ),
    "networks": (lambda text: networks([text], "webhooks.allow"), ("10.", "0/8", "::", "/129")),
    "a configuration": (
        configuration,
        ("[gateway]\n", "port = ", "99999\n", "[intents.x]\n", 'command = ["', '"]\n', "[agents."),
    ),
    "intents": (tables(intents_from), ("[intents.x]\n", 'command = ["a"]\n', "retry = {", "}\n")),
    "agents": (tables(agents_from), ("[agents.x]\n", 'preset = "claude"\n', "secrets = {", "}\n")),
    "limits": (tables(limits_from), ("[limits.", '"intent:x"]\n', "running = ", "-1\n", "1\n")),
    "failpoints": (
        lambda text: failpoints.arm({"DETENT_FAILPOINTS": text, "DETENT_TESTING": "1"}),
        ("nowhere", ":kill", ":", ",", "9"),
    ),
    "a value at the command line": (typed_values.value_from, ("{", '"', "]", "1", "@")),
    "an assignment": (
        lambda text: typed_values.payload_from(None, (text,)),
        ("a", "=", ".", ":=", "{"),
    ),
    "a duration": (
        lambda text: typed_values.seconds_from(text, "--every"),
        ("1", "h", "m", "-", "e9"),
    ),
    "output of an agent": (
        agent_output,
        ('{"type":"result"', ',"total_cost_usd":', "1e400", '"is_error":true', "}\n", "\n"),
    ),
    "an archive": (an_archive, ('{"format":', "1", ',"files":[', "]}", "PK", "../")),
    "an event of the store": (stored_events, ('{"', "reason", '":"', '"}', "{}", "null")),
}


def texts(scraps: tuple[str, ...]) -> st.SearchStrategy[str]:
    anything = st.text(max_size=12)
    return st.lists(st.sampled_from(scraps) | anything, max_size=10).map("".join)


def message_of(parse: Parser, text: str) -> str | None:
    """The message of a refusal, for the author of the text; None if it was read."""
    try:
        parse(text)
    except (DetentError, ClickException) as refusal:
        return str(refusal)
    return None


@pytest.fixture(autouse=True)
def nothing_armed() -> Iterator[None]:
    yield
    failpoints.arm({})


@pytest.mark.parametrize("name", PARSERS)
def test_a_parser_reads_or_refuses(name: str) -> None:
    parse, scraps = PARSERS[name]

    @settings(
        max_examples=EXAMPLES,
        suppress_health_check=[HealthCheck.too_slow],
    )
    @given(texts(scraps))
    def read(text: str) -> None:
        begun_s = time.thread_time()
        assert message_of(parse, text) != ""
        assert time.thread_time() - begun_s < SLOWEST_S

    read()
