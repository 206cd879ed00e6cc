"""What the settings say about health and retention, as the kernel wants to hear it."""

from collections.abc import Callable
from dataclasses import fields
from typing import Any, TypeVar

from detent.errors import Invalid, Misconfigured
from detent.kernel.health import Thresholds
from detent.kernel.retention import Retention
from detent.settings import Settings

T = TypeVar("T", bound=Any)


def thresholds(settings: Settings) -> Thresholds:
    """Where each figure of the health stops being well."""
    return _of(Thresholds, "health", settings)


def retention(settings: Settings) -> Retention:
    """How long everything is kept."""
    return _of(Retention, "retention", settings)


def check(settings: Settings) -> None:
    """Refuse settings that contradict each other, before anything starts on them."""
    thresholds(settings)
    retention(settings)
    if settings.worker_heartbeat_ms >= settings.worker_lease_ms:
        raise Misconfigured(
            f"worker.heartbeat_ms is {settings.worker_heartbeat_ms}, and a lease of "
            f"{settings.worker_lease_ms} ms would end before it is renewed",
            setting="worker.heartbeat_ms",
            hint="Let a lease hold for three heartbeats: worker.lease_ms = 3 * heartbeat_ms.",
        )


def _of(kind: Callable[..., T], section: str, settings: Settings) -> T:
    """Each field is the setting of the same name in its section."""
    names = [field.name for field in fields(kind)]  # type: ignore[arg-type]
    try:
        return kind(**{name: getattr(settings, f"{section}_{name}") for name in names})
    except Invalid as error:
        raise Misconfigured(error.message, setting=error.field) from None
