"""Commands that start detent: `init`, `up`, `serve`, `worker`, `keeper`."""

import shlex
import shutil
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from detent import program_log
from detent.cli import output
from detent.cli.connection import Direct
from detent.cli.dashboard import login_link
from detent.cli.target import load_local
from detent.errors import Misconfigured, Refused
from detent.settings import FILE_NAME, TOKEN_FILE

#: The intent of the example: it needs no payload and costs nothing.
EXAMPLE_INTENT = "runQA"
EXAMPLE_BODY = (
    f'{{"source":"api","intent":"{EXAMPLE_INTENT}","priority":"P0","payload":{{"project":"demo"}}}}'
)
STARTER_FILE = """\
# detent's configuration. `detent config show` shows where each value comes from.

[gateway]
port = 5680

[worker]
concurrency = 8

# How each intent (task type) runs: exactly one of command, agent or app.
[intents.runQA]
command = ["{python}", "-m", "detent.qa"]
retry = {{ retries = 0 }}

[intents.fixBug]
agent = "claude"
prompt = "Fix this bug: {{payload}}"

[intents.refactor]
agent = "claude"
prompt = "Refactor as asked: {{payload}}"

[intents.review]
agent = "claude"
prompt = "Review this: {{payload}}"

[intents.summarize]
agent = "claude"
prompt = "Summarize this: {{payload}}"

[intents.optimizeSelf]
agent = "claude"
prompt = "Improve your own instructions: {{payload}}"
"""


@click.command()
@click.argument("directory", default=".", type=click.Path(file_okay=False, path_type=Path))
@output.json_option
def init(directory: Path, as_json: bool) -> None:
    """Write a starter detent.toml to edit."""
    file = directory / FILE_NAME
    if file.exists():
        raise Refused(f"{file} exists already.", hint="Edit it, or move it away first.")
    directory.mkdir(parents=True, exist_ok=True)
    file.write_text(STARTER_FILE.format(python=sys.executable), "utf-8")
    if as_json:
        output.print_json({"file": str(file)})
    else:
        output.print_text(f"Wrote {file}. Start with: detent up")


Decorator = Callable[[Callable[..., None]], Callable[..., None]]


def _options(*options: Decorator) -> Decorator:
    """Combine options into one decorator; `--help` lists them in this order."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


_common_options = _options(
    click.option(
        "--data-dir",
        "store_data_dir",
        help="The data directory; default .detent beside detent.toml.",
    ),
    click.option("--store", "store_url", help="The store: a path, or postgresql://…"),
    output.json_option,
)
_gateway_options = _options(
    click.option("--host", "gateway_host", help="The address to listen on; default 127.0.0.1."),
    click.option("--port", "gateway_port", type=int, help="The port to listen on; default 5680."),
    click.option(
        "--public",
        "gateway_public",
        is_flag=True,
        default=None,
        help="Allow an address other than loopback.",
    ),
)
_worker_options = _options(
    click.option(
        "--app",
        "apps",
        multiple=True,
        metavar="MODULE:APP",
        help="A Python app whose intents the worker runs; may be repeated.",
    ),
    click.option(
        "--concurrency",
        "worker_concurrency",
        type=int,
        help="How many jobs run at the same time; default 8.",
    ),
)


@click.command()
@_worker_options
@_gateway_options
@_common_options
def up(apps: tuple[str, ...], **flags: Any) -> None:
    """Run the gateway, a worker and a keeper in one process."""
    _run(flags, gateway=True, worker=True, keeper=True, apps=apps)


@click.command()
@_worker_options
@click.option("--once", is_flag=True, help="Run the queued jobs, then exit.")
@click.option("--reload", is_flag=True, help="Restart when a source file of the app changes.")
@_common_options
def worker(apps: tuple[str, ...], once: bool, reload: bool, **flags: Any) -> None:
    """Run only a worker; any number can run, on any machine."""
    if once and reload:
        raise click.UsageError("--once and --reload cannot be combined.")
    if reload:
        _run_reloading(flags, apps)
    else:
        parts = {"gateway": False, "worker": True, "keeper": False, "apps": apps}
        _run(flags, until=_is_drained if once else None, **parts)


def _is_drained(service: Any) -> bool:
    from detent.worker.run_until_idle import drained

    return drained(service.worker)


def _run_reloading(flags: dict[str, Any], apps: tuple[str, ...]) -> None:
    """Run a worker and restart it when a file changes, also after a failed import of the app."""
    from detent.cli import reload

    sources = reload.SourceWatch()
    parts = {"gateway": False, "worker": True, "keeper": False, "apps": apps}
    try:
        changed = _run(flags, until=lambda _: sources.changed(), **parts)
    except Misconfigured as error:
        if error.setting != "app":
            raise
        output.print_error(error)
        reload.wait_for_change(Path.cwd(), sources.began_ns)
        changed = True
    if changed:
        reload.restart_process()


@click.command()
@_gateway_options
@_common_options
def serve(**flags: Any) -> None:
    """Run only a gateway."""
    _run(flags, gateway=True, worker=False, keeper=False)


@click.command()
@_common_options
def keeper(**flags: Any) -> None:
    """Run only a keeper (scheduler and maintenance); one is active, others stand by."""
    _run(flags, gateway=False, worker=False, keeper=True)


def _run(
    flags: dict[str, Any], *, until: Callable[[Any], bool] | None = None, **parts: Any
) -> bool:
    """Run the parts until a signal arrives or `until` is true; True if `until` ended it."""
    from detent.service import WAIT_FOR_STORE_S, Service, open_core, run_until_stopped

    as_json = flags.pop("as_json", False)
    sys.path.insert(0, str(Path.cwd()))  # apps are imported from here
    loaded = load_local(flags)
    program_log.set_up(loaded.settings)
    with open_core(loaded, WAIT_FOR_STORE_S) as core:
        service = Service(core, **parts)
        return run_until_stopped(
            service,
            ready=lambda: _print_ready(service, loaded.settings.data_dir, as_json),
            finished=lambda: until is not None and until(service),
            stopping=lambda: _print_stopping(service, as_json),
        )


def _print_stopping(service: Any, as_json: bool) -> None:
    """Print how long the stop can take; the terminal may be gone, which must not prevent it."""
    if as_json:
        return
    text = "Stopping."
    if service.worker is not None:
        grace_s = service.core.settings.worker_grace_ms / 1_000
        text += f" Running jobs have {grace_s:g} s to finish."
    with suppress(OSError):
        output.print_note(f"{text} Press Ctrl-C again to exit immediately.")


def _print_ready(service: Any, data_dir: Path, as_json: bool) -> None:
    if as_json:
        output.print_json({"data_dir": str(data_dir), "url": service.url})
        return
    output.print_text(f"Data: {data_dir}")
    if service.url is None:
        output.print_text("Ready. Press Ctrl-C to stop.")
        return
    output.print_text(
        f"Ready: {service.url}  (press Ctrl-C to stop)\n"
        f"Dashboard: {_dashboard_link(service)}\n"
        f"Token: {data_dir / TOKEN_FILE}"
    )
    if service.core.intents:
        output.print_text(example(service, data_dir / TOKEN_FILE))


def _dashboard_link(service: Any) -> str:
    """The dashboard's URL with a login code; without one if the owner's token was revoked."""
    try:
        link = login_link(service.url, Direct(service.core))
    except Refused:
        return f"{service.url}/  (sign in with a code: POST /api/login/codes with a valid token)"
    again = f"`{own_command()} dashboard`"
    more = f"(the link works once, within a minute; {again} prints a new one)"
    return f"{link}\n       {more}"


def example(service: Any, token: Path) -> str:
    """Example commands. Other intents may need a payload or cost money: they are only listed."""
    detent = own_command()
    if EXAMPLE_INTENT not in service.core.intents:
        return f"\nTry:   {detent} intents    # the task types that you can submit"
    return (
        f"\nTry:   curl -X POST {service.url}/add -H 'Content-Type: application/json' \\\n"
        f'         -H "Authorization: Bearer $(cat {token})" \\\n'
        f"         -d '{EXAMPLE_BODY}'\n"
        f"       {detent} tasks"
    )


def own_command() -> str:
    """The command with which a shell runs this detent: its path if it is not the one on PATH."""
    own = Path(sys.argv[0])
    found = shutil.which("detent")
    if own.name != "detent" or (found is not None and Path(found).samefile(own)):
        return "detent"
    return shlex.quote(str(own))
