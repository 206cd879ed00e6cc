"""Quotas and weights of projects: set by operators, and counted.

They are numbers of the limit `project:NAME`. Stored bytes are counted by the engine as work and
evidence arrive, and measured again by the keeper, which notices what was deleted. The output of
runs is only measured.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from detent.engine import project_usage as usage
from detent.errors import Invalid, NotFound
from detent.kernel.budget import MICRO_USD
from detent.kernel.commands import limit_commands as lc
from detent.kernel.evolve.limit import NUMBERS
from detent.limit_config import COST_USD, OF_PROJECTS, PERIODS, PROJECT, numbers_from
from detent.limit_config import NUMBERS as OF_ALL
from detent.operations import schemas
from detent.operations.context import Core
from detent.operations.limits import to_schema
from detent.operations.registry import Caller, Scope, operation
from detent.operations.resources import require_all_projects
from detent.operations.run_output import output_sizes
from detent.store.port import ReadTransaction, WriteTransaction
from detent.store.types import Query

#: The fields that can be set and cleared.
FIELDS = (*OF_ALL, *OF_PROJECTS, COST_USD)


@operation(Scope.OPERATE, "POST", "/api/projects/{name}/quota")
def set_project_quota(
    core: Core,
    caller: Caller,
    *,
    name: str,
    weight: int | None = None,
    running: int | None = None,
    rate: int | None = None,
    per_s: int | None = None,
    submit_rate: int | None = None,
    submit_per_s: int | None = None,
    stored_bytes: int | None = None,
    cost_per_day_usd: float | None = None,
    clear: Sequence[str] = (),
) -> schemas.Limit:
    """Set the weight and the quotas of a project; what is not given stays as it is.

    `clear` names fields that are removed. A quota that is lowered stops nothing that runs.
    """
    require_all_projects(caller, "quotas of projects")
    given = {
        "weight": weight,
        "running": running,
        "rate": rate,
        "per_s": per_s,
        "submit_rate": submit_rate,
        "submit_per_s": submit_per_s,
        "stored_bytes": stored_bytes,
        COST_USD: cost_per_day_usd,
    }
    numbers = numbers_from({each: value for each, value in given.items() if value is not None})
    limit = PROJECT + name
    with core.store.read() as view:
        require_project(view, name)
        row = view.rows("limits").get(limit, {})
    wanted: dict[str, Any] = {field: row[field] for field in NUMBERS if field in row}
    wanted = _without(wanted, clear, given) | numbers
    for period, of in PERIODS.items():
        if period in wanted and of not in wanted:
            raise Invalid(f"{period} needs {of}.", field=period, given=wanted[period])
    command = lc.SetLimit(limit, **wanted) if wanted else lc.EndLimit(limit)
    changed = core.engine.do(command, caller.actor)
    if "stored_bytes" in wanted:
        measure(core, [name])
    return to_schema(limit, changed)


def _without(
    wanted: Mapping[str, Any], clear: Sequence[str], given: Mapping[str, Any]
) -> dict[str, Any]:
    for field in clear:
        if field not in FIELDS or given[field] is not None:
            why = "is set and cleared" if field in FIELDS else "is not known"
            raise Invalid(
                f"clear: {field!r} {why}. Known: {', '.join(FIELDS)}.",
                field="clear",
                given=field,
                allowed=FIELDS,
            )
    gone = {"cost_per_day" if field == COST_USD else field for field in clear}
    gone |= {period for period, of in PERIODS.items() if of in gone}
    return {field: value for field, value in wanted.items() if field not in gone}


def require_project(view: ReadTransaction, name: str) -> None:
    """Raise NotFound unless the project was created or has work."""
    found = name in view.rows("projects") or any(
        view.page(Query(table, {"project": name}, limit=1)) for table in ("tasks", "jobs")
    )
    if not found:
        raise NotFound(
            f"There is no project {name!r}.",
            hint=f"See `detent projects`, or create it: `detent projects create {name}`.",
        )


# ---- what is used ------------------------------------------------------------------------------


def used(view: ReadTransaction, name: str) -> schemas.ProjectUsage:
    """What a project has used of its quotas."""
    rows, limits = view.rows(usage.TABLE), view.rows("limits").get(PROJECT + name, {})
    window = rows.get(usage.SUBMISSIONS + name, {"from": 0, "count": 0})
    over = view.now() - window["from"] >= limits.get("submit_per_s", 1) * usage.SECOND_US
    stored = usage.stored(rows.get(usage.BYTES + name, {}))
    return {
        "cost_today_usd": usage.cost_of(rows, name, view.now() // usage.DAY_US) / MICRO_USD,
        "submissions": (0 if over else window["count"]) if "submit_rate" in limits else None,
        "stored_bytes": stored if "stored_bytes" in limits else None,
    }


def measure_all(core: Core) -> int:
    """Measure the stored bytes and the output of all projects that have a quota of them."""
    limited = _limited(core)
    return measure(core, limited, output_bytes(core, limited)) if limited else 0


def _limited(core: Core) -> list[str]:
    """The projects with a quota of stored bytes."""
    with core.store.read() as view:
        limits = view.rows("limits")
    return [name.removeprefix(PROJECT) for name, row in limits.items() if "stored_bytes" in row]


def measure(core: Core, projects: Sequence[str], output: Mapping[str, int] | None = None) -> int:
    """Measure the payloads and evidence of projects; returns how many there are.

    Output stays as it was measured last unless it is given. What arrives between the measurement
    and the write is counted with the next measurement.
    """
    with core.store.read() as view:
        sizes = {name: view.stored_bytes(name) for name in projects}

    def write(tx: WriteTransaction) -> None:
        rows = tx.rows_for_update(usage.TABLE, usage.BYTES)
        before = {name: rows.get(usage.BYTES + name, {}).get("output", 0) for name in sizes}
        after = before if output is None else {name: output.get(name, 0) for name in sizes}
        tx.put_rows(
            usage.TABLE,
            {
                usage.BYTES + name: {"bytes": size, "output": after[name]}
                for name, size in sizes.items()
            },
        )

    if sizes:
        core.engine.transaction(write)
    return len(sizes)


def output_bytes(core: Core, projects: Collection[str]) -> dict[str, int]:
    """By project: the bytes of the output of its runs. Reads the sizes of all output."""
    found = dict.fromkeys(projects, 0)
    for page in output_sizes(core.store, core.settings.data_dir):
        sizes = dict(page)
        with core.store.read() as view:
            runs = list(view.runs(sizes))
            owners = {job.id: job.project for job, _ in view.jobs({run.job_id for run in runs})}
        for run in runs:
            if owners.get(run.job_id) in found:
                found[owners[run.job_id]] += sizes[run.id]
    return found
