"""The units that are shipped: each starts a command that exists, and none is left open."""

from pathlib import Path

import pytest

from detent.cli.main import COMMANDS
from detent.settings import Settings

UNITS = sorted((Path(__file__).parents[2] / "deploy" / "systemd").glob("*.service"))
CLOSED = {
    "NoNewPrivileges": "yes",
    "CapabilityBoundingSet": "",
    "ProtectSystem": "strict",
    "ProtectHome": "yes",
    "PrivateTmp": "yes",
    "PrivateDevices": "yes",
    "ProtectKernelModules": "yes",
    "ProtectKernelTunables": "yes",
    "ProtectControlGroups": "yes",
    "RestrictSUIDSGID": "yes",
    "LockPersonality": "yes",
    "StateDirectoryMode": "0700",
    "UMask": "0077",
    "User": "detent",
}


def settings_of(unit: Path) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in unit.read_text("utf-8").splitlines():
        if "=" in line and not line.startswith("#"):
            name, _, value = line.partition("=")
            found.setdefault(name, []).append(value)
    return found


def test_there_is_a_unit_for_each_part() -> None:
    commands = {settings_of(unit)["ExecStart"][0].split()[1] for unit in UNITS}
    assert commands == {"up", "serve", "worker", "keeper"}
    assert commands <= set(COMMANDS)


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_a_unit_is_closed(unit: Path) -> None:
    settings = settings_of(unit)
    assert {name: settings[name] for name in CLOSED} == {
        name: [value] for name, value in CLOSED.items()
    }
    assert "SystemCallFilter" in settings
    assert "root" not in settings["User"]


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_a_stop_lets_running_work_end(unit: Path) -> None:
    """Only the main process gets SIGTERM; the others have its grace, which is shorter than ours."""
    settings = settings_of(unit)
    assert settings["KillMode"] == ["mixed"]
    assert int(settings["TimeoutStopSec"][0]) * 1_000 > 2 * Settings().worker_grace_ms
    assert "store" not in " ".join(settings["Environment"]).lower().replace("detent_store_data", "")


@pytest.mark.parametrize("name", ["detent.service", "detent-worker@.service"])
def test_a_unit_that_starts_programs_lets_the_sandbox_make_its_network(name: str) -> None:
    """bubblewrap configures the loopback of a new network over netlink."""
    unit = next(each for each in UNITS if each.name == name)
    assert "AF_NETLINK" in settings_of(unit)["RestrictAddressFamilies"][0].split()
