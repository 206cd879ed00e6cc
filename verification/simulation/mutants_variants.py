"""Broken choices between the variants of a task."""

from unittest.mock import patch

from detent.kernel import commands as c
from detent.kernel import couplings, decide
from detent.kernel import events as e
from detent.kernel.decide.variant_choice import choose_variant
from detent.kernel.draft import Draft
from detent.kernel.variants import CHOSEN
from verification.mutant import Patches


def other_variants_go_on() -> Patches:
    """The variants that were not chosen are not cancelled."""
    assert isinstance(couplings.COUPLINGS, dict)
    yield patch.dict(couplings.COUPLINGS, {e.VariantChosen: ()})


def second_variant_is_chosen() -> Patches:
    """A choice does not check whether another variant was chosen before."""

    def forgetful(draft: Draft, command: c.ChooseVariant) -> str:
        task = draft.find_task(command.task_id)
        if task is not None and CHOSEN in task.options:
            others = {name: value for name, value in task.options.items() if name != CHOSEN}
            draft.tasks[task.id] = task._replace(options=others)
        return choose_variant(draft, command)

    assert isinstance(decide.HANDLERS, dict)
    yield patch.dict(decide.HANDLERS, {c.ChooseVariant: forgetful})


VARIANTS = (other_variants_go_on, second_variant_is_chosen)
