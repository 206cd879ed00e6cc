"""Programs in containers: real podman, and an image made by mmdebstrap from Debian's packages."""

import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from detent.app.app import App
from detent.app.failures import JobFailed
from detent.app.run_interface import Stop
from detent.operations.context import Core
from detent.worker.active_run import ActiveRun
from detent.worker.runners import container
from detent.worker.runners.container import Container, remove_orphans
from tests.plugins.podman import BASE, ran
from tests.worker.test_sandbox_network import serving
from tests.worker.waiting import DEADLINE_S, installation, until, working


@pytest.fixture
def core(tmp_path: Path, podman: None) -> Iterator[Core]:
    with installation(tmp_path, worker_grace_ms=300) as made:
        yield made


def shell(script: str) -> list[str]:
    """A script for the image's shell, whose programs are all those of busybox."""
    return ["/bin/busybox", "sh", "-c", script]


def containers() -> list[str]:
    return ran(["podman", "ps", "--all", "--format={{.Names}}"]).split()


TRY = """
set -u
b=/bin/busybox
echo "data $($b ls {data})"
echo mine > made.txt
echo "cache $($b cat {cache}/wheel)"; echo x > {cache}/wheel || echo "cache is read-only"
echo x > {data}/escaped && echo "in the image only"
echo "named $($b wget -q -O - http://named.example:{named}/x)"
echo "direct $($b env -u http_proxy $b wget -q -O - http://127.0.0.1:{named}/y)"
$b wget -q -O - http://other.example/ || echo "other refused"
echo "secret $SIGNING"
$b grep Cap /proc/self/status
echo '"done"' > "$DETENT_RESULT_FILE"
"""


def test_a_command_runs_in_its_image_and_reaches_only_what_it_may(
    core: Core, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = socket.getaddrinfo

    def resolved(host: Any, *arguments: Any, **options: Any) -> Any:
        return real("127.0.0.1" if host == "named.example" else host, *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", resolved)
    monkeypatch.setenv("VAULT", "hush-4711")
    cache, data = tmp_path / "cache", core.settings.data_dir
    cache.mkdir()
    (cache / "wheel").write_text("good")
    (data / "token").write_text("secret")
    app = App()
    with serving() as named:
        script = TRY.format(data=data, cache=cache, named=named)
        hosts = [f"named.example:{named}", f"127.0.0.1:{named}"]
        app.command(
            "try",
            shell(script),
            image=BASE,
            hosts=hosts,
            caches=[str(cache)],
            secrets={"SIGNING": "env:VAULT"},
            setup=[shell("echo prepared")],
        )
        with working(core, app):
            handle = app.submit("try")
            assert handle.result(timeout=DEADLINE_S) == "done"
    run_dir = data / "runs" / f"{handle.job_id}-r1"
    output = (run_dir / "output.log").read_text()
    assert output.startswith("prepared\n")
    listed = next(line for line in output.splitlines() if line.startswith("data"))
    assert "token" not in listed
    assert (run_dir / "work" / "made.txt").read_text() == "mine\n"
    assert "cache good" in output
    assert "cache is read-only" in output
    assert (cache / "wheel").read_text() == "good"
    assert not (data / "escaped").exists()
    assert f"named {named} /x" in output
    assert f"direct {named} /y" in output
    assert "other refused" in output
    assert "[network: other.example:80 was refused" in output
    assert "secret [secret]" in output
    assert "CapBnd:\t0000000000000000" in output
    assert containers() == []


def test_limits_a_cancel_and_a_missing_image(
    core: Core, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here := tmp_path / "here").mkdir()
    monkeypatch.chdir(here)
    app = App()
    memory = shell("/bin/busybox tail /dev/zero")
    many = shell(
        "for i in 1 2 3 4 5 6 7 8; do (/bin/busybox sleep 600 &) ; done; /bin/busybox sleep 600"
    )
    app.command("memory", memory, image=BASE, limits={"memory_mb": 64})
    app.command("cpu", shell("while true; do true; done"), image=BASE, limits={"cpu_s": 1})
    app.command("processes", many, image=BASE, limits={"processes": 6})
    app.command("hang", shell("echo up; /bin/busybox sleep 600"), image=BASE)
    app.command("missing", shell("true"), image="localhost/no-such-image:1")
    with working(core, app):
        handles = {name: app.submit(name) for name in app.intents if name != "plan"}
        for name in ("memory", "cpu", "processes"):
            with pytest.raises(JobFailed) as failed:
                handles[name].result(timeout=DEADLINE_S)
            assert failed.value.error_class == "resource_limit", failed.value
            assert f"limits.{name}" in str(failed.value)
        with pytest.raises(JobFailed, match=r"image not known.*pull or build it") as unknown:
            handles["missing"].result(timeout=DEADLINE_S)
        assert unknown.value.error_class == "needs_user"
        log = core.settings.data_dir / "runs" / f"{handles['hang'].job_id}-r1" / "output.log"
        until(lambda: log.exists() and "up" in log.read_text())
        handles["hang"].cancel()
        until(lambda: handles["hang"].state() == "cancelled")
        assert containers() == []
    assert list(here.iterdir()) == []  # also after the memory of a container was exhausted


@pytest.mark.usefixtures("podman")
def test_containers_of_a_lost_worker_are_removed(
    core: Core, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = core.settings.data_dir.absolute()
    for name in ("own-r1", "lost-r1"):
        (data / "runs" / name).mkdir(parents=True)
    own = Container(BASE, "own-r1", data / "runs" / "own-r1")
    own.create(shell("/bin/busybox sleep 600"), Path("/"), {}, [], ["--network=none"])
    monkeypatch.setattr(container, "_worker_label", lambda: f"{os.getpid()}:1")
    lost = Container(BASE, "lost-r1", data / "runs" / "lost-r1")
    lost.create(shell("/bin/busybox sleep 600"), Path("/"), {}, [], ["--network=none"])
    ran(["podman", "start", lost.name])
    assert remove_orphans(data) == ["lost-r1"]
    assert containers() == [own.name]
    own.remove()


SLOW_PODMAN = """#!/bin/sh
echo "$1" >> {log}
if [ "$1" = create ]; then until [ -e {log}.go ]; do sleep 0.05; done; fi
"""


def test_a_run_that_is_cancelled_while_its_container_is_made_ends_after_this_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, program, stopped = tmp_path / "log", tmp_path / "podman", threading.Event()
    program.write_text(SLOW_PODMAN.format(log=log))
    program.chmod(0o755)
    monkeypatch.setattr(container, "_podman", lambda: str(program))
    stop = ActiveRun.stop

    def noted(run: ActiveRun, why: Stop) -> None:
        stop(run, why)
        stopped.set()

    monkeypatch.setattr(ActiveRun, "stop", noted)
    app = App()
    app.command("work", ["true"], image="any")
    # Its worker removes containers of others when it starts, which is not tested here.
    monkeypatch.setattr(container, "remove_orphans", lambda _: [])
    with installation(tmp_path / "data") as core, working(core, app):
        handle = app.submit("work")
        until(lambda: log.exists() and "create" in log.read_text())
        handle.cancel()
        assert stopped.wait(DEADLINE_S)
        Path(f"{log}.go").touch()
        until(lambda: handle.state() == "cancelled")
        until(lambda: log.read_text().split() == ["rm", "create", "rm"])
