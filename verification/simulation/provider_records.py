"""What the auditor records about providers: rate limits, circuit breakers, and who may use them.

The rules are written down a second time here: no rule of the kernel is asked. Pure.
"""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from detent.kernel import events as e

MAX_FAILURES = 3
MINUTE_US = 60_000_000
#: How long a breaker is open in a simulation, in which less time passes than 30 minutes.
OPEN_US = 2 * MINUTE_US
LONGEST_RESET_US = 32 * 24 * 60 * MINUTE_US


@dataclass(slots=True)
class ProviderRecord:
    """One provider, as the ends of its runs have left it."""

    service: str
    limited_until: int = 0
    failures: int = 0
    open_until: int = 0

    def row(self) -> tuple[int, int, int]:
        return self.limited_until, self.failures, self.open_until


@dataclass(slots=True)
class ProviderRecords:
    """Kept event by event; `leased` says what is wrong with a lease, if anything is."""

    resources: Mapping[str, Mapping[str, Any]]
    providers: dict[str, ProviderRecord] = field(default_factory=dict)
    #: By step, the provider that it had last.
    last: dict[tuple[str, str], str] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """An operator has written the resources again, without their health."""
        self.providers = {
            name: ProviderRecord(row["service"])
            for name, row in self.resources.items()
            if "service" in row
        }

    def begin_plan(self, job_id: str) -> None:
        """The steps of a new plan have had no provider."""
        self.last = {step: name for step, name in self.last.items() if step[0] != job_id}

    def rows(self) -> dict[str, tuple[int, int, int]]:
        return {name: each.row() for name, each in self.providers.items()}

    # -- leases ----------------------------------------------------------------------------

    def leased(
        self,
        step: tuple[str, str],
        planned: Mapping[str, Any],
        name: str,
        at: int,
        users: Collection[str],
    ) -> str | None:
        """Whether a step may have the provider; `users` are the providers that others hold."""
        provider, before = self.providers.get(name), self.last.get(step)
        if provider is None:
            return None
        self.last[step] = name
        if name not in planned.get("providers", ()):
            return f"{step} has {name}, which it does not name"
        if before not in (None, name) and not planned["switch_provider"]:
            return f"{step} has changed from {before} to {name}, and may not"
        if provider.limited_until > at or provider.open_until > at:
            return f"{step} has {name}, which is limited or open: {provider}"
        same = [each for each in users if self.providers[each].service == provider.service]
        if provider.open_until and same:
            return f"{step} tries the half-open {name} while others have {same}"
        self.counts["trials"] += bool(provider.open_until)
        return None

    # -- ends of runs ----------------------------------------------------------------------

    def ended(self, name: str, event: e.Event, at: int) -> None:
        """A run that had the provider has ended."""
        provider = self.providers.get(name)
        if provider is None:
            return
        answered = isinstance(event, e.RunSucceeded) and event.outcome == "done"
        failed = isinstance(event, e.RunTimedOut) and event.limit == "idle"
        if isinstance(event, e.RunFailed):
            failed = event.error_class in ("network", "timeout")
            answered = event.error_class == "budget"
            if event.error_class == "rate_limit":
                answered, failed = self._limited(provider, event, at)
        for each in self.providers.values():
            if each.service == provider.service and answered:
                self.counts["breakers closed"] += bool(each.open_until)
                each.failures = each.open_until = 0
            elif each.service == provider.service and failed:
                each.failures += 1
                if each.failures >= MAX_FAILURES:
                    self.counts["breakers opened"] += 1
                    each.open_until = at + OPEN_US

    def _limited(self, provider: ProviderRecord, event: e.RunFailed, at: int) -> tuple[bool, bool]:
        self.counts["provider limits"] += 1
        reset_at = event.reset_at
        stated = reset_at is not None and at < reset_at <= at + LONGEST_RESET_US
        until = reset_at if stated and reset_at is not None else at + MINUTE_US
        provider.limited_until = max(provider.limited_until, until)
        return stated, not stated
