"""Finds the line of a field in the text of a TOML document; `tomllib` reports none for values.

The text must be valid TOML. A field is named by its path: `rows[3].event`, `states.x.phase`.
"""

import re

BLANK = re.compile(r"(?:[\s,]|#[^\n]*)*")
KEY = re.compile(r"""[A-Za-z0-9_-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*'""")
DOT = re.compile(r"[ \t]*\.[ \t]*")
TEXT = re.compile(
    r'"""(?:[^\\]|\\[\s\S])*?"{3,5}|' + r"'''[\s\S]*?'{3,5}|" + KEY.pattern.partition("|")[2]
)
PLAIN = re.compile(r"[^\s,\]}#]+(?: [^\s,\]}#]+)?")


def line_of(text: str, field: str) -> int:
    """Return the line of a field, from 1; that of the nearest table around it if it is missing."""
    try:
        known = lines(text)
    except (RecursionError, IndexError):  # nested too deeply, or not TOML
        return 1
    while field and field not in known:
        cut = max(field.rfind("."), field.rfind("["))
        field = field[: max(cut, 0)]
    return known.get(field, 1)


def lines(text: str) -> dict[str, int]:
    """Return the line of every key, table and entry of a list, by its path."""
    return _Scanner(text).scan()


class _Scanner:
    """Walks over the text once; `at` is the position of the next character."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.found: dict[str, int] = {}
        #: How many entries each list of tables has so far.
        self.entries: dict[str, int] = {}

    def scan(self) -> dict[str, int]:
        table = ""
        while not self._ended():
            if self._peek() == "[":
                table = self._header()
            else:
                self._pair(table)
        return self.found

    def _header(self) -> str:
        """Read `[table]` or `[[list of tables]]`; return the path of the table."""
        start = self.at
        listed = self.text.startswith("[[", self.at)
        self.at += 2 if listed else 1
        self._blank()
        parts = self._key()
        self._blank()
        self.at += 2 if listed else 1
        path = ""
        for part in parts:
            path = _joined(self._latest(path), part)
            self._note(path, start)
        if not listed:
            return path
        self.entries[path] = self.entries.get(path, -1) + 1
        path = f"{path}[{self.entries[path]}]"
        self._note(path, start)
        return path

    def _latest(self, path: str) -> str:
        return f"{path}[{self.entries[path]}]" if path in self.entries else path

    def _pair(self, table: str) -> None:
        """Read `key = value`."""
        start = self.at
        path = table
        for part in self._key():
            path = _joined(path, part)
            self._note(path, start)
        self._blank()
        self.at += 1  # =
        self._value(path)

    def _value(self, path: str) -> None:
        self._blank()
        if self._peek() == "[":
            self._entries_of(path)
        elif self._peek() == "{":
            self.at += 1
            while not self._ended() and self._peek() != "}":
                self._pair(path)
            self.at += 1
        else:
            self._skip(TEXT if self._peek() in "\"'" else PLAIN)

    def _entries_of(self, path: str) -> None:
        self.at += 1
        index = 0
        while not self._ended() and self._peek() != "]":
            self._note(f"{path}[{index}]", self.at)
            self._value(f"{path}[{index}]")
            index += 1
        self.at += 1

    # ---- characters --------------------------------------------------------------------------

    def _key(self) -> list[str]:
        parts = [self._skip(KEY).strip("\"'")]
        while DOT.match(self.text, self.at):
            self._skip(DOT)
            parts.append(self._skip(KEY).strip("\"'"))
        return parts

    def _skip(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self.text, self.at)
        if match is None:
            raise IndexError(self.at)
        self.at = match.end()
        return match[0]

    def _blank(self) -> None:
        self._skip(BLANK)

    def _peek(self) -> str:
        return self.text[self.at]

    def _ended(self) -> bool:
        self._blank()
        return self.at >= len(self.text)

    def _note(self, path: str, position: int) -> None:
        self.found.setdefault(path, self.text.count("\n", 0, position) + 1)


def _joined(path: str, part: str) -> str:
    return f"{path}.{part}" if path else part
