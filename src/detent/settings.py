"""Every setting once: name, default, unit and meaning. The reference page is generated from here.

A value comes from a flag, else from the environment, else from the file, else it is the default;
`Loaded.origins` says which. May read the configuration file and the environment, nothing else.
"""

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from detent.errors import Misconfigured

FILE_NAME = "detent.toml"
#: Files of the data directory that several parts know: a live gateway's word, the owner's token.
SERVER_FILE, TOKEN_FILE = "server.json", "token"
#: What else a file may have: how work is done, by whom, and how much of it at once.
TABLES = ("intents", "agents", "limits")


def setting(
    default: Any, meaning: str, unit: str = "", least: int = 1, most: int | None = None
) -> Any:
    """One setting: its default, what it means, its unit, and between what a number must be."""
    bounds = {"least": least, "most": most}
    return field(default=default, metadata={"meaning": meaning, "unit": unit, **bounds})


@dataclass(frozen=True, slots=True)
class Settings:
    """Names are written with a dot in the file (`[gateway] port`) and by `name("gateway_port")`."""

    store_url: str = setting("", "Where the data is: a path or postgresql://…; empty: in data_dir")
    store_data_dir: str = setting("", "Directory for the database, token, runs and state.json")
    gateway_host: str = setting("127.0.0.1", "Address that the gateway listens on")
    gateway_port: int = setting(5680, "Port that the gateway listens on", least=0, most=65_535)
    gateway_public: bool = setting(False, "Allow an address beyond loopback")
    gateway_hosts: tuple[str, ...] = setting((), "Further Host names that the gateway answers to")
    gateway_metrics_open: bool = setting(False, "Serve /metrics without a token; on loopback only")
    gateway_body_limit: int = setting(10_485_760, "Largest request body", "bytes")
    gateway_depth_limit: int = setting(64, "Deepest nesting of a JSON body")
    gateway_text_limit: int = setting(1_048_576, "Longest string in a JSON body", "characters")
    gateway_header_timeout_ms: int = setting(
        10_000, "How long a client may take for the headers of a request", "ms"
    )
    gateway_body_timeout_ms: int = setting(
        30_000, "How long a client may take for the next 1,024 bytes of a body", "ms"
    )
    gateway_connections: int = setting(2_000, "Most open connections, within the limit of files")
    gateway_connections_per_client: int = setting(
        1_000, "Most open connections of one client address; a reverse proxy is one client"
    )
    worker_name: str = setting("", "Name of the worker; empty: host name and process id")
    worker_concurrency: int = setting(8, "How many jobs one worker runs at once")
    worker_lease_ms: int = setting(30_000, "How long a claim holds without a heartbeat", "ms")
    worker_heartbeat_ms: int = setting(10_000, "How often a worker renews its leases", "ms")
    worker_poll_ms: int = setting(1_000, "How often an idle worker looks without a ring", "ms")
    worker_grace_ms: int = setting(
        10_000, "Time between SIGTERM and SIGKILL, and to drain", "ms", 0
    )
    worker_environment: tuple[str, ...] = setting(
        ("HOME", "PATH", "LANG", "LC_ALL", "TZ", "TMPDIR"), "Variables that commands may see"
    )
    worker_session_grace_ms: int = setting(
        10_000, "How long work waits for the worker that holds its agent session", "ms", 0
    )
    worker_sandbox: str = setting("none", "How programs of runs are kept apart: none or bwrap")
    worker_sandbox_writable: tuple[str, ...] = setting(
        (), "Paths that programs in the sandbox may write to, like ~/.claude"
    )
    worker_output_limit: int = setting(
        10_485_760, "Most output that is kept of one run", "bytes", 0
    )
    keeper_interval_ms: int = setting(1_000, "How often the keeper makes a pass", "ms")
    keeper_blocked_ms: int = setting(300_000, "How often blocked tasks are looked at", "ms")
    retention_done_days: int = setting(30, "How long work that is done is kept", "days", 0)
    retention_cancelled_days: int = setting(7, "How long cancelled work is kept", "days", 0)
    retention_failed_days: int = setting(
        14, "How long work that failed for good is kept", "days", 0
    )
    retention_run_directory_days: int = setting(
        30, "How long the directory of a run is kept after its end", "days", 0
    )
    retention_output_days: int = setting(
        30, "How long the output of a run is kept after its end", "days", 0
    )
    health_success_ok_over_percent: int = setting(95, "Success rate over which all is ok", "%", 0)
    health_success_degraded_from_percent: int = setting(
        80, "Success rate below which it is unhealthy", "%", 0
    )
    health_queue_ok_below: int = setting(10, "Queue below which all is ok", least=0)
    health_queue_degraded_to: int = setting(50, "Queue over which it is unhealthy", least=0)
    health_blocked_ok_below: int = setting(3, "Blocked tasks below which all is ok", least=0)
    health_blocked_degraded_to: int = setting(
        10, "Blocked tasks over which it is unhealthy", least=0
    )
    health_mean_duration_ok_below_s: int = setting(300, "Mean duration of a run that is well", "s")
    health_failures_ok_below: int = setting(5, "Failures in 24 h that are well", least=0)
    engine_key_lifetime_s: int = setting(604_800, "How long an idempotency key is kept", "s")
    intake_sources: tuple[str, ...] = setting(
        ("cloudcode", "notion", "chat", "n8n", "webhook", "heartbeat", "cli", "api"),
        "Sources that tasks may come from",
    )
    intake_projects_locked: bool = setting(False, "Refuse tasks of projects that are not known yet")
    run_subtask_depth: int = setting(
        3, "How deep runs may nest subtasks by their own token", least=0
    )
    run_subtasks: int = setting(100, "Most subtasks below one task that its runs may make", least=0)
    run_subtasks_per_minute: int = setting(
        30, "Most subtasks that one run may make in a minute", least=0
    )
    run_writes_per_minute: int = setting(
        240, "Most other reports of one run by its own token", least=0
    )
    run_evidence_limit: int = setting(524_288, "Largest evidence by a run's own token", "bytes", 0)
    run_evidence_files: int = setting(100, "Most evidence that a run may have to add more", least=0)

    webhooks_allow: tuple[str, ...] = setting(
        (), "Private networks that webhooks may reach, like 10.0.0.0/8"
    )
    notion_token: str = setting("", "Notion's token as env:NAME or file:PATH; empty: no sync")
    notion_parent: str = setting("", "Id of the page in Notion that the databases stand on")
    notion_url: str = setting("https://api.notion.com", "Where Notion's API is")
    notion_interval_ms: int = setting(
        30_000, "How often Notion is brought up to date", "ms", least=1
    )
    traces_enabled: bool = setting(False, "Export traces, to where the OTEL_* variables say")
    log_format: str = setting("text", "How the program logs to stderr: text or json")
    log_level: str = setting("info", "What it logs: debug, info, warning or error, and worse")

    @property
    def data_dir(self) -> Path:
        return Path(self.store_data_dir)

    @property
    def url(self) -> str:
        return self.store_url or str(self.data_dir / "detent.db")


@dataclass(frozen=True, slots=True)
class Loaded:
    """Settings, where each one came from, and the rest of the file (intents, agents, …)."""

    settings: Settings
    origins: Mapping[str, str]
    tables: Mapping[str, Any]
    file: Path | None


def name(field_name: str) -> str:
    """The dotted name of a setting: `gateway_port` is `gateway.port`."""
    return field_name.replace("_", ".", 1)


def load(
    flags: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
    file: Path | None = None,
) -> Loaded:
    """Settings from flags over environment over file over defaults."""
    environment = os.environ if environment is None else environment
    file = file or find_file(Path.cwd())
    document = _read(file) if file else {}
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for each in fields(Settings):
        values[each.name], origins[each.name] = _value(
            each, flags or {}, environment, document, file
        )
    if not values["store_data_dir"]:
        values["store_data_dir"] = str(default_data_dir(file))
    tables = {key: value for key, value in document.items() if key not in _sections()}
    return Loaded(Settings(**values), origins, tables, file)


def find_file(start: Path) -> Path | None:
    """The configuration file here or in a directory above."""
    for directory in (start, *start.parents):
        if (directory / FILE_NAME).is_file():
            return directory / FILE_NAME
    return None


def default_data_dir(file: Path | None) -> Path:
    """Beside the configuration file if there is one, else in the user's data directory."""
    if file:
        return file.parent / ".detent"
    import platformdirs  # commands are quick to start, and most find a file

    return Path(platformdirs.user_data_dir("detent"))


def _sections() -> set[str]:
    return {name(each.name).split(".")[0] for each in fields(Settings)}


def _read(file: Path) -> dict[str, Any]:
    try:
        document = tomllib.loads(file.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise Misconfigured(
            f"{file} cannot be read: {error}",
            setting=str(file),
            hint="Correct it; it must be TOML, in a file that detent may read.",
        ) from None
    known = {name(each.name) for each in fields(Settings)}
    for section in document.keys() - _sections() - {*TABLES}:
        raise _unknown_section(file, section)
    for section in _sections() & document.keys():
        if not isinstance(document[section], dict):
            raise Misconfigured(
                f"{file}: {section} must be a section, [{section}]", setting=section
            )
        for key in document[section]:
            if f"{section}.{key}" not in known:
                allowed = ", ".join(
                    sorted(each for each in known if each.startswith(section + "."))
                )
                raise Misconfigured(
                    f"{file}: there is no setting {section}.{key}",
                    setting=f"{section}.{key}",
                    hint=f"Known settings: {allowed}.",
                )
    return document


def _unknown_section(file: Path, section: str) -> Misconfigured:
    from difflib import get_close_matches  # commands are quick to start, and few need it

    listed = sorted(_sections() | {*TABLES})
    meant = [f"Did you mean {each}?" for each in get_close_matches(section, listed, 1)]
    return Misconfigured(
        f"{file}: there is no section {section}",
        setting=section,
        hint=" ".join([*meant, f"Known sections: {', '.join(listed)}."]),
    )


def _value(
    each: Any,
    flags: Mapping[str, Any],
    environment: Mapping[str, str],
    document: Mapping[str, Any],
    file: Path | None,
) -> tuple[Any, str]:
    section, key = name(each.name).split(".")
    variable = f"DETENT_{each.name.upper()}"
    if flags.get(each.name) is not None:
        return _in_range(flags[each.name], each, name(each.name)), "flag"
    if variable in environment:
        value = _read_text(environment[variable], each.default, variable)
        return _in_range(value, each, variable), f"environment {variable}"
    if key in document.get(section, {}):
        value = _checked(document[section][key], each.default, f"{section}.{key}")
        return _in_range(value, each, f"{section}.{key}"), str(file)
    return each.default, "default"


def _in_range(value: Any, each: Any, where: str) -> Any:
    """The value; a number with which detent would stand still or forget too much is refused."""
    least, most = each.metadata["least"], each.metadata["most"]
    if type(value) is int and not (least <= value and (most is None or value <= most)):
        wanted = f"at least {least}" if most is None else f"from {least} to {most}"
        raise Misconfigured(f"{where} must be {wanted}, not {value}.", setting=name(each.name))
    return value


def _read_text(text: str, default: Any, where: str) -> Any:
    """A value from the environment, of the default's type."""
    if isinstance(default, bool):
        if text.lower() not in ("true", "false", "1", "0", "yes", "no"):
            raise Misconfigured(f"{where} must be true or false, not {text!r}", setting=where)
        return text.lower() in ("true", "1", "yes")
    if isinstance(default, int):
        if not text.lstrip("-").isdigit():
            raise Misconfigured(f"{where} must be a whole number, not {text!r}", setting=where)
        return int(text)
    if isinstance(default, tuple):
        return tuple(part.strip() for part in text.split(",") if part.strip())
    return text


def _checked(value: Any, default: Any, where: str) -> Any:
    """A value from the file, which must have the default's type."""
    if isinstance(default, tuple) and isinstance(value, list):
        return tuple(value)
    if type(value) is not type(default):
        wanted = type(default).__name__
        raise Misconfigured(f"{where} must be of type {wanted}, not {value!r}", setting=where)
    return value
