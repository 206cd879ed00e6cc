"""What an administrator of one project sees of people, and may do."""

from dataclasses import replace

import pytest

from detent.engine import Engine
from detent.errors import Forbidden, NotFound
from detent.operations.context import Core
from detent.operations.registry import OWNER, Caller
from detent.operations.tokens import create_token
from detent.operations.users import Identity, list_users, remove_user, sign_in
from detent.settings import Settings
from detent.store.memory import MemoryStore
from detent.testing.clock import VirtualClock

ROLES = ("user:ada=reviewer:web", "user:ada=admin:shop", "user:bob=viewer:web", "user:eve=viewer")
OF_WEB = Caller("admin", project="web")


@pytest.fixture
def core() -> Core:
    store = MemoryStore(VirtualClock())
    made = Core(store, Engine(store), Settings(oidc_roles=ROLES))
    for name in ("ada", "bob", "eve"):
        sign_in(made, Identity("https://id.example", name, name, ()))
    return made


def test_roles_in_other_projects_are_not_listed(core: Core) -> None:
    shown = {each["name"]: each["roles"] for each in list_users(core, OF_WEB)["items"]}
    assert shown == {"ada": ["reviewer:web"], "bob": ["viewer:web"]}
    everyone = {each["name"]: each["roles"] for each in list_users(core, OWNER)["items"]}
    assert everyone["ada"] == ["reviewer:web", "admin:shop"]


def test_a_person_with_roles_elsewhere_is_not_removed(core: Core) -> None:
    with pytest.raises(Forbidden, match="ada has roles outside project 'web' too"):
        remove_user(core, OF_WEB, name="ada")
    with pytest.raises(NotFound):
        remove_user(core, OF_WEB, name="eve")
    assert remove_user(core, OF_WEB, name="bob")["ended_sessions"] == 1
    assert [each["name"] for each in list_users(core, OWNER)["items"]] == ["ada", "eve"]
    assert remove_user(core, OWNER, name="ada")["ended_sessions"] == 1


def test_an_administrator_of_a_project_takes_no_name_of_a_person(core: Core) -> None:
    with_provider = replace(core.settings, oidc_issuer="https://id.example")
    by_mail = Core(core.store, core.engine, with_provider)
    with pytest.raises(Forbidden, match=r"'new@x\.example' may be the name of a person") as refused:
        create_token(by_mail, OF_WEB, name="new@x.example", scopes=["read"])
    assert "Use a name with a colon, such as web:ci." in str(refused.value.hint)
    assert create_token(by_mail, OF_WEB, name="ci", scopes=["read"])["project"] == "web"
    assert create_token(by_mail, OWNER, name="old@x.example", scopes=["read"])["project"] is None

    by_user_name = Core(core.store, core.engine, replace(with_provider, oidc_name_claim="login"))
    with pytest.raises(Forbidden, match="'zoe' may be the name of a person"):
        create_token(by_user_name, OF_WEB, name="zoe", scopes=["read"])
    assert create_token(by_user_name, OF_WEB, name="web:zoe", scopes=["read"])["name"] == "web:zoe"
    assert create_token(core, OF_WEB, name="zoe@x.example", scopes=["read"])["project"] == "web"


def test_an_expired_token_does_not_keep_a_person_from_signing_in() -> None:
    clock = VirtualClock()
    store = MemoryStore(clock)
    core = Core(store, Engine(store), Settings(oidc_roles=ROLES))
    create_token(core, OWNER, name="bob", scopes=["read"], expires_in_s=60)
    bob = Identity("https://id.example", "bob", "bob", ())
    with pytest.raises(Forbidden, match="belongs to a token"):
        sign_in(core, bob)
    clock.advance(seconds=61)
    assert sign_in(core, bob)
