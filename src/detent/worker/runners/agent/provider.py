"""The provider of an agent's run: the resource that its step holds, with variables and a key."""

import json

from detent.app.failures import ResourceFailed
from detent.errors import Misconfigured
from detent.operations.context import Core
from detent.provider_config import Provider
from detent.redaction import is_secret_name, remember, resolve
from detent.worker.active_run import ActiveRun

#: How the names of variables end that have the address of a service.
ADDRESS = "_BASE_URL"


def provider_of(run: ActiveRun, core: Core) -> Provider | None:
    """The provider that the run uses, None if its step names none.

    A provider that this worker does not know is a failed resource: another one is tried.
    """
    name = run.resource or ""
    found = core.providers.get(name)
    if found is None and run.step is not None and run.step.providers:
        raise ResourceFailed(
            f"the provider {name} is not configured on this worker: write [providers.{name}] in "
            "its detent.toml, then restart it"
        )
    return found


def is_neutral(variable: str) -> bool:
    """Whether the name of a variable is that of neither a key nor the address of a service."""
    return not is_secret_name(variable) and not variable.endswith(ADDRESS)


def provider_environment(provider: Provider) -> dict[str, str]:
    """The variables of the provider and its key. A missing secret is a failed resource."""
    made = dict(provider.variables)
    for name, reference in provider.secrets.items():
        try:
            made[name] = resolve(reference, f"providers.{provider.name}.secrets.{name}")
        except Misconfigured as error:
            raise ResourceFailed(str(error)) from None
        remember([made[name], json.dumps(made[name])[1:-1]])
    return made
