"""The words that this repository does not use: metaphors, private vocabulary and odd English.

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
    Word("told", "sent, notified, given"),
    Word("hears", "is notified"),
    Word("in earnest", "in production"),
    Word("look(?:s|ed|ing)? at", "reads, checks, opens"),
    Word("stands", "is"),
    Word("stood", "was"),
    Word("is said", "is reported, is documented"),
    Word("was said", "was reported"),
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
    Word("for ever", "without end"),
    Word("belongs? into", "is allowed in"),
    Word("MOST_[A-Z_]+", "MAX_…"),
)
REFUSED = re.compile(r"\b(?:" + "|".join(f"(?:{word.pattern})" for word in WORDS) + r")\b", re.I)


class Allowed(NamedTuple):
    """A line that may use a refused word: where it is, a part of it, and why."""

    path: str
    part: str
    reason: str


OLD_PARAMETER = "an older name of a parameter of the store's URL, which is still accepted"
REMOVED_COMMAND = "the name of a command that a release removed"
ALLOWED: tuple[Allowed, ...] = (
    Allowed("CHANGELOG.md", "`detent torture` is removed", REMOVED_COMMAND),
    Allowed("docs/howto/upgrade.md", "the command `torture`", REMOVED_COMMAND),
    Allowed("src/detent/store/postgres/address.py", '"doorbell": "notifier"', OLD_PARAMETER),
    Allowed("tests/store/test_postgres_start.py", "?doorbell={value}", OLD_PARAMETER),
)


class Use(NamedTuple):
    path: str
    line: int
    word: str
    text: str


def uses(root: Path = ROOT, below: Iterable[str] = ()) -> Iterator[Use]:
    """Every line of the repository's text that uses a refused word and is not allowed."""
    for path in files(root, below):
        text = (root / path).read_text(encoding="utf-8", errors="replace")
        for number, line in enumerate(text.splitlines(), 1):
            for match in REFUSED.finditer(line):
                if not any(each.path == path and each.part in line for each in ALLOWED):
                    yield Use(path, number, match[0], line.strip())


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
    return next(each.instead for each in WORDS if re.fullmatch(each.pattern, word, re.I))


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
