"""Providers of the configuration file, `[providers.NAME]`: what an agent needs to use each.

The worker gives an agent the variables and the key of the provider that its step holds. Secrets are
references; they are resolved when a run starts. Pure.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from detent.errors import DetentError, Misconfigured
from detent.kernel import document_fields
from detent.kernel.plan import LONGEST_NAME

KEYS = ("service", "account", "capacity", "model", "variables", "secrets")
MAX_CAPACITY = 1_000_000


class Account(StrEnum):
    """How a provider is paid for: by a key, by the account of a person, or not at all."""

    KEY = "key"
    PERSONAL = "personal"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Provider:
    """One provider: a key, or an account, of a service."""

    name: str
    service: str
    account: Account = Account.KEY
    capacity: int = 1
    model: str | None = None
    variables: Mapping[str, str] = field(default_factory=dict)
    #: Variable to reference: `env:NAME` or `file:/path`.
    secrets: Mapping[str, str] = field(default_factory=dict)

    def row(self) -> dict[str, Any]:
        """The fields of its resource. The store does not have its variables and secrets."""
        personal = self.account is Account.PERSONAL
        return {"service": self.service, "personal": personal, "capacity": self.capacity}


def providers_from(tables: Mapping[str, Any]) -> dict[str, Provider]:
    """The providers of a configuration file."""
    try:
        named = document_fields.table(tables.get("providers", {}), "providers")
        return {name: _provider(name, table) for name, table in named.items()}
    except Misconfigured:
        raise
    except DetentError as error:
        raise Misconfigured(error.message, setting="providers") from None


def _provider(name: str, given: object) -> Provider:
    where = f"providers.{name}"
    document_fields.text(name, where, LONGEST_NAME)
    table = document_fields.table(given, where, KEYS)
    model = table.get("model")
    made = Provider(
        name,
        document_fields.text(table.get("service", name), f"{where}.service", LONGEST_NAME),
        document_fields.choice(table.get("account", Account.KEY), f"{where}.account", Account),
        document_fields.whole_number(
            table.get("capacity", 1), f"{where}.capacity", 1, MAX_CAPACITY
        ),
        None if model is None else document_fields.text(model, f"{where}.model", LONGEST_NAME),
        _texts(table.get("variables", {}), f"{where}.variables"),
        _references(table.get("secrets", {}), f"{where}.secrets"),
    )
    if made.account is Account.KEY and not made.secrets:
        raise Misconfigured(
            f"{where} has no key: {where}.secrets is empty.",
            setting=f"{where}.secrets",
            hint=f'Name a reference in {where}.secrets, like {{ ANTHROPIC_API_KEY = "env:NAME" }}; '
            f'or set {where}.account to "personal" (the agent is signed in with the account of a '
            'person) or "none" (the service needs no key).',
        )
    return made


def _texts(given: object, where: str) -> dict[str, str]:
    table = document_fields.table(given, where)
    for name, value in table.items():
        if not isinstance(value, str):
            raise document_fields.wrong(f"{where}.{name}", "a string", value)
    return {name: str(value) for name, value in table.items()}


def _references(given: object, where: str) -> dict[str, str]:
    found = _texts(given, where)
    for name, text in found.items():
        kind, _, rest = text.partition(":")
        if kind not in ("env", "file") or not rest:
            wanted = "a reference, env:NAME or file:/path, never the secret itself"
            raise document_fields.wrong(f"{where}.{name}", wanted, "[hidden]")
    return found
