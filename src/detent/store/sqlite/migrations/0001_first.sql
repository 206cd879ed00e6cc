-- The log, and the rows that cache it. Columns are the fields of the entities in kernel/state.py.
-- Mappings, lists and free values are JSON text; times are microseconds since the epoch; flags are 0 and 1.
-- The states are those of the lifecycles; a test compares them. They are chains of OR because SQLite builds
-- a table for IN (…) at every execution, which cost a quarter of a job's whole life.

CREATE TABLE schema_migrations (
    number INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    digest TEXT NOT NULL,
    at INTEGER NOT NULL
) STRICT;

-- ---- the log --------------------------------------------------------------------------------

CREATE TABLE events (
    position INTEGER PRIMARY KEY,
    stream TEXT NOT NULL,
    version INTEGER NOT NULL,
    project TEXT NOT NULL,
    name TEXT NOT NULL,
    schema INTEGER NOT NULL,
    subject TEXT,
    at INTEGER NOT NULL,
    actor TEXT NOT NULL,
    data TEXT NOT NULL,
    digest BLOB,
    UNIQUE (stream, version)
) STRICT;

-- The last event stays, so that no position is ever given twice.
CREATE TRIGGER events_keep_the_last BEFORE DELETE ON events
WHEN old.position = (SELECT max(position) FROM events)
BEGIN
    SELECT RAISE(ABORT, 'the last event of the log stays');
END;

CREATE TABLE seals (
    from_position INTEGER NOT NULL,
    to_position INTEGER PRIMARY KEY,
    count INTEGER NOT NULL,
    chain BLOB NOT NULL,
    at INTEGER NOT NULL
) STRICT;

-- ---- what people and programs look at -------------------------------------------------------

CREATE TABLE tasks (
    id TEXT NOT NULL PRIMARY KEY,
    project TEXT NOT NULL,
    lifecycle TEXT NOT NULL,
    state TEXT NOT NULL,
    state_at INTEGER NOT NULL,
    intent TEXT NOT NULL,
    source TEXT NOT NULL,
    priority TEXT NOT NULL,
    root_id TEXT NOT NULL,
    parent_id TEXT,
    depth INTEGER NOT NULL,
    jobs INTEGER NOT NULL,
    job_id TEXT,
    open_dependencies INTEGER NOT NULL,
    failed_dependency TEXT,
    open_subtasks INTEGER NOT NULL,
    subtasks INTEGER NOT NULL,
    failed_subtask TEXT,
    blocked_by TEXT,
    retries_left INTEGER,
    rounds INTEGER NOT NULL,
    comment TEXT,
    session_id TEXT,
    budget INTEGER,
    spent INTEGER NOT NULL,
    cancel_reason TEXT,
    created_by TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    depends_on TEXT NOT NULL,
    blocked_detail TEXT NOT NULL,
    answered TEXT NOT NULL,
    options TEXT NOT NULL,
    version INTEGER NOT NULL,
    title TEXT NOT NULL,
    payload TEXT NOT NULL,
    tags TEXT NOT NULL,
    CONSTRAINT tasks_state CHECK (
        CASE lifecycle
            WHEN 'board' THEN
                state = 'inbox' OR state = 'todo' OR state = 'doing' OR state = 'blocked'
                OR state = 'done' OR state = 'cancelled'
            WHEN 'review' THEN
                state = 'pending' OR state = 'queued' OR state = 'running' OR state = 'ready'
                OR state = 'blocked' OR state = 'failed' OR state = 'timed_out'
                OR state = 'completed' OR state = 'cancelled' OR state = 'budget_exceeded'
        END IS TRUE
    )
) STRICT;
CREATE INDEX tasks_by_parent ON tasks (parent_id) WHERE parent_id IS NOT NULL;

CREATE TABLE dependencies (
    depends_on TEXT NOT NULL,
    task_id TEXT NOT NULL,
    PRIMARY KEY (depends_on, task_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX dependencies_by_task ON dependencies (task_id);

CREATE TABLE jobs (
    id TEXT NOT NULL PRIMARY KEY,
    project TEXT NOT NULL,
    state TEXT NOT NULL,
    state_at INTEGER NOT NULL,
    intent TEXT NOT NULL,
    priority TEXT NOT NULL,
    rank INTEGER NOT NULL,
    root_id TEXT NOT NULL,
    task_id TEXT,
    parent_job_id TEXT,
    queued_at INTEGER NOT NULL,
    not_before INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    lost INTEGER NOT NULL,
    fence INTEGER NOT NULL,
    nonce TEXT,
    worker TEXT,
    runs INTEGER NOT NULL,
    run_id TEXT,
    cancel_reason TEXT,
    plan_version INTEGER NOT NULL,
    replans INTEGER NOT NULL,
    concurrency_key TEXT,
    queue_deadline INTEGER,
    job_deadline INTEGER,
    error_class TEXT,
    error TEXT,
    created_at INTEGER NOT NULL,
    ended_at INTEGER,
    resuming INTEGER NOT NULL,
    failures TEXT NOT NULL,
    plan_wanted INTEGER NOT NULL,
    waited INTEGER NOT NULL,
    result TEXT NOT NULL,
    options TEXT NOT NULL,
    version INTEGER NOT NULL,
    payload TEXT NOT NULL,
    CONSTRAINT jobs_state CHECK (
        state = 'queued' OR state = 'running' OR state = 'waiting' OR state = 'parked'
        OR state = 'retrying' OR state = 'completed' OR state = 'failed' OR state = 'cancelled'
    )
) STRICT;
CREATE INDEX jobs_by_task ON jobs (task_id) WHERE task_id IS NOT NULL;
CREATE INDEX jobs_by_parent ON jobs (parent_job_id) WHERE parent_job_id IS NOT NULL;

-- ---- parts of a job -------------------------------------------------------------------------

CREATE TABLE runs (
    id TEXT NOT NULL PRIMARY KEY,
    job_id TEXT NOT NULL,
    state TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    fence INTEGER NOT NULL,
    worker TEXT NOT NULL,
    queued_at INTEGER NOT NULL,
    step TEXT,
    started_at INTEGER,
    ended_at INTEGER,
    outcome TEXT,
    exit_code INTEGER,
    error_class TEXT,
    error TEXT,
    session_id TEXT,
    cost INTEGER NOT NULL,
    tokens_in INTEGER NOT NULL,
    tokens_out INTEGER NOT NULL,
    progress REAL,
    note TEXT,
    CONSTRAINT runs_state CHECK (
        state = 'queued' OR state = 'running' OR state = 'succeeded' OR state = 'failed'
        OR state = 'timeout' OR state = 'cancelled'
    )
) STRICT;
CREATE INDEX runs_by_job ON runs (job_id);
CREATE INDEX runs_live ON runs (job_id) WHERE state IN ('queued', 'running');

CREATE TABLE evidence (
    run_id TEXT NOT NULL,
    file TEXT NOT NULL,
    kind TEXT NOT NULL,
    sha256 TEXT NOT NULL,
    size INTEGER NOT NULL,
    media_type TEXT NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (run_id, file)
) STRICT, WITHOUT ROWID;
CREATE INDEX evidence_by_blob ON evidence (sha256);

CREATE TABLE plans (
    job_id TEXT NOT NULL,
    plan_version INTEGER NOT NULL,
    document TEXT NOT NULL,
    PRIMARY KEY (job_id, plan_version)
) STRICT;

CREATE TABLE steps (
    job_id TEXT NOT NULL,
    plan_version INTEGER NOT NULL,
    name TEXT NOT NULL,
    state TEXT NOT NULL,
    state_at INTEGER NOT NULL,
    retries INTEGER NOT NULL,
    lost INTEGER NOT NULL,
    not_before INTEGER NOT NULL,
    run_id TEXT,
    resource TEXT,
    last_resource TEXT,
    held_until INTEGER,
    wait TEXT,
    reason TEXT,
    error_class TEXT,
    error TEXT,
    avoid TEXT NOT NULL,
    result TEXT NOT NULL,
    PRIMARY KEY (job_id, plan_version, name),
    CONSTRAINT steps_state CHECK (
        state = 'pending' OR state = 'waiting_deps' OR state = 'leased' OR state = 'running'
        OR state = 'succeeded' OR state = 'failed_retryable' OR state = 'retrying'
        OR state = 'failed_resource' OR state = 'switching_resource' OR state = 'failed_fatal'
        OR state = 'failed' OR state = 'needs_user' OR state = 'lease_timeout'
    )
) STRICT;
CREATE INDEX steps_by_resource ON steps (resource) WHERE resource IS NOT NULL;

CREATE TABLE waits (
    job_id TEXT NOT NULL,
    name TEXT NOT NULL,
    kind TEXT NOT NULL,
    begun_at INTEGER NOT NULL,
    step TEXT,
    missing INTEGER NOT NULL,
    due_at INTEGER,
    needs TEXT NOT NULL,
    detail TEXT NOT NULL,
    PRIMARY KEY (job_id, name)
) STRICT;
CREATE INDEX waits_due ON waits (due_at) WHERE due_at IS NOT NULL;

CREATE TABLE signals (
    job_id TEXT NOT NULL,
    name TEXT NOT NULL,
    at INTEGER NOT NULL,
    value TEXT NOT NULL,
    taken INTEGER NOT NULL,
    PRIMARY KEY (job_id, name)
) STRICT;

CREATE TABLE checkpoints (
    job_id TEXT NOT NULL,
    name TEXT NOT NULL,
    kind TEXT NOT NULL,
    step TEXT,
    done INTEGER NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (job_id, name)
) STRICT;

-- ---- the queue ------------------------------------------------------------------------------

-- Only work that may be claimed, now or at a known time, or that a worker holds. `asleep`: its time had not
-- come when the row was written; the claim wakes it.
CREATE TABLE queue (
    job_id TEXT NOT NULL PRIMARY KEY,
    root_id TEXT NOT NULL,
    project TEXT NOT NULL,
    intent TEXT NOT NULL,
    rank INTEGER NOT NULL,
    due_at INTEGER NOT NULL,
    asleep INTEGER NOT NULL,
    concurrency_key TEXT,
    worker TEXT,
    fence INTEGER NOT NULL DEFAULT 0,
    lease_until INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX queue_ready ON queue (rank) WHERE worker IS NULL AND asleep = 0;
-- For a claimer that may take some intents or projects only, or while a concurrency key is full: it never
-- walks past the work that it must leave.
CREATE INDEX queue_lanes ON queue (intent, project, concurrency_key IS NOT NULL, rank)
WHERE worker IS NULL AND asleep = 0;
CREATE INDEX queue_keys ON queue (intent, project, concurrency_key, rank)
WHERE worker IS NULL AND asleep = 0 AND concurrency_key IS NOT NULL;
CREATE INDEX queue_asleep ON queue (due_at) WHERE asleep = 1;
CREATE INDEX queue_leased ON queue (lease_until, intent, project) WHERE worker IS NOT NULL;
CREATE INDEX queue_leased_keys ON queue (concurrency_key)
WHERE worker IS NOT NULL AND concurrency_key IS NOT NULL;

CREATE TABLE deadlines (
    job_id TEXT NOT NULL PRIMARY KEY,
    due_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX deadlines_due ON deadlines (due_at);

CREATE TABLE idempotency_keys (
    project TEXT NOT NULL,
    key TEXT NOT NULL,
    digest TEXT NOT NULL,
    answer TEXT NOT NULL,
    expires_at INTEGER NOT NULL,
    PRIMARY KEY (project, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX idempotency_keys_expired ON idempotency_keys (expires_at);

-- ---- in and out -----------------------------------------------------------------------------

CREATE TABLE intake (
    id INTEGER PRIMARY KEY,
    operation TEXT NOT NULL,
    body TEXT NOT NULL,
    idempotency_key TEXT,
    at INTEGER,
    error TEXT
) STRICT;

CREATE TABLE outbox (
    id INTEGER PRIMARY KEY,
    target TEXT NOT NULL,
    stream TEXT NOT NULL,
    position INTEGER NOT NULL,
    body TEXT NOT NULL,
    due_at INTEGER NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0,
    error TEXT
) STRICT;
CREATE INDEX outbox_due ON outbox (due_at);

-- ---- small tables of named JSON values ------------------------------------------------------

CREATE TABLE projects (
    name TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE intents (
    name TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE workers (
    name TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE schedules (
    name TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE resources (
    name TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE limits (
    name TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE tokens (
    name TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE settings (
    name TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE system_state (
    name TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE webhooks (
    name TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE notion_pages (
    name TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
