"""The five lifecycles, one file each, and the way to find one by its name. Data only."""

from collections.abc import Mapping

from detent.errors import NotFound
from detent.kernel.lifecycle import Lifecycle, normalise
from detent.kernel.lifecycles.board import BOARD
from detent.kernel.lifecycles.job import JOB
from detent.kernel.lifecycles.review import REVIEW
from detent.kernel.lifecycles.run import RUN
from detent.kernel.lifecycles.step import STEP

LIFECYCLES: Mapping[str, Lifecycle] = {each.name: each for each in (BOARD, REVIEW, JOB, STEP, RUN)}


def lifecycle(name: str) -> Lifecycle:
    """The lifecycle of that name, in any letter case."""
    found = LIFECYCLES.get(normalise(name))
    if found is None:
        raise NotFound(
            f"There is no lifecycle {name!r}. Known: {', '.join(LIFECYCLES)}.",
            code="unknown_lifecycle",
            known=LIFECYCLES,
        )
    return found
