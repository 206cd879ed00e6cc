"""Parsers of what programs print and leave: output of agents, transcripts, diffs, questions."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from detent import redaction
from detent.app.agent_config import agent_from
from detent.app.agent_presets import PRESETS
from detent.review.diff_comparison import changed_files, compared
from detent.review.file_kinds import generated_kind
from detent.review.unified_diff import parse_diff
from detent.transcript.transcript_parser import FORMATS, TranscriptParser
from detent.worker.run_files import RunFiles
from detent.worker.runners.acp.conversation import taken_from
from detent.worker.runners.agent.agent_files import _read as question_file
from detent.worker.runners.agent.output_parser import Lines, Reader
from detent.worker.runners.agent.reply_file import _reply
from verification.fuzzing.document_parsers import from_file
from verification.fuzzing.parser import Parser, Violation, if_table, same, text
from verification.fuzzing.request_parsers import document


def agent_output(preset: str) -> Callable[[bytes], object]:
    agent = agent_from(preset, {preset: {"argv": ["agent"]}})

    def read(data: bytes) -> object:
        lines, reader = Lines(), Reader(agent)
        for line, _ in (*lines.feed(data), *lines.end()):
            reader.read(line)
        return reader.facts

    return read


def transcript(preset: str | None) -> Callable[[bytes], object]:
    """The chunks in which an output arrives do not change its transcript."""

    def read(data: bytes) -> object:
        whole, divided = TranscriptParser(preset), TranscriptParser(preset)
        items = [*whole.feed(data), *whole.end()]
        middle = len(data) // 2
        parts = [*divided.feed(data[:middle]), *divided.feed(data[middle:]), *divided.end()]
        same(parts, items, "a transcript in two chunks")
        return items

    return read


def diff(data: bytes) -> object:
    """A diff, its files, and its comparison with the diff of its first half."""
    found, before = parse_diff(data), parse_diff(data[: len(data) // 2])
    for file in found.files:
        generated_kind(file)
        same(file.added >= 0 and file.removed >= 0, True, "counts of lines")
        file.lines("before")
        file.lines("after")
    bases = [file.base_path for file in found.files if file.base_path is not None]
    whole = not any(file.truncated for file in found.files) and len(bases) == len({*bases})
    if whole and changed_files(found, found):
        raise Violation("a diff differs from itself")
    return [compared(pair) for pair in changed_files(before, found)]


SECRET = "a-secret-of-the-fuzzing"


def redacted(data: bytes) -> object:
    """A secret does not pass, in whatever chunks it arrives: each line is one here."""
    redaction.remember([SECRET])
    stream = redaction.StreamRedactor()
    shown = b"".join(map(stream.feed, data.split(b"\n"))) + stream.end()
    if SECRET.encode() in shown:
        raise Violation("the secret was shown")
    redaction.redact(text(data))
    return shown


def result_file(file: Path) -> object:
    return RunFiles(file.parent.parent, file.parent.name).result()


def acp_message(value: Mapping[str, Any]) -> object:
    return taken_from(dict(value))


LINES = ('{"type":"', "result", '"', ',"', '":', '"text"', "[{", "}]", "}\n", "\n", "1e400", "null")
#: By format, the names of the lines that it recognises.
WORDS = {
    "claude": ("system", "assistant", "user", "message", "content", "tool_use", "tool_result"),
    "codex": ("thread.started", "item.completed", "item", "command_execution", "file_change"),
    "gemini": ("init", "message", "tool_use", "tool_result", "stats", "role"),
    "opencode": ("step_start", "tool_use", "part", "state", "sessionID", "step_finish"),
    "cursor": ("tool_call", "call_id", "subtype", "started", "completed", "thinking"),
    "acp": ("jsonrpc", "method", "session/update", "params", "update", "sessionUpdate"),
}
DIFF = (
    *("diff --git a/x b/x\n", "index 0..1 100644\n", "--- a/x\n", "+++ b/x\n", "@@ -1,2 +1,2 @@\n"),
    *(" a\n", "-b\n", "+c\n", "\\ No newline at end of file\n", "rename from x\n", "rename to y\n"),
    *(
        "new file mode 100644\n",
        "deleted file mode 120000\n",
        "Binary files differ\n",
        '"\\303\\244"',
    ),
)
PARSERS = {
    **{f"output-{name}": Parser(agent_output(name), LINES) for name in PRESETS},
    **{
        f"transcript-{name}": Parser(transcript(name), (*LINES, *WORDS.get(name, ())))
        for name in FORMATS
    },
    "transcript": Parser(
        transcript(None), (*LINES, *(each for words in WORDS.values() for each in words))
    ),
    "diff": Parser(diff, DIFF),
    "redaction": Parser(redacted, (SECRET, SECRET[:9], SECRET[9:], "\n")),
    "question": Parser(
        question_file, ('{"text":"Which?"', ',"options":["a"]', ',"expires_in_s":', "9e9", "}")
    ),
    "reply": Parser(_reply, ('{"comment":"c"', ',"text":"', '"}')),
    "result-file": Parser(
        from_file("result.json", result_file),
        ('{"a":', "[", "]", "}", "1e999", "NaN", '"\\ud800"'),
        (ValueError, *Parser(bytes, ()).errors),  # the runner reports each as a failure
    ),
    "acp-message": Parser(
        document(if_table(acp_message)),
        ('{"id":1', ',"method":"session/request_permission"', ',"error":', "}"),
    ),
}
