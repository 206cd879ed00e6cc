"""Checks of a submission against the installation: intent, source, project, resources, parent."""

from collections.abc import Iterable, Mapping
from typing import Any

from detent.error_codes import CODES
from detent.errors import Invalid, NotFound
from detent.kernel.entities import Resource, Task
from detent.kernel.plan import PlanStep
from detent.kernel.resource_matching import candidates
from detent.submission.context import Context
from detent.submission.options import plan_of
from detent.submission.request import MAX_NAME
from detent.suggestions import did_you_mean

DEFAULT_PROJECT = "default"


def check_choice(value: str, allowed: Iterable[str], where: str, code: str = "invalid") -> str:
    """The value, if it is one of the allowed values; otherwise raises Invalid."""
    if value not in allowed:
        names = tuple(sorted(allowed))
        meant = did_you_mean(value, names)
        raise Invalid(
            f"{where} must be one of {', '.join(names) or 'none'}, not {value!r}.",
            code=code,
            field=where,
            given=value,
            allowed=names,
            hint=meant and f"{meant}{CODES[code].remedy}",
        )
    return value


def intent_row(context: Context, intent: str) -> Mapping[str, Any]:
    """The row of a known intent: its options and the arguments of its handler."""
    return context.intents[check_choice(intent, context.intents, "intent", "unknown_intent")]


def source_of(context: Context, given: str) -> str:
    """The source, if `intake.sources` lists it."""
    return check_choice(given, context.settings.intake_sources, "source")


def project_of(context: Context, given: object, parent_id: str | None = None) -> str:
    """The parent's project for a subtask; else the given one, the token's, or the default one."""
    if parent_id is not None:
        return _project_of_parent(context, given, parent_id)
    project = given or context.project or DEFAULT_PROJECT
    if not isinstance(project, str) or len(project) > MAX_NAME:
        raise Invalid(
            f"project must be text of at most {MAX_NAME} characters, not {given!r:.80}.",
            field="project",
            given=given,
        )
    if context.project not in (None, project):
        raise Invalid(
            f"project must be {context.project!r}, the project of this token, not {project!r}.",
            field="project",
            given=project,
        )
    if context.settings.intake_projects_locked:
        with context.store.read() as view:
            check_choice(project, view.rows("projects"), "project")
    return project


def _project_of_parent(context: Context, given: object, parent_id: str) -> str:
    parent = _task(context, parent_id)
    if given not in (None, parent.project):
        raise Invalid(
            f"project must be {parent.project!r}, the project of the parent task, not {given!r}.",
            field="project",
            given=given,
            allowed=(parent.project,),
        )
    return parent.project


def _task(context: Context, task_id: str) -> Task:
    with context.store.read() as view:
        for task, _ in view.tasks([task_id]):
            if context.project in (None, task.project):
                return task
    raise NotFound(f"There is no task {task_id!r}.", code="unknown_task")


def check_resources(context: Context, options: Mapping[str, Any]) -> None:
    """Refuse a plan step that could never run: no resource offers what it requires."""
    plan = plan_of(options)
    if plan is None:
        return
    steps = [step for step in plan.steps if step.capabilities_required or step.providers]
    if not steps:
        return
    with context.store.read() as view:
        resources = list(view.resources())
    for step in steps:
        _check_providers(step, resources)
        if step.capabilities_required and not candidates(step, step.avoid, resources):
            offered = sorted({each for resource in resources for each in resource.capabilities})
            raise Invalid(
                f"step {step.name} requires {', '.join(step.capabilities_required)}, which no "
                f"resource offers. Offered: {', '.join(offered) or 'nothing'}.",
                field="capabilities_required",
                given=list(step.capabilities_required),
                allowed=offered,
            )


def _check_providers(step: PlanStep, resources: Iterable[Resource]) -> None:
    """Refuse a provider that does not exist, and a choice between accounts of persons."""
    known = {each.id: each for each in resources if each.service is not None}
    unknown = next((name for name in step.providers if name not in known), None)
    if unknown is not None:
        raise Invalid(
            f"step {step.name} names the provider {unknown!r}, which does not exist. "
            f"Known providers: {', '.join(sorted(known)) or 'none'}.",
            field="providers",
            given=unknown,
            allowed=sorted(known),
            hint=f"Write [providers.{unknown}] in the detent.toml of a worker and restart it.",
        )
    personal = [name for name in step.providers if known[name].personal]
    if len(personal) > 1:
        raise Invalid(
            f"step {step.name} names {len(personal)} personal accounts: {', '.join(personal)}. "
            "Personal accounts are not rotated.",
            field="providers",
            given=list(step.providers),
            hint="Name at most one personal account; other providers must have keys.",
        )
