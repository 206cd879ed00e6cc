"""How much more may run: limits on intents, projects and keys, held inside the claim.

A limit is a row of the table `limits`: `intent:NAME`, `project:NAME` or `key:NAME` to any of
`{"running": most}`, `{"rate": most, "per_s": seconds}` and `{"paused": true}`. `all` pauses
everything, `worker:NAME` keeps one worker from claiming. A pause holds until its end is in the log,
also when its time is over. A job's own concurrency key without a row admits one at a time.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from detent.kernel.evolve.limit import is_over
from detent.store.port import WriteTransaction
from detent.store.types import Candidate

S_US = 1_000_000
#: How the row of `system_state` begins that keeps the window of a rate; the limit's name follows.
RATE = "rate:"


def expired(rows: Mapping[str, Any], now: int) -> list[str]:
    """The names of pauses whose time is over."""
    return [name for name, row in rows.items() if is_over(row, now)]


class Room:
    """Counts what is let in; without any limit this costs one small read."""

    def __init__(self, tx: WriteTransaction, worker: str) -> None:
        self.tx = tx
        # First of all: over a connection the transaction begins together with what it asks first.
        self.rows: Mapping[str, Any] = tx.rows_held("limits")
        now = tx.now()
        #: Whether a pause is over whose end is not in the log yet.
        self.over = bool(expired(self.rows, now))
        stops = (self.rows.get("all", {}), self.rows.get(f"worker:{worker}", {}))
        self.paused = any(row.get("paused") for row in stops)
        self.most = {name: row["running"] for name, row in self.rows.items() if "running" in row}
        limited = {name for name, row in self.rows.items() if "running" in row or "rate" in row}
        # Asking also makes other claimers under the same keys wait for the end of this one.
        self.running = Counter(tx.lease_counts(sorted(limited))) if limited else Counter()
        self.rates = _Rates(tx, self.rows, now)

    def closed(self) -> tuple[list[str], list[str], list[str]]:
        """Intents, projects and concurrency keys under which nothing more may start now."""
        shut = [name for name, row in self.rows.items() if row.get("paused")]
        shut += [name for name, most in self.most.items() if self.running[name] >= most]
        shut += self.rates.spent()
        return _named(shut, "intent:"), _named(shut, "project:"), _named(shut, "key:")

    def admit(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Those that fit, counting each one that was let in."""
        self._count_keys(candidates)
        if not self.most and not self.rates.rates:
            return list(candidates)
        return [candidate for candidate in candidates if self._fits(candidate)]

    def note(self) -> None:
        """Keep how much of each rate was used, in the claim's own transaction."""
        self.rates.keep(self.tx)

    def _count_keys(self, candidates: Iterable[Candidate]) -> None:
        own = {f"key:{each.concurrency_key}" for each in candidates if each.concurrency_key}
        new = [key for key in own if key not in self.most]
        self.most.update(dict.fromkeys(new, 1))
        self.running.update(self.tx.lease_counts(new) if new else {})

    def _fits(self, candidate: Candidate) -> bool:
        keys = [f"intent:{candidate.intent}", f"project:{candidate.project}"]
        if candidate.concurrency_key:
            keys.append(f"key:{candidate.concurrency_key}")
        if any(self.running[key] >= self.most[key] for key in keys if key in self.most):
            return False
        if not self.rates.allow(keys):
            return False
        self.running.update(key for key in keys if key in self.most)
        return True


class _Rates:
    """At most so many starts in each window of time; the windows are kept in `system_state`."""

    def __init__(self, tx: WriteTransaction, rows: Mapping[str, Any], now: int) -> None:
        self.rates = {name: row for name, row in rows.items() if "rate" in row}
        state = tx.rows("system_state") if self.rates else {}
        self.windows = {name: self._window(name, state, now) for name in self.rates}
        self.used: set[str] = set()

    def _window(self, name: str, state: Mapping[str, Any], now: int) -> dict[str, int]:
        """The window that is open now, with how many have started in it."""
        window: dict[str, int] | None = state.get(RATE + name)
        length = self.rates[name].get("per_s", 1) * S_US
        if window is None or not 0 <= now - window["from"] < length:
            return {"from": now, "started": 0}
        return dict(window)

    def spent(self) -> list[str]:
        return [name for name in self.rates if not self._left(name)]

    def allow(self, keys: Iterable[str]) -> bool:
        """Whether one more may start under these keys; if so it is counted."""
        rated = [key for key in keys if key in self.rates]
        if not all(map(self._left, rated)):
            return False
        for key in rated:
            self.windows[key]["started"] += 1
            self.used.add(key)
        return True

    def _left(self, name: str) -> bool:
        most: int = self.rates[name]["rate"]
        return self.windows[name]["started"] < most

    def keep(self, tx: WriteTransaction) -> None:
        if self.used:
            tx.put_rows("system_state", {RATE + name: self.windows[name] for name in self.used})


def _named(names: Iterable[str], prefix: str) -> list[str]:
    return [name.removeprefix(prefix) for name in names if name.startswith(prefix)]
