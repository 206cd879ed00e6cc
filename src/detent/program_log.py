"""The log of the program: text for people or JSON for programs, with ids, without secrets.

Uses standard logging. `about` adds ids to the log lines of a context; threads that run in the
context inherit them.
"""

import json
import logging
import sys
from collections.abc import Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any

from detent.errors import Misconfigured
from detent.redaction import redact
from detent.settings import Settings

FORMATS = ("text", "json")
#: Libraries that log every URL; the URLs of webhooks often contain secrets.
VERBOSE_LIBRARIES = ("httpx2", "httpcore2")
LEVELS = ("debug", "info", "warning", "error")
#: The ids that every log line of a context has; None if there is none.
IDS: ContextVar[Mapping[str, str | None]] = ContextVar("detent_ids", default={})  # noqa: B039


class about:  # noqa: N801
    """Add ids to every log line in this context: request_id, task_id, job_id, run_id."""

    __slots__ = ("_found", "_token")

    def __init__(self, **ids: str | None) -> None:
        self._found = ids

    def __enter__(self) -> None:
        self._token = IDS.set({**IDS.get(), **self._found})

    def __exit__(self, *error: object) -> None:
        IDS.reset(self._token)


def set_up(settings: Settings) -> None:
    """Configure the log of this process on stderr from the settings."""
    kind = _choice(settings.log_format, FORMATS, "log.format")
    level = _choice(settings.log_level, LEVELS, "log.level")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if kind == "json" else TextLines())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    for name in VERBOSE_LIBRARIES:
        logging.getLogger(name).setLevel(logging.WARNING)


def _choice(given: str, allowed: tuple[str, ...], setting: str) -> str:
    if given not in allowed:
        listed = ", ".join(allowed)
        raise Misconfigured(f"{setting} must be one of {listed}, not {given!r}.", setting=setting)
    return given


def _present_ids() -> dict[str, str]:
    return {name: value for name, value in IDS.get().items() if value is not None}


class TextLines(logging.Formatter):
    """Formats a record as one line of text; a traceback may follow."""

    def format(self, record: logging.LogRecord) -> str:
        ids = "".join(f" {name}={value}" for name, value in _present_ids().items())
        line = f"{_time(record)} {record.levelname} {record.name} {record.getMessage()}{ids}"
        error = _error(self, record)
        return redact(f"{line}\n{error}" if error else line)


class JsonLines(logging.Formatter):
    """Formats a record as one JSON object on one line."""

    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, Any] = {
            "at": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": redact(record.getMessage()),
            **{name: redact(value) for name, value in _present_ids().items()},
        }
        error = _error(self, record)
        if error:
            entry["error"] = redact(error)
        return json.dumps(entry)


def _time(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _error(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    return formatter.formatException(record.exc_info) if record.exc_info else ""
