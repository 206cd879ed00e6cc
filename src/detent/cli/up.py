"""Commands that run detent: `init`, `up`, `serve`, `worker`, `keeper`."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from detent import program_log
from detent.cli import output
from detent.cli.connection import Direct
from detent.cli.dashboard import link_to
from detent.errors import Misconfigured, Refused
from detent.settings import FILE_NAME, TOKEN_FILE, load

EXAMPLE = '{{"source":"api","intent":"{intent}","priority":"P0","payload":{{"project":"demo"}}}}'
#: The intent of the example, where it is one.
LIKELY = "runQA"
STARTER_FILE = """\
# detent's configuration. `detent config show` says where each value comes from.

[gateway]
port = 5680

[worker]
concurrency = 8

# How each intent is carried out: exactly one of command, agent or app.
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
    """Write a starter detent.toml, to be edited."""
    file = directory / FILE_NAME
    if file.exists():
        raise Refused(f"{file} is there already.", hint="Edit it, or move it away first.")
    directory.mkdir(parents=True, exist_ok=True)
    file.write_text(STARTER_FILE.format(python=sys.executable), "utf-8")
    if as_json:
        output.print_json({"file": str(file)})
    else:
        output.say(f"Wrote {file}. Start with: detent up")


Decorator = Callable[[Callable[..., None]], Callable[..., None]]


def _options(*options: Decorator) -> Decorator:
    """Several options as one decorator; help lists them in this order."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


_of_all = _options(
    click.option("--data-dir", "store_data_dir", help="Directory for the data."),
    click.option("--store", "store_url", help="A path, or postgresql://…"),
    output.json_option,
)
_of_a_gateway = _options(
    click.option("--host", "gateway_host", help="Address to listen on."),
    click.option("--port", "gateway_port", type=int, help="Port to listen on."),
    click.option(
        "--public",
        "gateway_public",
        is_flag=True,
        default=None,
        help="Allow an address beyond loopback.",
    ),
)
_of_a_worker = _options(
    click.option(
        "--app",
        "apps",
        multiple=True,
        metavar="MODULE:APP",
        help="Python intents to work on; may be repeated.",
    ),
    click.option("--concurrency", "worker_concurrency", type=int, help="Jobs to run at once."),
)


@click.command()
@_of_a_worker
@_of_a_gateway
@_of_all
def up(apps: tuple[str, ...], **flags: Any) -> None:
    """Run gateway, worker and keeper in one process."""
    _run(flags, gateway=True, worker=True, keeper=True, apps=apps)


@click.command()
@_of_a_worker
@click.option("--once", is_flag=True, help="Do what is there to do, then end.")
@click.option("--reload", is_flag=True, help="Start anew when a source file of the app changes.")
@_of_all
def worker(apps: tuple[str, ...], once: bool, reload: bool, **flags: Any) -> None:
    """Run a worker alone; any number may run, on any machine."""
    if once and reload:
        raise click.UsageError("--once ends by itself: there is nothing to reload.")
    if reload:
        _run_reloading(flags, apps)
    else:
        parts = {"gateway": False, "worker": True, "keeper": False, "apps": apps}
        _run(flags, until=_is_drained if once else None, **parts)


def _is_drained(service: Any) -> bool:
    from detent.worker.run_until_idle import drained

    return drained(service.worker)


def _run_reloading(flags: dict[str, Any], apps: tuple[str, ...]) -> None:
    """Until a file changes, then from the start; what cannot be imported waits to be put right."""
    from detent.cli import reload

    sources = reload.Sources()
    parts = {"gateway": False, "worker": True, "keeper": False, "apps": apps}
    try:
        changed = _run(flags, until=lambda _: sources.changed(), **parts)
    except Misconfigured as error:
        if error.setting != "app":
            raise
        output.complain(error)
        reload.wait_for_change(Path.cwd(), sources.began_ns)
        changed = True
    if changed:
        reload.start_anew()


@click.command()
@_of_a_gateway
@_of_all
def serve(**flags: Any) -> None:
    """Run a gateway alone."""
    _run(flags, gateway=True, worker=False, keeper=False)


@click.command()
@_of_all
def keeper(**flags: Any) -> None:
    """Run a keeper alone; any number may stand by."""
    _run(flags, gateway=False, worker=False, keeper=True)


def _run(
    flags: dict[str, Any], *, until: Callable[[Any], bool] | None = None, **parts: Any
) -> bool:
    """Run the parts until a signal comes, or until that is so; True if it was the latter."""
    from detent.service import WAIT_FOR_STORE_S, Service, open_core, run_until_stopped

    as_json = flags.pop("as_json", False)
    sys.path.insert(0, str(Path.cwd()))  # where people keep the modules that they name
    loaded = load(flags)
    program_log.set_up(loaded.settings)
    with open_core(loaded, WAIT_FOR_STORE_S) as core:
        service = Service(core, **parts)
        return run_until_stopped(
            service,
            ready=lambda: _say_ready(service, loaded.settings.data_dir, as_json),
            finished=lambda: until is not None and until(service),
        )


def _say_ready(service: Any, data_dir: Path, as_json: bool) -> None:
    if as_json:
        output.print_json({"data_dir": str(data_dir), "url": service.url})
        return
    output.say(f"Data: {data_dir}")
    if service.url is None:
        output.say("Ready. Ctrl-C stops.")
        return
    output.say(
        f"Ready: {service.url}  (Ctrl-C stops)\n"
        f"Page:  {_page(service)}\n"
        f"Token: {data_dir / TOKEN_FILE}"
    )
    if service.core.intents:
        output.say(_example(service, data_dir / TOKEN_FILE))


def _page(service: Any) -> str:
    """The dashboard's address with a login code; without one if the owner's token was revoked."""
    try:
        link = link_to(service.url, Direct(service.core))
    except Refused:
        return f"{service.url}/  (sign in with a code: POST /api/login/codes with a valid token)"
    more = "(signs in once, within a minute; `detent dashboard` makes another link)"
    return f"{link}\n       {more}"


def _example(service: Any, token: Path) -> str:
    """Something to try, with an intent that there is."""
    intents = service.core.intents
    body = EXAMPLE.format(intent=LIKELY if LIKELY in intents else next(iter(intents)))
    return (
        f"\nTry:   curl -X POST {service.url}/add -H 'Content-Type: application/json' \\\n"
        f'         -H "Authorization: Bearer $(cat {token})" \\\n'
        f"         -d '{body}'\n"
        "       detent tasks"
    )
