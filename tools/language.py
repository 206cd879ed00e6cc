"""The words that this repository does not use: metaphors, private vocabulary and odd English.

The words of names count too: `looks_at` in the name of a test is found as `looks at` in a sentence.
`python -m tools.language [PATH...]` lists the lines that use one, with the word to use instead.
Reads files only.
"""

import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
READ = {".md", ".py", ".sql", ".ts", ".tsx", ".css", ".html", ".toml", ".yml", ".yaml", ".mjs", ""}
#: Files whose text is not ours to change: released migrations, old data, licences, lock files.
LEFT_OUT = (
    "LICENSE",
    "uv.lock",
    "tools/language.py",
    "src/detent/store/sqlite/migrations/",
    "src/detent/store/postgres/migrations/",
    "tests/golden/",
    "web/package-lock.json",
)
MAX_ALLOWED = 20


class Word(NamedTuple):
    """A word or phrase that is refused, and what to write."""

    pattern: str
    instead: str


WORDS = (
    Word("anew", "again"),
    Word("whoever", "name the component or the person"),
    Word("nobody", "name what is missing: no worker, no person"),
    Word("somebody", "name the component, or: someone, a person"),
    Word("how-manieth", "on which occurrence"),
    Word("so many", "the number"),
    Word("a piece of", "name the thing"),
    Word("at once", "immediately; or: at the same time, in one transaction"),
    Word("said", "reported, documented"),
    Word("told", "sent, notified, given"),
    Word("hears", "is notified"),
    Word("in earnest", "in production"),
    Word("look(?:s|ed|ing)? at", "reads, checks, opens"),
    Word("never looks up", "never checks for cancellation"),
    Word("stands", "is"),
    Word("stood", "was"),
    Word("doorbells?", "notifier"),
    Word("errands?", "leader service"),
    Word("offices?", "leader election"),
    Word("enlist(?:ing|ed)?", "transactional enqueue"),
    Word("byhand", "manual"),
    Word("lately", "recent"),
    Word("nursery", "process supervisor"),
    Word("storms?", "chaos run"),
    Word("tortur(?:e|es|ed|ing)", "fault injection"),
    Word("doors?", "endpoint, authentication middleware"),
    Word("ledgers?", "change set, record of effects"),
    Word("purses?", "budget"),
    Word("(?:a|the|each|every|no) seals?", "chain block"),
    Word("(?:hold|holds|held|holding) back", "held, blocked by dependencies; buffered"),
    Word("for ever", "without end"),
    Word("belongs? into", "is allowed in"),
    Word("hurt(?:s|ing)?", "name the fault that is injected"),
    Word("sent home", "terminated"),
    Word("(?:is|are|was|were) away", "is unavailable"),
    Word("without a word", "uncleanly, silently"),
    Word("not believed", "ignored"),
    Word("made up for", "name what is counted"),
    Word("half below", "p50"),
    Word("\\d+ % below", "p95"),
    Word("(?:answers|answered) so", "returns True, or name the value"),
    Word("gives? way to", "is skipped, so that others are claimed"),
    Word("(?:do|does|did) not land", "is refused"),
    Word("(?:was|were|is|are) bent to", "name the attack, such as DNS rebinding"),
    Word("(?:may|might) be ahead", "name the change"),
    Word("(?:time|it) has brought", "what is due"),
    Word("and what he finds", "and its checks"),
    Word("lifecycle that holds", "runs durably"),
    Word("(?-i:MOST_[A-Z_]+)", "MAX_…"),
)
#: File names that say what their author did instead of what the file contains.
FILE_NAMES = re.compile(
    "acts|asking|byhand|carrying|cell|changing|consequences|doing|door|doorbell|enlisting|errand"
    "|hold|holding|judging|keeping|lately|line|looking|nursery|office|people|place|reading|resting"
    "|room|seal|shapes|storm"
)
#: Between the words of a phrase: a space, an underscore in a name, or the end of a line.
GAP = r"(?:[ _]|\s*\n[ \t#:*/-]*)"
REFUSED = re.compile(
    r"(?<![a-z])(?:"
    + "|".join(f"(?:{word.pattern.replace(' ', GAP)})" for word in WORDS)
    + r")(?![a-z])",
    re.IGNORECASE,
)


class Allowed(NamedTuple):
    """A line that may use a refused word: where it is, a part of it, and why."""

    path: str
    part: str
    reason: str


OLD_PARAMETER = "an older name of a parameter of the store's URL, which is still accepted"
REMOVED_COMMAND = "the name of a command that a release removed"
WIRE = "a field of the document that `GET /api/stats` returns"
ALLOWED: tuple[Allowed, ...] = (
    Allowed("CHANGELOG.md", "`detent torture` is removed", REMOVED_COMMAND),
    Allowed("docs/howto/upgrade.md", "the command `torture`", REMOVED_COMMAND),
    Allowed("src/detent/store/postgres/address.py", '"doorbell": "notifier"', OLD_PARAMETER),
    Allowed("tests/store/test_postgres_start.py", "?doorbell={value}", OLD_PARAMETER),
    Allowed("CHANGELOG.md", "`doorbell=no`", OLD_PARAMETER),
    Allowed("src/detent/cli/installation.py", "found['looked_at']", WIRE),
    Allowed("src/detent/operations/schemas/operators_schema.py", "looked_at: int", WIRE),
    Allowed("src/detent/operations/stats.py", '"looked_at": read', WIRE),
    Allowed("tests/operations/test_stats.py", 'found["looked_at"]', WIRE),
    Allowed("web/src/api/schema.ts", "looked_at: number", WIRE),
)


class Use(NamedTuple):
    path: str
    line: int
    word: str
    text: str


def uses(root: Path = ROOT, below: Iterable[str] = ()) -> Iterator[Use]:
    """Every refused word in the repository's text and file names, except where it is allowed."""
    for path in files(root, below):
        named = Path(path).name.split(".")[0].removeprefix("test_")
        if FILE_NAMES.fullmatch(named):
            yield Use(path, 0, named, "the name of the file")
        yield from _uses_in(path, (root / path).read_text(encoding="utf-8", errors="replace"))


def _uses_in(path: str, text: str) -> Iterator[Use]:
    lines = text.splitlines()
    allowed = [each.part for each in ALLOWED if each.path == path]
    for match in REFUSED.finditer(text):
        number = text.count("\n", 0, match.start())
        if not any(part in lines[number] for part in allowed):
            yield Use(path, number + 1, " ".join(match[0].split()), lines[number].strip())


def files(root: Path, below: Iterable[str] = ()) -> Iterator[str]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", *below],
        cwd=root,
        capture_output=True,
        text=True,
        check=True,
    )
    for path in listed.stdout.splitlines():
        named = Path(path)
        if named.suffix in READ and not path.startswith(LEFT_OUT) and (root / path).is_file():
            yield path


def instead_of(word: str) -> str:
    """What to write for a refused word, as `uses` found it."""
    plain = re.sub(r"[\s_#:*/]+", " ", word)
    fitting = (each.instead for each in WORDS if re.fullmatch(each.pattern, plain, re.IGNORECASE))
    return next(fitting, "name it after what it contains")


def main(below: list[str]) -> int:
    found = list(uses(ROOT, below))
    for use in found:
        print(
            f"{use.path}:{use.line}: {use.word!r}, write: {instead_of(use.word)} | {use.text[:100]}"
        )
    print(f"{len(found)} uses of refused words")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
