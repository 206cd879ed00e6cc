"""The file of contexts: gateways by name, each with its address and token, and which one is used.

`contexts.json` is in the user's configuration directory and readable by its owner only, because it
contains tokens. A change is written to another file, which then replaces it.
"""

import fcntl
import json
import os
import re
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from detent import private_files
from detent.errors import Invalid, Misconfigured, NotFound

FILE_NAME = "contexts.json"
#: The name for the installation of this machine.
LOCAL = "local"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
FOR_OTHERS = stat.S_IRWXG | stat.S_IRWXO


class Context(NamedTuple):
    """A gateway: its address, the token for it, and the certificates that it is checked with."""

    url: str
    token: str
    ca_file: str | None = None


class Contexts(NamedTuple):
    """All contexts by name, and the name of the one that commands use; None: this machine."""

    contexts: dict[str, Context]
    current: str | None = None

    def find(self, name: str) -> Context:
        if name not in self.contexts:
            raise NotFound(
                f"There is no context {name!r}.",
                known=sorted([*self.contexts, LOCAL]),
                hint="`detent context list` lists them; `detent context add` adds one.",
            )
        return self.contexts[name]


def path() -> Path:
    """The file: in $XDG_CONFIG_HOME/detent, else in ~/.config/detent."""
    given = os.environ.get("XDG_CONFIG_HOME", "").strip()
    return Path(given or Path.home() / ".config") / "detent" / FILE_NAME


def read() -> Contexts:
    """The contexts; there are none if there is no file."""
    file = path()
    try:
        with file.open("rb") as opened:
            mode = os.fstat(opened.fileno()).st_mode
            if mode & FOR_OTHERS:
                raise _wrong(file, "other users can access it", f"Run: chmod 600 {file}")
            return _parsed(json.loads(opened.read()))
    except FileNotFoundError:
        return Contexts({})
    except OSError as error:
        hint = "Check the path, its owner and its permissions."
        raise _wrong(file, f"it cannot be read: {error.strerror}", hint) from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        hint = "Correct it, or move it away and add the contexts again."
        raise _wrong(file, "it is not a file of contexts", hint) from None


def _parsed(document: Any) -> Contexts:
    contexts = {
        str(name): Context(str(row["url"]), str(row["token"]), row.get("ca_file"))
        for name, row in document["contexts"].items()
    }
    current = document.get("current")
    return Contexts(contexts, current if current in contexts else None)


def _wrong(file: Path, why: str, hint: str) -> Misconfigured:
    return Misconfigured(f"{file} is not used: {why}.", setting=str(file), hint=hint)


def change(changed: Callable[[Contexts], Contexts]) -> Contexts:
    """Read the contexts, change them and write them; two commands do so one after the other."""
    file = path()
    private_files.make_directory(file.parent)
    directory = os.open(file.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(directory, fcntl.LOCK_EX)
        new = changed(read())
        rows = {name: each._asdict() for name, each in sorted(new.contexts.items())}
        with private_files.replacing(file) as draft:
            json.dump({"current": new.current, "contexts": rows}, draft, indent=2)
            draft.write("\n")
    finally:
        os.close(directory)
    return new


def check_name(name: str) -> str:
    """The name of a new context, if it may have it."""
    if NAME.fullmatch(name) and name != LOCAL:
        return name
    form = "1 to 63 letters, digits, dots, hyphens or underscores, and not `local`"
    raise Invalid(
        f"The name of a context must be {form}; {name[:80]!r} is not.",
        field="name",
        given=name,
        allowed=(form,),
    )
