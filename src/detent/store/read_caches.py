"""What the transactions of one store share: things that never change once they were read."""

from dataclasses import dataclass, field

from detent.store.installed_lifecycles import LifecycleCache
from detent.store.logged_commit import RecentCommits


@dataclass(slots=True)
class ReadCaches:
    commits: RecentCommits = field(default_factory=RecentCommits)
    lifecycles: LifecycleCache = field(default_factory=LifecycleCache)
