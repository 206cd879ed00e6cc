"""What an administrator of one project sees of people, and may do."""

import pytest

from detent.engine import Engine
from detent.errors import Forbidden, NotFound
from detent.operations.context import Core
from detent.operations.registry import OWNER, Caller
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
