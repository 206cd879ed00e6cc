"""The options of programs, of commands and agents alike: what they may reach, use and read."""

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from detent.allowed_hosts import allowed_hosts
from detent.kernel import document_fields
from detent.settings import Settings

HIGHEST = 1 << 40
LONGEST = 4_096
MAX_COMMANDS = 20

Commands = tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class ProgramLimits:
    """What all processes of one run may use together; None or 0: no limit."""

    #: Resident memory.
    memory_mb: int | None = None
    cpu_s: int | None = None
    #: Processes and threads.
    processes: int | None = None
    #: The directory of the run and its workspace, and each file that the program writes.
    disk_mb: int | None = None

    def over(self, settings: Settings) -> "ProgramLimits":
        """These limits, and for the missing ones those of the settings. A 0 means no limit."""
        defaults = {name: getattr(settings, f"worker_limit_{name}") for name in NAMES}
        own = {name: value for name, value in asdict(self).items() if value is not None}
        return ProgramLimits(**{name: value or None for name, value in {**defaults, **own}.items()})


NO_LIMITS = ProgramLimits()
NAMES = tuple(asdict(NO_LIMITS))


def limits_from(given: Mapping[str, Any], where: str) -> ProgramLimits:
    """The limits of the table `limits`; Invalid names what is wrong."""
    table = document_fields.table(given, where, NAMES)
    numbers = {
        name: document_fields.whole_number(value, f"{where}.{name}", 0, HIGHEST)
        for name, value in table.items()
    }
    return ProgramLimits(**numbers)


@dataclass(frozen=True, slots=True)
class ProgramOptions:
    """What the programs of an intent may use, and what runs before and after them."""

    #: Hosts that they may reach from the sandbox.
    hosts: tuple[str, ...] = ()
    limits: ProgramLimits = NO_LIMITS
    #: Commands that prepare the workspace before the program, and clean up after it.
    setup: Commands = ()
    cleanup: Commands = ()
    #: Directories that they may read and not write in the sandbox, wherever they are.
    caches: tuple[str, ...] = ()
    #: The image of the container that they run in, instead of the sandbox.
    image: str | None = None


PLAIN = ProgramOptions()


def program_options(
    hosts: Sequence[str] = (),
    limits: Mapping[str, Any] | None = None,
    setup: Sequence[Sequence[str]] = (),
    cleanup: Sequence[Sequence[str]] = (),
    caches: Sequence[str] = (),
    image: str | None = None,
) -> ProgramOptions:
    """The options, checked; Invalid names what is wrong."""
    named = document_fields.texts(hosts, "hosts", LONGEST)
    allowed_hosts(named, "hosts")
    return ProgramOptions(
        named,
        NO_LIMITS if limits is None else limits_from(limits, "limits"),
        _commands(setup, "setup"),
        _commands(cleanup, "cleanup"),
        document_fields.texts(caches, "caches", LONGEST),
        None if image is None else _image(image),
    )


#: The names of all options of programs.
PROGRAM_OPTIONS = tuple(inspect.signature(program_options).parameters)


def _image(given: object) -> str:
    name = document_fields.text(given, "image", LONGEST)
    if name.startswith("-"):
        raise document_fields.wrong("image", "the name of an image", given)
    return name


def _commands(given: Any, where: str) -> Commands:
    """A list of commands, each a program with its arguments."""
    if not isinstance(given, list | tuple) or len(given) > MAX_COMMANDS:
        wanted = f'a list of at most {MAX_COMMANDS} commands, as in [["npm", "ci"]]'
        raise document_fields.wrong(where, wanted, given)
    for index, argv in enumerate(given):
        texts = isinstance(argv, list | tuple) and all(isinstance(each, str) for each in argv)
        if not texts or not argv or not argv[0]:
            wanted = 'a list of strings, as in ["npm", "ci"]'
            raise document_fields.wrong(f"{where}[{index}]", wanted, argv)
    return tuple(tuple(argv) for argv in given)
