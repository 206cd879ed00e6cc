"""The sequencer's low mark: every commit id up to it is sequenced, or was rolled back."""

from collections.abc import Iterable


class LowMark:
    """Advances over ids without gaps, and over a gap once no transaction can fill it.

    An id that is missing when a later one is seen belongs to a transaction that has a transaction
    id already. It is abandoned when every transaction that had one at that time has ended and a
    turn after that has not found it.
    """

    def __init__(self, value: int = 0) -> None:
        self.value = value
        self._above: set[int] = set()
        #: Of each missing id: the next transaction id when it was first missed, then None when all
        #: transactions before it have ended.
        self._missing: dict[int, int | None] = {}

    @property
    def waiting(self) -> bool:
        """Whether there are gaps, so that `note` needs the state of transactions."""
        return bool(self._above)

    def add(self, sequenced: Iterable[int]) -> None:
        """What a turn has sequenced."""
        self._above.update(each for each in sequenced if each > self.value)
        self._advance(set())

    def note(self, sequenced: Iterable[int], oldest: int, following: int) -> None:
        """The same of a turn that read all commits, and transaction ids of a query after it.

        `oldest` is the lowest transaction id that was still running; `following` is the next one. A
        turn that another process had, or that ended at its maximum, must not be noted.
        """
        self._above.update(each for each in sequenced if each > self.value)
        for each in [each for each in self._missing if each in self._above]:
            del self._missing[each]
        abandoned = {each for each, since in self._missing.items() if since is None}
        for each, since in self._missing.items():
            if since is not None and oldest >= since:
                self._missing[each] = None
        for each in range(self.value + 1, max(self._above, default=0)):
            if each not in self._above:
                self._missing.setdefault(each, following)
        self._advance(abandoned)

    def _advance(self, abandoned: set[int]) -> None:
        while (candidate := self.value + 1) in self._above or candidate in abandoned:
            self.value = candidate
            self._above.discard(candidate)
            self._missing.pop(candidate, None)
