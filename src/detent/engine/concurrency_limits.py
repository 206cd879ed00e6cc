"""Concurrency limits, rate limits and pauses of intents, projects and keys, applied by a claim.

A limit is a row of the table `limits`: `intent:NAME`, `project:NAME` or `key:NAME` with any of
`{"running": maximum}`, `{"rate": maximum, "per_s": seconds}` and `{"paused": true}`; of a project
also the quotas of `project_usage` and the weight of `known_limits`. `all` pauses
everything, `worker:NAME` pauses the claims of one worker. A pause holds until its end is in the
log, also after it has expired. A concurrency key without a row allows one running job.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from detent.engine.project_usage import spent
from detent.kernel.evolve.limit import is_over
from detent.store.port import WriteTransaction
from detent.store.types import Candidate

SECOND_US = 1_000_000
#: The prefix of the rows of `system_state` with the window of a rate; the limit's name follows.
RATE_PREFIX = "rate:"


def expired(rows: Mapping[str, Any], now: int) -> list[str]:
    """The names of expired pauses."""
    return [name for name, row in rows.items() if is_over(row, now)]


class ConcurrencyLimits:
    """Decides which candidates of a claim may start. Without any limit it costs one small read."""

    def __init__(self, tx: WriteTransaction, worker: str) -> None:
        self.tx = tx
        # The first read of the claim: on PostgreSQL the transaction begins with it.
        self.rows: Mapping[str, Any] = tx.rows_held("limits")
        now = tx.now()
        #: Whether a pause is over whose end is not in the log yet.
        self.over = bool(expired(self.rows, now))
        stops = (self.rows.get("all", {}), self.rows.get(f"worker:{worker}", {}))
        self.paused = any(row.get("paused") for row in stops)
        self.maximum = {name: row["running"] for name, row in self.rows.items() if "running" in row}
        limited = {name for name, row in self.rows.items() if "running" in row or "rate" in row}
        # This read also locks the keys: other claims under them wait for this transaction.
        self.running = Counter(tx.lease_counts(sorted(limited))) if limited else Counter()
        self.rates = _Rates(tx, self.rows, now)
        #: Projects that have reached their cost per day.
        self.spent = spent(self.rows, tx)

    def closed(self) -> tuple[list[str], list[str], list[str]]:
        """Return the intents, projects and concurrency keys under which no job may start now."""
        closed = [name for name, row in self.rows.items() if row.get("paused")]
        closed += [name for name, maximum in self.maximum.items() if self.running[name] >= maximum]
        closed += self.rates.exhausted()
        closed += self.spent
        return _named(closed, "intent:"), _named(closed, "project:"), _named(closed, "key:")

    def admit(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Return the candidates that may start, and count them."""
        self._count_keys(candidates)
        if not self.maximum and not self.rates.rates:
            return list(candidates)
        return [candidate for candidate in candidates if self._fits(candidate)]

    def concern(self, candidate: Candidate) -> bool:
        """Whether a limit counts this candidate, however many may start."""
        if candidate.concurrency_key:
            return True
        names = (f"intent:{candidate.intent}", f"project:{candidate.project}")
        return any(name in self.maximum or name in self.rates.rates for name in names)

    def save_rates(self) -> None:
        """Save how much of each rate is used, in the transaction of the claim."""
        self.rates.save(self.tx)

    def _count_keys(self, candidates: Iterable[Candidate]) -> None:
        own = {f"key:{each.concurrency_key}" for each in candidates if each.concurrency_key}
        new = [key for key in own if key not in self.maximum]
        self.maximum.update(dict.fromkeys(new, 1))
        self.running.update(self.tx.lease_counts(new) if new else {})

    def _fits(self, candidate: Candidate) -> bool:
        keys = [f"intent:{candidate.intent}", f"project:{candidate.project}"]
        if candidate.concurrency_key:
            keys.append(f"key:{candidate.concurrency_key}")
        if any(self.running[key] >= self.maximum[key] for key in keys if key in self.maximum):
            return False
        if not self.rates.allow(keys):
            return False
        self.running.update(key for key in keys if key in self.maximum)
        return True


class _Rates:
    """Rate limits: a maximum number of starts in each window of time, saved in `system_state`."""

    def __init__(self, tx: WriteTransaction, rows: Mapping[str, Any], now: int) -> None:
        self.rates = {name: row for name, row in rows.items() if "rate" in row}
        state = tx.rows("system_state") if self.rates else {}
        self.windows = {name: self._window(name, state, now) for name in self.rates}
        self.used: set[str] = set()

    def _window(self, name: str, state: Mapping[str, Any], now: int) -> dict[str, int]:
        """Return the current window, with the number of jobs that started in it."""
        window: dict[str, int] | None = state.get(RATE_PREFIX + name)
        length = self.rates[name].get("per_s", 1) * SECOND_US
        if window is None or not 0 <= now - window["from"] < length:
            return {"from": now, "started": 0}
        return dict(window)

    def exhausted(self) -> list[str]:
        return [name for name in self.rates if not self._has_capacity(name)]

    def allow(self, keys: Iterable[str]) -> bool:
        """Whether one more job may start under these keys; if so, count it."""
        rated = [key for key in keys if key in self.rates]
        if not all(map(self._has_capacity, rated)):
            return False
        for key in rated:
            self.windows[key]["started"] += 1
            self.used.add(key)
        return True

    def _has_capacity(self, name: str) -> bool:
        maximum: int = self.rates[name]["rate"]
        return self.windows[name]["started"] < maximum

    def save(self, tx: WriteTransaction) -> None:
        if self.used:
            tx.put_rows(
                "system_state", {RATE_PREFIX + name: self.windows[name] for name in self.used}
            )


def _named(names: Iterable[str], prefix: str) -> list[str]:
    return [name.removeprefix(prefix) for name in names if name.startswith(prefix)]
