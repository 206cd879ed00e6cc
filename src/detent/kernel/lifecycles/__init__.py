"""The lifecycles of jobs, plan steps and runs, one file each. Data only.

Lifecycles of tasks are documents: see `detent.task_lifecycles`.
"""

from collections.abc import Mapping

from detent.kernel.lifecycle import Lifecycle
from detent.kernel.lifecycles.job import JOB
from detent.kernel.lifecycles.run import RUN
from detent.kernel.lifecycles.step import STEP

LIFECYCLES: Mapping[str, Lifecycle] = {each.name: each for each in (JOB, STEP, RUN)}
