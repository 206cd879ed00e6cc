"""The events of the log as versioned values, named in the past tense.

An event carries only what happened; where (stream, subject), when and by whom is in its
envelope, `Record`. A job's stream holds the events of its runs, steps, waits and checkpoints; a
task has a stream of its own, and so has the installation, for its pauses and limits, and for its
lifecycles.
"""

# Every name of the modules below is a name of this one: an event is found as `events.RunStarted`.
from detent.kernel.events.installed_lifecycle import *  # noqa: F403
from detent.kernel.events.job import *  # noqa: F403
from detent.kernel.events.limit import *  # noqa: F403
from detent.kernel.events.record import EVENTS as EVENTS
from detent.kernel.events.record import Event as Event
from detent.kernel.events.record import Record as Record
from detent.kernel.events.record import level_of as level_of
from detent.kernel.events.record import may_count_round as may_count_round
from detent.kernel.events.run import *  # noqa: F403
from detent.kernel.events.step import *  # noqa: F403
from detent.kernel.events.task import *  # noqa: F403
