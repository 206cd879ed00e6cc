"""The table of error codes: HTTP status, exit code, and explanations for people.

A new code is a new row in `refusals` or `failures`; the reference page is generated from the table.
Standard library only.
"""

from collections.abc import Mapping

from detent.error_codes.code import Code as Code
from detent.error_codes.exit_codes import EXIT_CODES as EXIT_CODES
from detent.error_codes.failures import FAILURES
from detent.error_codes.refusals import REFUSALS

CODES: Mapping[str, Code] = {**REFUSALS, **FAILURES}
