"""Finds a lifecycle by the name that a command line gives: shipped or installed."""

from detent.cli.connection import connect
from detent.kernel import lifecycle_document
from detent.kernel.lifecycle import Lifecycle, normalise
from detent.task_lifecycles import all_lifecycles


def find_lifecycle(name: str) -> Lifecycle:
    """Return the lifecycle `NAME`, in its newest version, or the version `NAME@2`."""
    known = all_lifecycles().get(normalise(name).removesuffix("@1"))
    if known is not None:
        return known
    with connect() as detent:
        found = detent.call("show_lifecycle_document", name=name)
    return lifecycle_document.read(found["document"])
