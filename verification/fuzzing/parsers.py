"""The list of all parsers of outside input, by name."""

from collections.abc import Mapping

from verification.fuzzing import (
    document_parsers,
    program_parsers,
    request_parsers,
    store_parsers,
)
from verification.fuzzing.parser import Parser

PARSERS: Mapping[str, Parser] = {
    **request_parsers.PARSERS,
    **document_parsers.PARSERS,
    **program_parsers.PARSERS,
    **store_parsers.PARSERS,
}
