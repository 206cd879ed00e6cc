"""Parsers of documents that people write: configuration, lifecycles, plans, and command lines."""

import tomllib
from collections.abc import Callable, Mapping
from itertools import islice
from pathlib import Path
from typing import Any
from unittest import mock

from detent import failpoints
from detent.allowed_hosts import LOOPBACK, allowed_host, name_refusal
from detent.cli import contexts_file, edit_file, export, typed_values
from detent.cli.annotated_diff import AnnotatedDiff
from detent.cli.comments_file import edits_in
from detent.cli.review_comments import _lines_from
from detent.cli.submit import read_plan
from detent.cli.variants import variants_from
from detent.intent_config import agents_from, intents_from
from detent.kernel import lifecycle_json
from detent.kernel.critic import decision_from
from detent.kernel.lifecycle_lint import flaws
from detent.kernel.plan import validate
from detent.kernel.priority import priority_from
from detent.kernel.retry import policy_from
from detent.lifecycle_config import lifecycle_files
from detent.limit_config import limits_from
from detent.operations.forge_deliveries import repositories
from detent.operations.roles import grants_from
from detent.provider_config import providers_from
from detent.schedule_times import schedule_from, times
from detent.settings_loader import load
from detent.store.codec import to_json
from detent.store.postgres.address import read_address
from detent.store.s3.bucket import parse_url
from detent.store.store_url import is_postgres, sqlite_path
from detent.submission.options import checked_options
from detent.submission.prompt_template import check_template, fields_schema, fill_template
from detent.task_lifecycles.document_file import located, read_document
from verification.fuzzing.parser import (
    Parser,
    argument,
    if_table,
    of_argument,
    of_text,
    same,
    text,
)
from verification.fuzzing.request_parsers import document
from verification.memory_directory import directory_in_memory

ROOT = Path(__file__).resolve().parents[2]
REVIEW = ROOT / "src" / "detent" / "task_lifecycles" / "review.toml"


def tables(read: Callable[[Mapping[str, Any]], object]) -> Callable[[bytes], object]:
    """What reads a table of a configuration file, if the text is such a file."""

    def parse(data: bytes) -> object:
        try:
            return read(tomllib.loads(text(data)))
        except (tomllib.TOMLDecodeError, RecursionError):
            return None

    return parse


def from_file(name: str, read: Callable[[Path], object]) -> Callable[[bytes], object]:
    """What reads a file, which a person or another program has written."""

    def parse(data: bytes) -> object:
        with directory_in_memory("detent-fuzzing-") as made:
            file = made / name
            file.write_bytes(data)
            file.chmod(0o600)
            return read(file)

    return parse


def configuration(file: Path) -> object:
    loaded = load({}, {}, file)
    return (
        intents_from(loaded.tables),
        agents_from(loaded.tables),
        limits_from(loaded.tables),
        providers_from(loaded.tables),
        lifecycle_files(loaded.tables, file),
    )


def plan_file(file: Path) -> object:
    """A plan that was read can be sent."""
    return to_json(validate(read_plan(file)))


def lifecycle(value: Any) -> object:
    found = lifecycle_json.read(value)
    again = lifecycle_json.read(lifecycle_json.export(found))
    same(again, found, "a lifecycle, written and read")
    return found


def lifecycle_document(given: str) -> object:
    _, found = read_document(given)
    return located(given, flaws(found))


def schedule(row: Mapping[str, Any]) -> object:
    """A schedule that is accepted has times."""
    found = schedule_from("s", {"intent": "x", **row})
    return list(islice(times(found, 1_700_000_000_000_000), 3))


def host(given: str) -> object:
    found = allowed_host(given, "hosts")
    found.covers_address(LOOPBACK, 80)
    return found.loopback_ports(), name_refusal(given, 443, [found])


def queue_line(data: bytes) -> object:
    """A line of a queue file. No task of it is known, and every one is accepted."""

    class Gateway:
        def call(self, operation: str, /, **arguments: Any) -> Any:
            if operation == "show_task":
                return {"source": "api", "intent": "x", "payload": {}}
            return to_json(arguments)

    return export._enqueue_line(Gateway(), data)


def contexts(file: Path) -> object:
    with mock.patch.object(contexts_file, "path", return_value=file):
        return contexts_file.read()


def _line(content: str, before: int | None, after: int | None) -> dict[str, Any]:
    kind = "added" if before is None else "context"
    numbers = {"before": before, "after": after}
    return {"kind": kind, "text": content, **numbers, "no_newline": False}


_NUMBERS = {"before_start": 1, "before_count": 1, "after_start": 1, "after_count": 2}
_HUNK = {**_NUMBERS, "heading": "", "lines": [_line("a = 1", 1, 1), _line("b = 2", None, 2)]}
_FILE = {"path": "app.py", "old_path": None, "hunks": [_HUNK]}
SHOWN = AnnotatedDiff("t1", "Fix it", "0" * 64, [_FILE], (), ())


def edits(given: str) -> object:
    return edit_file.parse(SHOWN, given)


def comments_file(data: bytes) -> object:
    return edits_in(SHOWN, data, "comments")


def template(given: str) -> object:
    checked = check_template(given, "prompt")
    fields_schema(checked)
    return fill_template(checked, {"a": {"b": 1}}, "a title")


def store_url(given: str) -> object:
    return read_address(given) if is_postgres(given) else sqlite_path(given)


def armed(given: str) -> None:
    try:
        failpoints.arm({"DETENT_FAILPOINTS": given, "DETENT_TESTING": "1"})
    finally:
        failpoints.arm({})


TOML_SCRAPS = ("[gateway]\n", "port = ", "99999\n", "[intents.x]\n", 'command = ["', '"]\n')
PARSERS = {
    "configuration": Parser(
        from_file("detent.toml", configuration), (*TOML_SCRAPS, "[agents.", "[providers.x]\n")
    ),
    "intents": Parser(
        tables(intents_from), ("[intents.x]\n", 'command = ["a"]\n', "retry = {", "}\n")
    ),
    "agents": Parser(
        tables(agents_from), ("[agents.x]\n", 'preset = "claude"\n', "secrets = {", "}\n")
    ),
    "limits": Parser(
        tables(limits_from), ("[limits.", '"intent:x"]\n', "running = ", "-1\n", "1\n")
    ),
    "providers": Parser(
        tables(providers_from),
        ("[providers.x]\n", 'service = "a"\n', "secrets = {K='env:K'}\n", "capacity = ", "1\n"),
    ),
    "lifecycle": Parser(
        document(lifecycle),
        ('{"name":"x","states":[', '"initial":"', '"rows":[', '{"source":null', "]", "}", ",", '"'),
    ),
    "lifecycle-document": Parser(
        of_text(lifecycle_document),
        tuple(f"{each}\n" for each in REVIEW.read_text("utf-8").split("\n")[:40] if each),
    ),
    "plan": Parser(
        document(validate),
        ('{"steps":[', '{"name":"a","intent":"b"', ',"needs":["a"]', "}", "]}", ',"when":"x"'),
    ),
    "plan-of-yaml": Parser(
        from_file("plan.yaml", plan_file),
        (
            "steps:\n",
            "  - name: a\n",
            "    intent: b\n",
            "    needs: [a]\n",
            "&a ",
            "*a",
            "!!",
            "? ",
        ),
    ),
    "plan-of-json": Parser(
        from_file("plan.json", plan_file), ('{"steps":[', '{"name":"a","intent":"b"', "}", "]}")
    ),
    "options": Parser(
        document(if_table(lambda value: checked_options({}, value))),
        ('{"retry":{', '"retries":', "-1", '"classes":{"lost":', "}", '{"plan":', '"critic":'),
    ),
    "retry": Parser(document(policy_from), ('{"retries":', "3", ',"classes":{"lost":{', "}}}")),
    "schedule": Parser(
        document(if_table(schedule)),
        ('{"cron":"', "* ", "*/0 ", "1-99 ", '","timezone":"', "Europe/", '"}', '{"every_s":', "}"),
    ),
    "priority": Parser(document(priority_from), ('"', "P", "0", "high", "-")),
    "decision": Parser(document(decision_from), ('"', "accept", "RETRY", "switch_resource")),
    "allowed-host": Parser(of_text(host), ("*.", "example.com", ":443", "[::1]", "10.0.0.0/8")),
    "grants": Parser(
        of_text(lambda given: grants_from(given.split("\n"))),
        ("group=", "viewer", ":project", "user:ann=", "admin", "\n"),
    ),
    "repositories": Parser(
        of_text(lambda given: repositories(tuple(given.split(",")), "github.repositories")),
        ("owner/name", "=intent", ",", "/"),
    ),
    "prompt-template": Parser(of_text(template), ("{title}", "{payload", ".a", ".b", "}", "{")),
    "store-url": Parser(
        of_argument(store_url),
        ("postgresql://", "u:p@", "h:5432/d", "?sslmode=", "&max_hold_s=", "[", "sqlite://"),
    ),
    "bucket-url": Parser(of_argument(parse_url), ("s3://", "bucket", "/prefix", "[", "?", "#")),
    "failpoints": Parser(of_argument(armed), ("nowhere", ":kill", ":", ",", "9")),
    "command-line-value": Parser(
        of_argument(typed_values.value_from), ("{", '"', "]", "1", "@", "[" * 99)
    ),
    "assignment": Parser(
        lambda data: typed_values.payload_from(None, (argument(data),)),
        ("a", "=", ".", ":=", "{", "[" * 99),
    ),
    "duration": Parser(
        of_argument(lambda given: typed_values.seconds_from(given, "--every")),
        ("1", "h", "m", "-", "e9"),
    ),
    "variants": Parser(of_argument(variants_from), ("3", "claude,codex", ",", "-")),
    "commented-lines": Parser(of_argument(_lines_from), ("app.py", ":", "3", "-7", "\n")),
    "review-edits": Parser(
        of_text(edits),
        ("│ file 1: app.py\n", "    1     1 │ a = 1\n", "@1-2\n", "text\n", "│ draft d1\n", "\\"),
        (edit_file.UnreadableEdits,),
    ),
    "comments-file": Parser(
        comments_file, ('[{"file":"app.py"', ',"start":1', ',"end":2', ',"text":"x"', "}", "]")
    ),
    "queue-line": Parser(
        queue_line,
        ('{"taskId":"t","source":"api"', ',"intent":"x","priority":"P0"', ',"payload":{}', "}"),
    ),
    "contexts": Parser(
        from_file("contexts.json", contexts),
        ('{"contexts":{"a":{"url":"', '","token":"', '"}}', ',"current":"a"', "}"),
    ),
}
