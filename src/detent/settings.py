"""The settings: name, default, unit and meaning. The reference page is generated from here.

A table only: `settings_loader` reads the values.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FILE_NAME = "detent.toml"
#: Files in the data directory: where the running gateway listens, and the owner's token.
SERVER_FILE, TOKEN_FILE = "server.json", "token"
#: Other tables of the file: task types, agents, providers, concurrency limits, lifecycles.
TABLES = ("intents", "agents", "providers", "limits", "lifecycles")


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
    store_replica_url: str = setting(
        "", "URL of a standby of a PostgreSQL store, for lists, counts, metrics and the feed"
    )
    store_replica_max_lag_ms: int = setting(
        5_000, "Maximum time that the replica may be behind; above it, the primary is read", "ms"
    )
    blobs_url: str = setting(
        "", "S3 bucket for evidence, large values and output: s3://BUCKET/PREFIX; empty: the store"
    )
    blobs_endpoint: str = setting(
        "", "URL of S3-compatible storage; empty: the endpoint of AWS or AWS_ENDPOINT_URL"
    )
    blobs_region: str = setting("", "Region of the bucket; empty: AWS_REGION")
    gateway_host: str = setting("127.0.0.1", "Address that the gateway listens on")
    gateway_port: int = setting(5680, "Port that the gateway listens on", minimum=0, maximum=65_535)
    gateway_public: bool = setting(
        False, "Allow the gateway to listen on an address other than loopback"
    )
    gateway_hosts: tuple[str, ...] = setting(
        (),
        "Additional host names, with their ports, that the gateway accepts in the Host header",
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
    worker_sandbox_network: str = setting(
        "closed", "Network of programs in the sandbox: closed (only allowed hosts) or open"
    )
    worker_sandbox_hosts: tuple[str, ...] = setting(
        (), "Hosts that every program in the sandbox may reach, such as pypi.org"
    )
    worker_container_args: tuple[str, ...] = setting(
        (), "Additional arguments of podman create, such as --userns=keep-id"
    )
    worker_cgroup: str = setting(
        "", "Directory of cgroups v2 for the programs of runs; empty: none are used"
    )
    worker_nice: int = setting(
        7, "How much lower the CPU priority of programs of runs is than the worker's", "", 0, 19
    )
    worker_memory_reserve_percent: int = setting(
        5, "Memory of the machine below which a worker lowers its slots; 0: never", "%", 0, 90
    )
    worker_limit_memory_mb: int = setting(
        0, "Maximum memory of the programs of one run; 0: no limit", "MB", 0
    )
    worker_limit_cpu_s: int = setting(
        0, "Maximum CPU time of the programs of one run; 0: no limit", "s", 0
    )
    worker_limit_processes: int = setting(
        4_096, "Maximum number of processes and threads of one run; 0: no limit", minimum=0
    )
    worker_limit_disk_mb: int = setting(
        0, "Maximum disk space of a run's directory and workspace; 0: no limit", "MB", 0
    )
    worker_output_limit: int = setting(
        10_485_760, "Maximum size of the stored output of one run", "bytes", 0
    )
    ray_address: str = setting(
        "auto", "Address of the Ray cluster: HOST:PORT; auto: the node on the worker's machine"
    )
    ray_orphan_ms: int = setting(
        900_000, "Time after which Ray work that no worker follows is cancelled", "ms", 60_000
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
    health_p95_duration_ok_below_s: int = setting(
        300, "The duration of runs is shown as ok if its p95 is below this", "s"
    )
    health_failures_ok_below: int = setting(
        5, "The number of failures in 24 h is shown as ok if it is below this", minimum=0
    )
    health_queue_delay_ok_below_s: int = setting(
        60, "The time that jobs are queued is shown as ok if its p95 is below this", "s"
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

    oidc_issuer: str = setting(
        "", "URL of the OpenID Connect provider through which people sign in; empty: none"
    )
    oidc_client_id: str = setting("", "Client id of this gateway at the provider")
    oidc_client_secret: str = setting(
        "", "Client secret as env:NAME or file:PATH; empty: a public client, with PKCE alone"
    )
    oidc_url: str = setting(
        "", "URL of this gateway for browsers; empty: http:// and the Host header of the request"
    )
    oidc_scopes: tuple[str, ...] = setting(
        ("openid", "email", "profile"), "Scopes that are requested from the provider"
    )
    oidc_name_claim: str = setting("email", "Claim that is the name of a person in the log")
    oidc_groups_claim: str = setting("groups", "Claim that lists the groups of a person")
    oidc_roles: tuple[str, ...] = setting(
        (), "Roles of groups and people: GROUP=ROLE, GROUP=ROLE:PROJECT or user:NAME=ROLE"
    )
    oidc_label: str = setting("", "Name of the provider on the sign-in page; empty: its host")
    oidc_session_hours: int = setting(
        12, "Duration of a session of a person, after which they sign in again", "h", 1, 720
    )
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
    github_token: str = setting(
        "", "Token of GitHub as env:NAME or file:PATH; empty: GitHub is not used"
    )
    github_url: str = setting("https://api.github.com", "URL of GitHub's REST API")
    github_repositories: tuple[str, ...] = setting(
        (), "Repositories whose issues become tasks, with the task type: OWNER/NAME=INTENT"
    )
    github_label: str = setting("detent", "Label by which an issue becomes a task; empty: none")
    github_assignee: str = setting(
        "", "Account to which an issue is assigned to become a task; empty: none"
    )
    github_command: str = setting(
        "/detent", "Beginning of a comment by which an issue becomes a task; empty: none"
    )
    github_merge: str = setting(
        "", "How approved pull requests are merged: merge, squash or rebase; empty: by people"
    )
    github_webhook_secret: str = setting(
        "", "Secret of GitHub's webhook as env:NAME or file:PATH; empty: no deliveries are accepted"
    )
    github_interval_ms: int = setting(
        60_000, "Interval at which GitHub is polled for what no delivery has reported", "ms"
    )
    gitlab_token: str = setting(
        "", "Token of GitLab as env:NAME or file:PATH; empty: GitLab is not used"
    )
    gitlab_url: str = setting("https://gitlab.com", "URL of GitLab")
    gitlab_repositories: tuple[str, ...] = setting(
        (), "Projects whose issues become tasks, with the task type: GROUP/NAME=INTENT"
    )
    gitlab_label: str = setting("detent", "Label by which an issue becomes a task; empty: none")
    gitlab_assignee: str = setting(
        "", "Account to which an issue is assigned to become a task; empty: none"
    )
    gitlab_command: str = setting(
        "/detent", "Beginning of a comment by which an issue becomes a task; empty: none"
    )
    gitlab_merge: str = setting(
        "", "How approved merge requests are merged: merge or squash; empty: by people"
    )
    gitlab_webhook_secret: str = setting(
        "", "Signing token (whsec_…) or secret token of GitLab's webhook as env:NAME or file:PATH"
    )
    gitlab_interval_ms: int = setting(
        60_000, "Interval at which GitLab is polled for what no delivery has reported", "ms"
    )
    slack_bot_token: str = setting(
        "", "Bot token of the Slack app (xoxb-…) as env:NAME or file:PATH; empty: no Slack"
    )
    slack_app_token: str = setting(
        "", "App-level token (xapp-…) as env:NAME or file:PATH; Slack sends clicks by Socket Mode"
    )
    slack_signing_secret: str = setting(
        "", "Signing secret as env:NAME or file:PATH; the gateway receives clicks over HTTP"
    )
    slack_channels: tuple[str, ...] = setting(
        (), "Channels by id, with filters: 'C0123ABCD project=web intent=fix kind=review,question'"
    )
    slack_users: tuple[str, ...] = setting(
        (), "Slack users and the tokens of detent that they act with, such as U0123ABCD=ada"
    )
    slack_dashboard_url: str = setting(
        "", "Address of the dashboard for links in messages; empty: no links"
    )
    slack_url: str = setting("https://slack.com/api/", "URL of Slack's Web API")
    slack_interval_ms: int = setting(
        1_000, "Minimum interval at which messages in Slack are updated", "ms", minimum=1
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
