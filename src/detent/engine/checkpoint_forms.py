"""Forms of decisions about checkpoints of plain jobs, so that the kernel decides once for many.

A form is derived from two probes, as in `job_forms`. The two jobs have different numbers of earlier
checkpoints. Checkpoints of different jobs, names and versions are groups in the body of one commit,
in the text that the general path writes.
"""

from functools import lru_cache
from typing import NamedTuple

from detent.engine.job_forms import MAX_FORMS, NoForm, Probe, Recorded, is_markable, probe
from detent.errors import DetentError
from detent.kernel.entities import Checkpoint
from detent.store import commit_body
from detent.store.event_template import SECOND, VALUE
from detent.store.job_sets import NewCheckpoint
from detent.store.types import Changes

#: What may be written for a checkpoint; everything else must be empty.
WRITTEN = {"entries", "versions", "jobs", "unchanged", "checkpoints"}


class CheckpointForm(NamedTuple):
    """What the kernel decides about every checkpoint of one signature."""

    #: The text of its group: after the version, after the name, and after the value.
    after_version: str
    after_name: str
    after_value: str
    #: The columns of its row.
    kind: str
    step: str | None
    done: bool

    def written(
        self, job_id: str, version: int, name: str, name_text: str, value_text: str
    ) -> NewCheckpoint:
        """A checkpoint; `version` is that of its event, the last two are JSON texts."""
        after_version, after_name, after_value, kind, step, done = self
        text = (
            f'["{job_id}",{version},{after_version}{name_text}{after_name}{value_text}{after_value}'
        )
        row = (job_id, name, kind, step, done, value_text)
        return tuple.__new__(NewCheckpoint, (row, version - 1, text))


@lru_cache(MAX_FORMS)
def checkpoint_form_of(signature: Recorded) -> CheckpointForm | None:
    """The form of the decisions of a signature; None if there is none."""
    if not is_markable(signature):
        return None
    try:
        form, other = (_form(probe(signature, number)) for number in (0, 1))
    except (NoForm, DetentError):
        return None
    return form if form == other else None


def _form(decided: Probe) -> CheckpointForm:
    changes, job = decided.changes, decided.job
    written = {name for name, rows in zip(Changes._fields, changes, strict=True) if rows}
    if job is None or decided.answer is not None or written != WRITTEN:
        raise NoForm
    if [each.id for each in changes.jobs] != [job.id] or changes.unchanged != {job.id}:
        raise NoForm
    (checkpoint,), (entry,) = changes.checkpoints, changes.entries
    kind, step, done = checkpoint.kind, checkpoint.step, checkpoint.done
    if checkpoint != Checkpoint(job.id, SECOND, kind, done, VALUE, step):
        raise NoForm
    text = commit_body.encode([entry], decided.now)[0].text[1:-1]
    begin = f'["{job.id}",{entry.version},'
    head, name, rest = text.removeprefix(begin).partition(f'"{SECOND}"')
    middle, value, tail = rest.partition(f'"{VALUE}"')
    if not (text.startswith(begin) and name and value) or VALUE in tail or SECOND in tail:
        raise NoForm
    return CheckpointForm(head, middle, tail, kind, step, done)
