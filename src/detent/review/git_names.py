"""File names in the headers of a git diff: quoted with C escapes, or plain. Pure."""

import re

QUOTED = re.compile(rb'"((?:[^"\\]|\\.)*)"')
ESCAPE = re.compile(rb'\\([abtnvfr"\\]|[0-7]{1,3})')
ESCAPED = {
    b"a": b"\a",
    b"b": b"\b",
    b"t": b"\t",
    b"n": b"\n",
    b"v": b"\v",
    b"f": b"\f",
    b"r": b"\r",
    b'"': b'"',
    b"\\": b"\\",
}
NO_FILE = b"/dev/null"


def plain_name(given: bytes) -> bytes:
    """The name in a line that has one name: unquoted, or without the tab that may follow it."""
    quoted = QUOTED.match(given)
    return _unescaped(quoted[1]) if quoted else given.partition(b"\t")[0]


def side_name(given: bytes, prefix: bytes) -> bytes | None:
    """The name in a `---` or `+++` line without its prefix; None for a file that does not exist."""
    name = plain_name(given)
    return None if name == NO_FILE else name.removeprefix(prefix)


def both_names(given: bytes) -> bytes:
    """The name in `a/NAME b/NAME`. Names that differ are in further header lines."""
    quoted = QUOTED.match(given)
    if quoted:
        return _unescaped(quoted[1]).removeprefix(b"a/")
    middle = len(given) // 2
    first, second = given[:middle], given[middle + 1 :]
    if first.removeprefix(b"a/") == second.removeprefix(b"b/"):
        return first.removeprefix(b"a/")
    return plain_name(given.rpartition(b" b/")[2])


def text_of(name: bytes) -> str:
    """A name as text. Bytes that are not UTF-8 are escaped, so that names remain different."""
    return name.decode("utf-8", "backslashreplace")


def _unescaped(quoted: bytes) -> bytes:
    return ESCAPE.sub(_character, quoted)


def _character(found: "re.Match[bytes]") -> bytes:
    escape = found[1]
    return ESCAPED.get(escape) or bytes([int(escape, 8) & 0xFF])
