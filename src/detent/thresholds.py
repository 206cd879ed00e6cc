"""The health thresholds and retention times of the settings, and checks for contradictions."""

from collections.abc import Callable
from dataclasses import fields
from typing import Any, TypeVar

from detent.errors import Invalid, Misconfigured
from detent.kernel.health import Thresholds
from detent.kernel.retention import Retention
from detent.settings import Settings

T = TypeVar("T", bound=Any)


def thresholds(settings: Settings) -> Thresholds:
    """The thresholds of the health figures."""
    return _of(Thresholds, "health", settings)


def retention(settings: Settings) -> Retention:
    """How long each kind of data is kept."""
    return _of(Retention, "retention", settings)


def check(settings: Settings) -> None:
    """Refuse settings that contradict each other, before a process starts with them."""
    thresholds(settings)
    retention(settings)
    if settings.worker_heartbeat_ms >= settings.worker_lease_ms:
        raise Misconfigured(
            f"worker.heartbeat_ms ({settings.worker_heartbeat_ms}) must be below worker.lease_ms "
            f"({settings.worker_lease_ms}): every lease would end before it is renewed.",
            setting="worker.heartbeat_ms",
            hint="Set worker.lease_ms to three times worker.heartbeat_ms or more.",
        )


def _of(kind: Callable[..., T], section: str, settings: Settings) -> T:
    """An instance of `kind`, whose fields are the settings of the same names in a section."""
    names = [field.name for field in fields(kind)]  # type: ignore[arg-type]
    try:
        return kind(**{name: getattr(settings, f"{section}_{name}") for name in names})
    except Invalid as error:
        raise Misconfigured(error.message, setting=error.field) from None
