"""From the body of a submission to a command: every field checked by name, with what is allowed."""

from collections.abc import Mapping
from typing import Any

from detent.errors import Invalid
from detent.ids import OWN_ID
from detent.kernel import commands as c
from detent.kernel.budget import budget_from
from detent.kernel.lifecycle import normalise
from detent.kernel.priority import priority_from
from detent.operations.core import Core, known
from detent.operations.options import checked_options, with_key
from detent.operations.plan_steps import NEEDS_PLAN, Intents, with_steps
from detent.operations.registry import Caller

DEFAULT_PROJECT = "default"
MOST_DEPENDENCIES = 100
MOST_TAGS = 50
LONGEST_NAME = 200
LONGEST_TITLE = 500


def command_from(
    core: Core,
    caller: Caller,
    task_id: str,
    body: Mapping[str, Any],
    intents: Mapping[str, Mapping[str, Any]],
) -> c.SubmitTask:
    """The command that a body asks for."""
    intent = known(text(body, "intent"), intents, "intent", "unknown_intent")
    lifecycle = known(
        normalise(text(body, "lifecycle", "review")), ("board", "review"), "lifecycle"
    )
    budget = body.get("max_budget_usd", intents[intent].get("max_budget_usd"))
    return c.SubmitTask(
        task_id=task_id,
        project=_project(core, caller, body),
        lifecycle=lifecycle,
        intent=intent,
        source=known(text(body, "source", "api"), core.settings.intake_sources, "source"),
        priority=priority_from(body.get("priority", "P2")).value,
        title=text(body, "title", "", LONGEST_TITLE),
        payload=body.get("payload"),
        tags=texts(body, "tags", MOST_TAGS),
        parent_id=body.get("parent_id"),
        depends_on=texts(body, "depends_on", MOST_DEPENDENCIES),
        budget=None if budget is None else budget_from(budget),
        options=options_for(
            intents, intent, body.get("options") or {}, lifecycle, body.get("payload")
        ),
        queue=bool(body.get("run", False)),
    )


def options_for(
    intents: Intents, intent: str, given: Mapping[str, Any], lifecycle: str, payload: Any
) -> dict[str, Any]:
    """The options of a submission with this payload, which may be a part of its concurrency key."""
    defaults = intents[intent]
    checked = options_from(defaults, given, lifecycle)
    if defaults.get(NEEDS_PLAN):
        must_bring_plan(checked)
    return with_key(with_steps(checked, intent, intents), defaults, given, payload)


def must_bring_plan(options: Mapping[str, Any]) -> None:
    """Of an intent that nobody carries out by itself: seen now, not at its first run."""
    if "plan" not in options:
        raise Invalid(
            "options.plan is missing: the intent does no work of its own, only that of a plan's "
            "steps.",
            field="options.plan",
            hint="Give the submission a plan (`detent submit plan --plan FILE`), or name the "
            "intent that is to be done.",
        )


def options_from(
    defaults: Mapping[str, Any], given: Mapping[str, Any], lifecycle: str = "job"
) -> dict[str, Any]:
    """Options over an intent's defaults, all checked; an intent's concurrency key is a template."""
    plain = {name: value for name, value in defaults.items() if name != "concurrency_key"}
    return checked_options(plain, given, lifecycle)


def own_id(given: object, where: str) -> str:
    """A caller's own id, if it has the right form."""
    if isinstance(given, str) and OWN_ID.fullmatch(given):
        return given
    form = "1 to 100 of letters, digits, . _ : -, not ending like -j1 or -r1"
    raise Invalid(
        f"{where} must be {form}, not {given!r}.", field=where, given=given, allowed=(form,)
    )


def _project(core: Core, caller: Caller, body: Mapping[str, Any]) -> str:
    """A subtask belongs to its parent's project; anything else to the one that it names."""
    parent_id = body.get("parent_id")
    if parent_id is None:
        return project_from(core, caller, body.get("project"))
    parent, _ = core.task(caller, parent_id)
    given = body.get("project")
    if given not in (None, parent.project):
        raise Invalid(
            f"A subtask belongs to its parent's project, {parent.project!r}.",
            field="project",
            given=given,
            allowed=(parent.project,),
        )
    return parent.project


def project_from(core: Core, caller: Caller, given: object) -> str:
    """The project that a submission is for: the named one, the token's, or the default one."""
    if given is not None and not isinstance(given, str):
        raise Invalid("project must be a text.", field="project", given=given)
    project = text({"project": given or caller.project or DEFAULT_PROJECT}, "project")
    if caller.project not in (None, project):
        raise Invalid(
            f"This token is for project {caller.project!r} only.", field="project", given=project
        )
    if core.settings.intake_projects_locked:
        with core.store.read() as view:
            known(project, view.rows("projects"), "project")
    return project


def text(
    body: Mapping[str, Any], name: str, default: str | None = None, longest: int = LONGEST_NAME
) -> str:
    """A text of a body, which must be there unless it has a default."""
    value = body.get(name, default)
    if value is None:
        raise Invalid(f"{name} is missing.", field=name)
    if not isinstance(value, str) or len(value) > longest:
        raise Invalid(
            f"{name} must be a text of at most {longest} characters.", field=name, given=value
        )
    return value


def texts(body: Mapping[str, Any], name: str, most: int) -> tuple[str, ...]:
    """A list of texts of a body, each once."""
    values = body.get(name, ())
    if isinstance(values, str) or not all(isinstance(each, str) and each for each in values):
        raise Invalid(f"{name} must be a list of texts.", field=name, given=values)
    if len(values) > most:
        raise Invalid(f"{name} has more than {most} entries.", field=name, given=len(values))
    return tuple(dict.fromkeys(values))
