"""Tasks of fault injection and the TLA+ model: the lifecycles they have, and what their logs say.

Two lifecycles are shipped; the third is installed from a document. The events of each task must be
steps of the model of its lifecycle, which TLC checks for many logs in one run.
"""

import tomllib
from collections.abc import Iterable
from pathlib import Path

from detent.kernel import commands as c
from detent.kernel.commands import lifecycle_commands as lc
from detent.operations.context import Core
from detent.store.log_walk import batches
from detent.store.port import Store
from verification.lifecycle_model.task_traces import Traces, records_of, traces_of
from verification.lifecycle_model.trace_check import Checked, check

RELEASE = "release"
LIFECYCLES = ("board", "review", RELEASE)
DOCUMENT = Path(__file__).with_name("release.toml")


def install_release(core: Core, actor: c.Actor) -> None:
    """Install the document; again, nothing changes. Its search is left to a test of its own."""
    document = tomllib.loads(DOCUMENT.read_text(encoding="utf-8"))
    core.engine.do(lc.InstallLifecycle(document), actor)


def traces_in(store: Store) -> Traces:
    """The traces of the tasks in a log."""
    with store.read() as view:
        return traces_of(records_of(each for piece in batches(view) for each in piece))


def follow(logs: Iterable[Traces]) -> tuple[Checked, list[str]]:
    """Check logs against the model; a problem for each transaction that is no step of it."""
    checked = check(logs)
    return checked, [f"model: {each}" for each in checked.offences]
