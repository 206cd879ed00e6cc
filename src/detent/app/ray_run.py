"""RayRun: the run context of a function that is executed on a Ray cluster."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from detent.app.values import storable
from detent.errors import Invalid
from detent.kernel import document_fields


@dataclass(frozen=True, slots=True)
class RayRun:
    """The run, as its function on a Ray node sees it. A parameter named `run` gets it.

    The function has no connection to the store of detent: durable steps, waits and questions
    are for handlers on a detent worker, which can submit the function as a subtask.
    """

    #: The id of this run.
    id: str
    #: The id of the job that this run belongs to.
    job_id: str
    #: The id of the task; None for a job that was submitted without one.
    task_id: str | None
    #: The project of the job.
    project: str
    #: The number of the attempt that has started the function, from 1.
    attempt: int
    #: Grows with every claim of the job: pass it with writes to other systems.
    fence: int
    #: The payload of the job, as JSON values.
    payload: Any
    #: In a plan: the results of the plan steps that this one needs, by name.
    results: Mapping[str, Any] = field(default_factory=dict)
    #: The evidence so far, by name.
    files: dict[str, bytes] = field(default_factory=dict, repr=False)

    def evidence(self, name: str, content: Any) -> None:
        """Keep a file with the run as evidence; it is sent to detent when the function ends.

        `content` is a Path, bytes, text, or a value that is written as JSON.

        ```python
        kept = RayRun("run-1", "job-1", None, "demo", attempt=1, fence=1, payload={})
        kept.evidence("loss.json", [0.5, 0.25])
        assert list(kept.files) == ["loss.json"]
        ```
        """
        document_fields.text(name, "name", 200)
        if "/" in name or name.startswith("."):
            raise Invalid(f"{name!r} is not a plain file name.", field="name", given=name)
        self.files[name] = _bytes(name, content)


def _bytes(name: str, content: Any) -> bytes:
    if isinstance(content, Path):
        return content.read_bytes()
    if isinstance(content, bytes | bytearray):
        return bytes(content)
    if isinstance(content, str):
        return content.encode()
    return json.dumps(storable(content, f"evidence {name}"), ensure_ascii=False, indent=1).encode()
