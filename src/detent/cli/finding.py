"""The result of one check of `detent doctor`."""

from typing import NamedTuple


class Finding(NamedTuple):
    """The result of one check. `remedy` says what to do if it is not `well`."""

    name: str
    well: bool
    what: str
    remedy: str = ""
