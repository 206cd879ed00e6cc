"""The settings: name, default, unit and meaning. The reference page is generated from here.

A value comes from a flag, else from the environment, else from the file, else it is the default;
`Loaded.origins` records which. Reads the configuration file and the environment, nothing else.
"""

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from detent.errors import Misconfigured

FILE_NAME = "detent.toml"
#: Files in the data directory: where the running gateway listens, and the owner's token.
SERVER_FILE, TOKEN_FILE = "server.json", "token"
#: Other tables of the file: task types, agents, concurrency limits, files of lifecycles.
TABLES = ("intents", "agents", "limits", "lifecycles")
TYPE_NAMES = {str: "a string", int: "an integer", bool: "true or false", tuple: "a list"}


def setting(
    default: Any, meaning: str, unit: str = "", minimum: int = 1, maximum: int | None = None
) -> Any:
    """One setting: its default, its meaning, its unit, and the range of a number."""
    bounds = {"minimum": minimum, "maximum": maximum}
    return field(default=default, metadata={"meaning": meaning, "unit": unit, **bounds})


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings. `gateway_port` is `[gateway] port` in the file and `gateway.port` elsewhere."""

    store_url: str = setting(
        "", "URL or path of the store: sqlite:///PATH, PATH or postgresql://…; empty: in data_dir"
    )
    store_data_dir: str = setting(
        "", "Directory of the database, the token, the run directories and state.json"
    )
    gateway_host: str = setting("127.0.0.1", "Address that the gateway listens on")
    gateway_port: int = setting(5680, "Port that the gateway listens on", minimum=0, maximum=65_535)
    gateway_public: bool = setting(
        False, "Allow the gateway to listen on an address other than loopback"
    )
    gateway_hosts: tuple[str, ...] = setting(
        (), "Additional host names that the gateway accepts in the Host header"
    )
    gateway_metrics_open: bool = setting(False, "Serve /metrics without a token; only on loopback")
    gateway_body_limit: int = setting(10_485_760, "Maximum size of a request body", "bytes")
    gateway_depth_limit: int = setting(64, "Maximum nesting depth of a JSON body")
    gateway_text_limit: int = setting(
        1_048_576, "Maximum length of a string in a JSON body", "characters"
    )
    gateway_header_timeout_ms: int = setting(
        10_000, "Maximum time for a client to send the headers of a request", "ms"
    )
    gateway_body_timeout_ms: int = setting(
        30_000, "Maximum time for a client to send the next 1,024 bytes of a body", "ms"
    )
    gateway_connections: int = setting(
        2_000, "Maximum number of open connections, within the limit of open files"
    )
    gateway_connections_per_client: int = setting(
        1_000,
        "Maximum number of open connections per client address; a reverse proxy is one client",
    )
    worker_name: str = setting("", "Name of the worker; empty: the host name and the process id")
    worker_concurrency: int = setting(
        8, "Maximum number of jobs that one worker runs at the same time"
    )
    worker_lease_ms: int = setting(
        30_000, "Duration of a lease: a worker that does not renew it loses the job", "ms"
    )
    worker_heartbeat_ms: int = setting(10_000, "Interval at which a worker renews its leases", "ms")
    worker_poll_ms: int = setting(
        1_000, "Interval at which an idle worker polls for jobs if it gets no notification", "ms"
    )
    worker_grace_ms: int = setting(
        10_000, "Time between SIGTERM and SIGKILL of a command, and time to drain a worker", "ms", 0
    )
    worker_environment: tuple[str, ...] = setting(
        ("HOME", "PATH", "LANG", "LC_ALL", "TZ", "TMPDIR"),
        "Environment variables that commands inherit",
    )
    worker_session_grace_ms: int = setting(
        10_000, "Time that a job waits for the worker that holds its agent session", "ms", 0
    )
    worker_sandbox: str = setting("none", "Sandbox for the programs of runs: none or bwrap")
    worker_sandbox_writable: tuple[str, ...] = setting(
        (), "Paths that programs in the sandbox may write to, such as ~/.claude"
    )
    worker_output_limit: int = setting(
        10_485_760, "Maximum size of the stored output of one run", "bytes", 0
    )
    keeper_interval_ms: int = setting(
        1_000, "Interval between two passes of the keeper (scheduler and maintenance)", "ms"
    )
    keeper_blocked_ms: int = setting(
        300_000, "Interval at which the keeper checks blocked tasks", "ms"
    )
    retention_done_days: int = setting(30, "Retention time of work that is done", "days", 0)
    retention_cancelled_days: int = setting(7, "Retention time of cancelled work", "days", 0)
    retention_failed_days: int = setting(
        14, "Retention time of work that failed permanently", "days", 0
    )
    retention_run_directory_days: int = setting(
        30, "Retention time of a run's directory after the run ended", "days", 0
    )
    retention_output_days: int = setting(
        30, "Retention time of a run's output after the run ended", "days", 0
    )
    health_success_ok_over_percent: int = setting(
        95, "Health is ok if the success rate is above this", "%", 0
    )
    health_success_degraded_from_percent: int = setting(
        80, "Health is unhealthy if the success rate is below this", "%", 0
    )
    health_queue_ok_below: int = setting(
        10, "Health is ok if fewer jobs than this are queued", minimum=0
    )
    health_queue_degraded_to: int = setting(
        50, "Health is unhealthy if more jobs than this are queued", minimum=0
    )
    health_blocked_ok_below: int = setting(
        3, "Health is ok if fewer tasks than this are blocked", minimum=0
    )
    health_blocked_degraded_to: int = setting(
        10, "Health is unhealthy if more tasks than this are blocked", minimum=0
    )
    health_mean_duration_ok_below_s: int = setting(
        300, "The mean duration of runs is shown as ok if it is below this", "s"
    )
    health_failures_ok_below: int = setting(
        5, "The number of failures in 24 h is shown as ok if it is below this", minimum=0
    )
    engine_key_lifetime_s: int = setting(604_800, "Retention time of an idempotency key", "s")
    intake_sources: tuple[str, ...] = setting(
        ("cloudcode", "notion", "chat", "n8n", "webhook", "heartbeat", "cli", "api"),
        "Sources that submitted tasks may name",
    )
    intake_projects_locked: bool = setting(False, "Refuse tasks of projects that do not exist yet")
    run_subtask_depth: int = setting(
        3, "Maximum depth of subtasks that runs create with their own tokens", minimum=0
    )
    run_subtasks: int = setting(
        100, "Maximum number of subtasks below one task that its runs create", minimum=0
    )
    run_subtasks_per_minute: int = setting(
        30, "Maximum number of subtasks that one run creates per minute", minimum=0
    )
    run_writes_per_minute: int = setting(
        240, "Maximum number of other reports of one run per minute, with its own token", minimum=0
    )
    run_evidence_limit: int = setting(
        524_288, "Maximum size of evidence that a run adds with its own token", "bytes", 0
    )
    run_evidence_files: int = setting(100, "Maximum number of evidence files of one run", minimum=0)

    webhooks_allow: tuple[str, ...] = setting(
        (), "Private networks that webhooks may reach, such as 10.0.0.0/8"
    )
    notion_token: str = setting(
        "", "Token of Notion as env:NAME or file:PATH; empty: no synchronisation"
    )
    notion_parent: str = setting("", "Id of the Notion page that contains the databases")
    notion_url: str = setting("https://api.notion.com", "URL of Notion's API")
    notion_interval_ms: int = setting(
        30_000, "Interval at which Notion is synchronised", "ms", minimum=1
    )
    traces_enabled: bool = setting(
        False, "Export traces to the endpoint that the OTEL_* variables configure"
    )
    log_format: str = setting("text", "Format of the program's log on stderr: text or json")
    log_level: str = setting("info", "Minimum level of log lines: debug, info, warning or error")

    @property
    def data_dir(self) -> Path:
        return Path(self.store_data_dir)

    @property
    def url(self) -> str:
        return self.store_url or str(self.data_dir / "detent.db")


@dataclass(frozen=True, slots=True)
class Loaded:
    """Settings, the origin of each, and the other tables of the file (intents, agents, …)."""

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
    """The configuration file in this directory or in one above it."""
    for directory in (start, *start.parents):
        if (directory / FILE_NAME).is_file():
            return directory / FILE_NAME
    return None


def default_data_dir(file: Path | None) -> Path:
    """Beside the configuration file if there is one, else in the user's data directory."""
    if file:
        return file.parent / ".detent"
    import platformdirs  # imported late: commands start fast, and most find a file

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
            hint="Correct the file. It must contain TOML, and detent must be allowed to read it.",
        ) from None
    known = {name(each.name) for each in fields(Settings)}
    for section in document.keys() - _sections() - {*TABLES}:
        raise _unknown_section(file, section)
    for section in _sections() & document.keys():
        if not isinstance(document[section], dict):
            raise Misconfigured(
                f"{file}: {section} must be a section, [{section}].", setting=section
            )
        for key in document[section]:
            if f"{section}.{key}" not in known:
                allowed = ", ".join(
                    sorted(each for each in known if each.startswith(section + "."))
                )
                raise Misconfigured(
                    f"{file}: there is no setting {section}.{key}.",
                    setting=f"{section}.{key}",
                    hint=f"Known settings: {allowed}.",
                )
    return document


def _unknown_section(file: Path, section: str) -> Misconfigured:
    from difflib import get_close_matches  # imported late: commands start fast

    listed = sorted(_sections() | {*TABLES})
    meant = [f"Did you mean {each}?" for each in get_close_matches(section, listed, 1)]
    return Misconfigured(
        f"{file}: there is no section {section}.",
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
    """Return the value; refuse a number outside the range of its setting."""
    minimum, maximum = each.metadata["minimum"], each.metadata["maximum"]
    if type(value) is int and not (minimum <= value and (maximum is None or value <= maximum)):
        allowed = f"at least {minimum}" if maximum is None else f"from {minimum} to {maximum}"
        raise Misconfigured(f"{where} must be {allowed}, not {value}.", setting=name(each.name))
    return value


def _read_text(text: str, default: Any, where: str) -> Any:
    """A value from the environment, of the default's type."""
    if isinstance(default, bool):
        if text.lower() not in ("true", "false", "1", "0", "yes", "no"):
            raise Misconfigured(f"{where} must be true or false, not {text!r}.", setting=where)
        return text.lower() in ("true", "1", "yes")
    if isinstance(default, int):
        if not text.lstrip("-").isdigit():
            raise Misconfigured(f"{where} must be an integer, not {text!r}.", setting=where)
        return int(text)
    if isinstance(default, tuple):
        return tuple(part.strip() for part in text.split(",") if part.strip())
    return text


def _checked(value: Any, default: Any, where: str) -> Any:
    """A value from the file, which must have the default's type."""
    if isinstance(default, tuple) and isinstance(value, list):
        return tuple(value)
    if type(value) is not type(default):
        wanted = TYPE_NAMES[type(default)]
        raise Misconfigured(f"{where} must be {wanted}, not {value!r}.", setting=where)
    return value
